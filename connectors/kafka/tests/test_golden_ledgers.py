"""Ledgers of Kafka batches that an older oncelog wrote go on as they are. The file is never edited."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.batches.rules import BatchRequest
from oncelog.ports import ZnodeStore
from oncelog.types import Outcome
from oncelog.znodes.memory import MemoryZnodeStore
from oncelog_kafka.ledger import ledger
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from tests.support.connectors.kafka_ledger import Ledger

GOLDEN = Path(__file__).with_name("ledgers-v1.json")


def request(batch_id: int, run: str, prefix: str = "kafka") -> BatchRequest:
    return BatchRequest(prefix, f"query-of-{prefix}", "sink", run, batch_id, f"offsets of {batch_id}")


@pytest.fixture
def store() -> Iterator[ZnodeStore]:
    """Of a query whose second batch lost a participant behind its decision, and of one that stopped in its first."""
    found = MemoryZnodeStore()
    for path, data in json.loads(GOLDEN.read_text()).items():
        found.transact(lambda view, path=path, data=data: view.create(path, data.encode()))  # type: ignore[misc]
    yield found
    found.close()


def test_a_decision_that_was_not_carried_out_yet_is_found_with_its_participants(store: ZnodeStore) -> None:
    steps = Ledger(store, request(1, "run-2"))

    assert steps.begin(lease=None, buckets=None) is None
    ((number, found),) = steps.unfinished().items()

    assert (number, found.outcome, found.lease) == (2, Outcome.COMMIT, 1)
    assert [(p.transactional_id, p.is_lost) for p in found.participants] == [
        ("kafka-0-1.0.0", False),
        ("kafka-1-1.0.0", True),
    ]


def test_the_next_batch_begins_a_lease_behind_all_that_were_taken(store: ZnodeStore) -> None:
    ledger.complete(store, "kafka", 2)

    begun = Ledger(store, request(2, "run-2")).begin(lease=None, buckets=None)

    assert begun is not None
    assert (begun.number, begun.record.lease) == (4, 4)


def test_a_round_under_way_is_aborted_and_its_batch_begun_anew(store: ZnodeStore) -> None:
    begun = Ledger(store, request(0, "run-2", "open")).begin(lease=None, buckets=3)

    assert begun is not None
    assert begun.number == 2
    old = KAFKA_LEDGERS.read_round(store, "open", 1)
    assert old is not None
    assert (old.outcome, old.buckets) == (Outcome.ABORT, 3)
