"""What is said about a transaction that a partition has open, for everything that its coordinator may say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from oncelog_kafka.protocol.hanging import OpenInPartition, Recorded, Verdict, ends_by_itself, judge
from oncelog_kafka.protocol.participants import Participant, Transaction

NOW_MS = 10_000_000
MAX_MS = 1_000_000
FOUND = OpenInPartition("topic", 1, 7, 4, 30, NOW_MS - 1_000, 0)
OLD = replace(FOUND, last_timestamp_ms=NOW_MS - MAX_MS - 1)
PARTICIPANT = Participant("p-0-1.0.0", 0, 7, 4, 2, 10, 0, "topic")


def known(state: str, epoch: int, *partitions: str, started_ms: int = NOW_MS - 2_000) -> Transaction:
    return Transaction("p-0-1.0.0", state, 7, epoch, 60_000, started_ms, partitions)


def verdict(
    found: OpenInPartition, transaction: Transaction | None, complete: Sequence[Participant] = (), **recorded: Any
) -> Verdict | None:
    if ends_by_itself(found, transaction):
        return None
    hang = judge(found, transaction, Recorded(complete, **recorded), NOW_MS, MAX_MS)
    return None if hang is None else hang.verdict


@pytest.mark.parametrize(
    ("transaction", "expected"),
    [
        (known("Ongoing", 4, "topic-1"), None),
        (known("Ongoing", 4, "topic-0"), Verdict.RUNNING),
        (known("Ongoing", 5, "topic-1"), Verdict.UNKNOWN),
        (known("PrepareCommit", 4), None),
        (known("PrepareCommit", 5), None),
        (known("PrepareAbort", 5), None),
        (known("PrepareEpochFence", 5), None),
        (known("CompleteCommit", 4), Verdict.UNKNOWN),
        (known("CompleteCommit", 5), Verdict.COMMITTED),
        (known("CompleteCommit", 6), Verdict.UNKNOWN),
        (known("CompleteCommit", 5, started_ms=NOW_MS), Verdict.UNKNOWN),
        (known("CompleteCommit", 4, started_ms=NOW_MS), Verdict.UNKNOWN),
        (known("CompleteAbort", 4), Verdict.UNKNOWN),
        (known("CompleteAbort", 5), Verdict.ABORTED),
        (known("CompleteAbort", 6), Verdict.UNKNOWN),
        (known("CompleteAbort", 5, started_ms=NOW_MS), Verdict.UNKNOWN),
        (known("Empty", 5), Verdict.UNKNOWN),
        (None, None),
    ],
)
def test_the_coordinator_tells_what_became_of_a_transaction(
    transaction: Transaction | None, expected: Verdict | None
) -> None:
    assert verdict(FOUND, transaction) is expected


def test_a_transaction_without_a_coordinator_hangs_once_it_is_older_than_any_may_be() -> None:
    assert verdict(OLD, None) is Verdict.UNKNOWN
    assert verdict(replace(OLD, last_timestamp_ms=NOW_MS - MAX_MS), None) is None


def test_a_complete_batch_of_the_ledger_tells_what_the_coordinator_has_forgotten() -> None:
    assert verdict(FOUND, None, [PARTICIPANT]) is Verdict.COMMITTED
    assert verdict(FOUND, known("Empty", 6), [PARTICIPANT]) is Verdict.COMMITTED


@pytest.mark.parametrize("change", [{"epoch": 3}, {"producer_id": 8}, {"transaction_version": 1}])
def test_another_transaction_of_the_ledger_tells_nothing(change: dict[str, Any]) -> None:
    assert verdict(OLD, None, [replace(PARTICIPANT, **change)]) is Verdict.UNKNOWN


def test_a_decided_batch_that_is_not_complete_is_left_to_its_query() -> None:
    assert verdict(OLD, None, unfinished=[PARTICIPANT]) is Verdict.RUNNING
    assert (
        verdict(FOUND, known("Empty", 6), unfinished=[replace(PARTICIPANT, transaction_version=1)]) is Verdict.RUNNING
    )
    assert verdict(FOUND, known("CompleteCommit", 5), unfinished=[PARTICIPANT]) is Verdict.COMMITTED


def test_the_coordinator_is_believed_before_the_ledger() -> None:
    assert verdict(FOUND, known("CompleteAbort", 5), [PARTICIPANT]) is Verdict.ABORTED


def test_a_hang_names_its_sink_and_how_old_it_is() -> None:
    hang = judge(FOUND, known("CompleteCommit", 5), Recorded(), NOW_MS, MAX_MS)

    assert hang is not None
    assert (hang.prefix, hang.transactional_id, hang.age_ms, hang.place) == ("p", "p-0-1.0.0", 1_000, "topic-1")
