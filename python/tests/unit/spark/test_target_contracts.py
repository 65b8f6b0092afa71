"""The contract of targets, on the embedded log and on a folder of text files. Neither needs Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from oncelog.batches.committables import CommittableAttempt
from oncelog.batches.giving_up import REMEMBERED_PARTS, give_up, read_given_up
from oncelog.batches.steps import REMEMBERED_ROUNDS
from oncelog.crash_points import CrashPoint
from oncelog.errors import CorruptDataError, NotCommittedError
from oncelog.testing.target_contract import (
    PREFIX,
    StoppedOnPurposeError,
    TargetContract,
    at,
    stop,
)
from tests.support.spark.targets import TEXTS, LogTargetWorld, TextFolderWorld


class TestLogTarget(TargetContract):
    world_class = LogTargetWorld


class TestCommitterTarget(TargetContract):
    world_class = TextFolderWorld


def test_what_dead_drivers_wrote_and_did_not_decide_is_removed_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = TextFolderWorld(tmp_path)
    with monkeypatch.context() as dead:
        dead.setattr(CommittableAttempt, "abort", lambda _: None)  # who is killed aborts nothing
        for number in range(10):
            with at(CrashPoint.ROUND_DECIDE, stop), pytest.raises(StoppedOnPurposeError):
                world.run(0, ["a"], f"run-{number}")
    assert len(world.place.left_over) == 1, "each removed what the one before it had left"

    seen: list[int] = []
    with at(CrashPoint.ROUND_DECIDE, lambda: seen.append(len(world.place.left_over))):
        world.run(0, ["a"], "last")

    assert seen == [1], "only what the last one wrote itself"
    assert world.place.left_over == []
    rounds = TEXTS.read_rounds(world.store, PREFIX)
    assert len(rounds) <= REMEMBERED_ROUNDS + 1
    world.close()


def test_a_piece_that_is_gone_is_an_error_each_time_until_it_is_back(tmp_path: Path) -> None:
    world = TextFolderWorld(tmp_path)
    with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
        world.run(0, ["a"])
    (piece,) = world.place.left_over
    away = piece.rename(tmp_path / "away")

    for run in ("run-2", "run-3"):
        with pytest.raises(NotCommittedError, match=r"FileNotFoundError.*decided_batch_id=0"):
            world.run(1, ["b"], run)
    away.rename(piece)
    world.run(1, ["b"], "run-4")

    assert world.holds(["a"], ["b"])
    world.close()


def test_a_batch_that_is_shown_while_an_operator_gives_it_up_is_recorded_as_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = TextFolderWorld(tmp_path)
    commit = world.place.commit

    def commit_late(parts: Sequence[str]) -> None:
        commit(parts)
        (found,) = give_up(world.store, TEXTS, PREFIX, reason="it takes so long", operator="me")
        assert not found.was_shown

    monkeypatch.setattr(world.place, "commit", commit_late)
    world.run(0, ["a"])

    (found,) = read_given_up(world.store, TEXTS, PREFIX)
    assert (found.was_shown, found.batch_id, found.part_count, found.reason) == (True, 0, 1, "it takes so long")
    assert world.holds(["a"])
    world.close()


def test_an_undecided_batch_is_not_given_up_and_names_of_many_parts_are_shortened(tmp_path: Path) -> None:
    world = TextFolderWorld(tmp_path)
    with at(CrashPoint.ROUND_DECIDE, stop), pytest.raises(StoppedOnPurposeError):
        world.run(0, ["a"])
    assert give_up(world.store, TEXTS, PREFIX, reason="", operator="me") == []
    with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
        world.run(0, ["a"] * (REMEMBERED_PARTS + 1), "run-2")

    (found,) = give_up(world.store, TEXTS, PREFIX, reason="", operator="me")

    assert (len(found.parts), found.part_count) == (REMEMBERED_PARTS, REMEMBERED_PARTS + 1)
    world.close()


@pytest.mark.parametrize("data", [b"{}", b'{"version":1,"outcome":"maybe"}', b'{"version":1,"names":[1]}'])
def test_a_round_that_does_not_parse_is_damage_that_names_its_znode(tmp_path: Path, data: bytes) -> None:
    world = TextFolderWorld(tmp_path)
    world.run(0, ["a"])
    path = TEXTS.round_path(PREFIX, 1)
    world.store.transact(lambda view: view.set(path, data))

    with pytest.raises(CorruptDataError) as error:
        world.run(1, ["b"], "run-2")

    assert error.value.fields["path"] == path
    world.close()
