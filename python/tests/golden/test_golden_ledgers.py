"""Ledgers that an older oncelog wrote go on as they are. The file is never edited; a new format gets a new one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.batches.committables import CommittableRound, committable_ledgers
from oncelog.batches.ledger import EMBEDDED
from oncelog.batches.rules import BatchRequest
from oncelog.errors import BatchRefusedError, RunSupersededError
from oncelog.runtime import Log
from oncelog.types import Outcome
from tests.support.log.logs import log_world
from tests.support.log.rounds import plan_round

GOLDEN = Path(__file__).with_name("ledgers-v1.json")


def request(batch_id: int, run: str, prefix: str = "copier") -> BatchRequest:
    return BatchRequest(prefix, f"query-of-{prefix}", "sink", run, batch_id, f"offsets of {batch_id}")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """With the ledgers of a query that stopped in its third batch, and of one that stopped behind its first."""
    with log_world(tmp_path, "memory") as world:
        store = world.log.services.store
        for path, data in json.loads(GOLDEN.read_text()).items():
            if store.get(path) is None:
                store.transact(lambda view, path=path, data=data: view.create(path, data.encode()))  # type: ignore[misc]
        yield world.log


def test_all_ledgers_are_read(log: Log) -> None:
    assert log.admin.list_prefixes() == ["copier", "gr/öße"]
    found = log.admin.describe_ledger("copier")

    assert (found.run_id, found.superseded_runs, found.last_batch_id, found.last_round) == ("run-2", ("run-1",), 1, 2)
    outcomes = [(one.number, one.outcome, one.batch_id) for one in found.rounds]
    assert outcomes == [(1, Outcome.COMMIT, 0), (2, Outcome.COMMIT, 1), (3, Outcome.OPEN, 2)]
    assert log.admin.verify().problems == ()


def test_a_batch_that_was_decided_is_not_written_again(log: Log) -> None:
    services = log.services.new_round_services()

    assert plan_round(services, request(1, "run-3")) is None
    assert plan_round(services, request(0, "run-2", "gr/öße")) is None
    with pytest.raises(BatchRefusedError, match="a later batch"):
        plan_round(services, request(0, "run-4"))


def test_a_batch_that_was_under_way_is_written_by_the_next_run_and_no_more_by_the_old_one(log: Log) -> None:
    services = log.services.new_round_services()
    begun = plan_round(services, request(2, "run-3"))
    assert begun is not None

    begun.decide()

    assert begun.number == 4
    old = EMBEDDED.read_round(log.services.store, "copier", 3)
    assert old is not None
    assert old.outcome is Outcome.ABORT
    with pytest.raises(RunSupersededError):
        plan_round(services, request(2, "run-2"))


def test_a_round_of_a_sink_into_another_store_is_read_and_written_as_before() -> None:
    stored = (
        b'{"version":1,"outcome":"commit","batch_id":7,"fingerprint":"ab12","run_id":"run-1","nonce":"n0nce",'
        b'"names":["{\\"file\\": \\"a-0.parquet\\"}","b"],"is_over":true}'
    )
    parts = ('{"file": "a-0.parquet"}', "b")
    ledgers = committable_ledgers("/texts")

    found = ledgers.decode("/texts/copier/rounds/1", stored)

    assert found == CommittableRound(Outcome.COMMIT, 7, "ab12", "run-1", "n0nce", parts, is_over=True)
    assert ledgers.encode(found) == stored
