"""Reading ledgers that others change or damage meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from oncelog.batches.ledger import EMBEDDED
from oncelog.batches.overview import find_ledgers, list_ledgers, of_query
from oncelog.batches.steps import BatchSteps
from oncelog.batches.transaction import run_steps
from oncelog.coordinator import rounds
from oncelog.errors import CorruptDataError, RunSupersededError, UnknownPrefixError
from oncelog.ports import ZnodeReader, ZnodeView
from oncelog.runtime import Log
from oncelog.types import Outcome
from oncelog.znodes import paths
from oncelog.znodes.memory import MemoryZnodeStore
from tests.support.log.logs import TOPIC, log_world
from tests.support.log.rounds import PREFIX, begin, request


class Listing(MemoryZnodeStore):
    """Lists a ledger that was deleted right behind the look, as a store of several reads may."""

    def children(self, path: str) -> list[str]:
        found = super().children(path)
        return sorted([*found, "deleted"]) if path == paths.QUERIES else found

    @contextmanager
    def snapshot(self) -> Iterator[ZnodeReader]:
        yield self


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """The ledger of one query, in its second batch. It may be damaged by the test."""
    with log_world(tmp_path, "memory") as world:
        world.is_checked = False
        world.log.create_topic(TOPIC)
        begin(world.log, 0).decide()
        begin(world.log, 1)
        yield world.log


def test_only_the_newest_round_of_a_prefix_can_be_open(log: Log) -> None:
    store = log.services.store

    assert list(EMBEDDED.newest_rounds(store)) == [EMBEDDED.round_path(PREFIX, 2)]
    assert {number: found.outcome for number, found in EMBEDDED.read_rounds(store, PREFIX).items()} == {
        1: Outcome.COMMIT,
        2: Outcome.OPEN,
    }


def test_a_ledger_that_is_deleted_while_all_are_listed_is_passed_over() -> None:
    store = Listing()
    store.transact(lambda view: view.create(paths.QUERIES))

    assert list(EMBEDDED.newest_rounds(store)) == []
    assert list_ledgers(store) == []
    steps = BatchSteps(EMBEDDED, store, request(0))
    (opened,) = run_steps(store, [lambda: steps.plan(rounds.new_record(request(0), timeout_ms=1000), lambda _: None)])
    assert opened is not None
    assert opened.number == 1


def test_an_overview_tells_of_the_newest_round_and_what_a_restart_does(log: Log) -> None:
    store = log.services.store

    (found,) = find_ledgers(store, PREFIX)

    assert [found] == list_ledgers(store)
    assert (found.target, found.last_batch_id, found.round, found.batch_id) == ("log", 0, 2, 1)
    assert (found.outcome, found.recovery) == (Outcome.OPEN, "undoes this round and writes the batch again")
    assert (found.is_over, found.parts) == (False, ())
    with pytest.raises(UnknownPrefixError, match="no sink has written under this prefix"):
        find_ledgers(store, "another")


def test_the_ledgers_of_a_query_are_found_by_its_id(log: Log) -> None:
    store = log.services.store
    ledger = EMBEDDED.require(store, PREFIX)

    assert of_query(store, ledger.query_id) == [(*find_ledgers(store, PREFIX), ledger.last)]
    assert of_query(store, "another") == []


def test_an_overview_of_a_ledger_whose_rounds_are_gone_tells_of_the_last_batch(log: Log) -> None:
    store = log.services.store

    def forget(view: ZnodeView) -> None:
        for number in (1, 2):
            view.delete(EMBEDDED.round_path(PREFIX, number))

    store.transact(forget)

    (found,) = list_ledgers(store)

    assert (found.round, found.batch_id, found.outcome) == (None, None, None)
    assert (found.last_batch_id, found.recovery) == (0, "writes its next batch")


def test_the_ledger_of_a_running_sink_that_is_gone_is_damage(log: Log) -> None:
    store = log.services.store
    steps = BatchSteps(EMBEDDED, store, request(1))

    def delete(path: str) -> None:
        for name in store.children(path):
            delete(f"{path}/{name}")
        store.transact(lambda view: view.delete(path))

    delete(EMBEDDED.path(PREFIX))

    with pytest.raises(CorruptDataError, match="the ledger of a running sink is gone"):
        steps.renew(2)


def test_a_driver_whose_prefix_was_taken_over_hundreds_of_runs_ago_is_told_so(log: Log) -> None:
    """A ledger remembers so many runs, and its query for ever."""
    store = log.services.store
    taken = replace(EMBEDDED.require(store, PREFIX), query_id="heir", run_id="heirs", superseded_runs=())
    store.transact(lambda view: EMBEDDED.put(view, PREFIX, taken))

    with pytest.raises(RunSupersededError, match="another query took over this prefix"):
        BatchSteps(EMBEDDED, store, request(1)).renew(2)


@pytest.mark.parametrize("name", ["x", "007", "٣"])
def test_a_round_whose_name_is_no_number_is_damage_that_names_its_path(log: Log, name: str) -> None:
    path = f"{EMBEDDED.rounds_path(PREFIX)}/{name}"
    log.services.store.transact(lambda view: view.create(path))

    for read in (EMBEDDED.round_numbers, EMBEDDED.read_rounds):
        with pytest.raises(CorruptDataError) as error:
            read(log.services.store, PREFIX)
        assert error.value.fields["path"] == path
