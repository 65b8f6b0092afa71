"""``oncelog batch complete --accept-loss``: the last resort for a decided batch that its target never takes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

import oncelog
from oncelog.batches.attempt import Batch
from oncelog.batches.rules import BatchRequest
from oncelog.batches.run import BatchDriver
from oncelog.batches.two_functions import OnceTarget
from oncelog.cli import main
from oncelog.errors import NotCommittedError
from oncelog.metadata import open_metadata
from oncelog.ports import ZnodeStore


class Shelf:
    """A store that refuses some rows after the decision, and the ledger of its sink."""

    def __init__(self, ledger: str, store: ZnodeStore) -> None:
        self.ledger = ledger
        self.rows: dict[str, str] = {}
        self.store = store

    def run(self, batch_id: int, row: str, run: str) -> None:
        def write(row: object, token: str) -> None:
            if row == "too large":
                raise OverflowError("the row is too large")
            self.rows[token] = str(row)

        target = OnceTarget(self.store, write, self.rows.__contains__)
        request = BatchRequest("copies", "query", "sink", run, batch_id, f"offsets of {batch_id}")
        BatchDriver(target).run(Batch(request, row))

    def ask(self, *words: str, exit_code: int = 0) -> str:
        done = CliRunner().invoke(main, ["--znodes", self.ledger, *words])
        assert done.exit_code == exit_code, done.output
        return done.output


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    ledger = str(tmp_path / "ledger")
    with closing(open_metadata(ledger)) as store:
        yield Shelf(ledger, store)


def test_a_batch_is_given_up_once_and_what_it_was_can_be_read(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "an-operator")
    for run in ("run-1", "run-2"):
        with pytest.raises(NotCommittedError, match=r"restart the query.*OverflowError: the row is too large"):
            shelf.run(0, "too large", run)

    assert shelf.ask("batch", "complete", "copies", "--accept-loss", "--reason", "row 7 is too large") == (
        "batch 0 of copies is given up, with 3 parts that will never be visible; "
        "the query continues with the next batch\n"
    )

    shelf.run(0, "too large", "run-3")
    shelf.run(1, "fits", "run-3")
    assert list(shelf.rows.values()) == ["fits"]
    again = shelf.ask("batch", "complete", "copies", "--accept-loss")
    assert again == "copies has no decided batch that is not complete\n"
    (ledger,) = json.loads(shelf.ask("batch", "show", "copies", "--json"))["ledgers"]
    (given_up,) = ledger["given_up"]
    assert given_up["parts"][1] == "0"
    assert {name: given_up[name] for name in ("batch_id", "round", "operator", "reason", "was_shown")} == {
        "batch_id": 0,
        "round": 1,
        "operator": "an-operator",
        "reason": "row 7 is too large",
        "was_shown": False,
    }
    shown = shelf.ask("batch", "show", "copies")
    assert "an-operator" in shown
    assert "row 7 is too large" in shown


def test_a_ledger_in_a_log_is_named_by_the_path_of_the_log(tmp_path: Path) -> None:
    with oncelog.open(tmp_path / "log") as log:
        shelf = Shelf("", log.services.store)
        with pytest.raises(NotCommittedError):
            shelf.run(0, "too large", "run-1")

        words = ["--path", str(tmp_path / "log"), "batch", "complete", "copies", "--accept-loss"]
        assert "batch 0 of copies is given up" in CliRunner().invoke(main, words).output

        shelf.run(1, "fits", "run-2")
        assert list(shelf.rows.values()) == ["fits"]


def test_an_undecided_batch_and_an_unknown_prefix_are_left_alone(shelf: Shelf) -> None:
    shelf.run(0, "fits", "run-1")

    assert "no decided batch" in shelf.ask("batch", "complete", "copies", "--accept-loss")
    assert "no sink has written under this prefix" in shelf.ask(
        "batch", "complete", "cpies", "--accept-loss", exit_code=2
    )
    words = ("batch", "complete", "copies", "--accept-loss", "--option", "path=/out")
    assert "takes no --option" in shelf.ask(*words, exit_code=2)
    assert list(shelf.rows.values()) == ["fits"]
