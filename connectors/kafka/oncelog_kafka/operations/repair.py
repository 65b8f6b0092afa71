"""Finds transactions that are open in a partition and that nobody will end, and ends them. hanging_cli.py shows it.

A repair is one request: the marker that was left out. If it is a commit, the rows become visible where they are, and
nothing has to be written again. If it is an abort that might drop committed rows, they are saved to a file before:

    save the rows   a crash leaves at most a temporary file; the next run removes it, and saves them again
    the marker      the partition has it, or not; the next run finds out, because nothing hangs there any more
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from oncelog.crash_points import reach
from oncelog.errors import UsageError
from oncelog.ports import ZnodeStore
from oncelog.znodes.clock import wall_ms
from oncelog_kafka.brokers.producers import KafkaProducers, Marker, Row
from oncelog_kafka.crash_points import RepairCrashPoint
from oncelog_kafka.errors import BrokerAccessError
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from oncelog_kafka.operations import saved_rows
from oncelog_kafka.operations.saved_rows import Origin
from oncelog_kafka.patience import refusal
from oncelog_kafka.protocol import end_txn
from oncelog_kafka.protocol.hanging import Hang, NotAsked, OpenInPartition, Recorded, Verdict, ends_by_itself, judge
from oncelog_kafka.protocol.participants import Transaction
from oncelog_kafka.protocol.ports import Brokers

MAX_TIMEOUT = "transaction.max.timeout.ms"
_DEFAULT_MAX_TIMEOUT_MS = 900_000

SLACK_MS = 300_000
"""How long after the cluster's longest time-out a transaction that no coordinator knows counts as forgotten."""


@dataclass(frozen=True, slots=True)
class Search:
    """What hangs, and which partitions could not be asked."""

    hangs: Sequence[Hang]
    not_asked: Sequence[NotAsked]


@dataclass(frozen=True, slots=True)
class Repaired:
    """A transaction that hung.

    Attributes:
        ended: ``commit`` or ``abort``, as its marker in the partition says.
        is_ours: False if another repair, or its coordinator, ended it first, and in another way.
        saved: the file with its rows; None if they were not saved.
        saved_rows: how many.
    """

    topic: str
    partition: int
    start_offset: int
    ended: str
    is_ours: bool
    saved: str | None
    saved_rows: int


class NoLongerHangsError(UsageError):
    """The transaction that was to be repaired is over, or has changed since it was found."""


def find(
    producers: KafkaProducers,
    brokers: Brokers,
    store: ZnodeStore | None,
    partitions: Collection[tuple[str, int]] | None = None,
) -> Search:
    """Ask all partitions for open transactions, and the coordinators what became of them.

    Args:
        store: with the ledgers of sinks; None if there are none.
        partitions: only these; None for all.
    """
    opened, not_asked = producers.open_transactions(partitions)
    known = _known(producers, brokers, opened)
    suspects = {one.key: one for one in opened if not ends_by_itself(one, known.get(one.producer_id))}
    if not suspects:
        return Search((), not_asked)
    again, _ = producers.open_transactions({(one.topic, one.partition) for one in suspects.values()})
    max_timeout_ms = longest_timeout_ms(brokers) + SLACK_MS
    recorded = _recorded(store) if store is not None else Recorded()
    now_ms = brokers.clock.now_ms()
    judged = (
        judge(one, known.get(one.producer_id), recorded, now_ms, max_timeout_ms) for one in again if one.key in suspects
    )
    return Search([hang for hang in judged if hang is not None], not_asked)


def longest_timeout_ms(brokers: Brokers) -> int:
    """The longest time-out that a transaction of the cluster may have."""
    return brokers.broker_setting(MAX_TIMEOUT) or _DEFAULT_MAX_TIMEOUT_MS


def repair(
    producers: KafkaProducers,
    brokers: Brokers,
    store: ZnodeStore | None,
    hang: Hang,
    *,
    is_commit: bool,
    folder: Path | None,
) -> Repaired:
    """Save the rows if asked to, and write the marker that is missing.

    Args:
        hang: as `find` found it; it is looked at again before the marker is written.
        is_commit: the marker's kind.
        folder: where to save the rows; None for nowhere.

    Raises:
        NoLongerHangsError: somebody else ended it, or its verdict has changed.
        UsageError: the marker would drop committed rows, or end a transaction that is running.
        BrokerAccessError: this user may not do it.
        FileWriteError: the rows could not be saved; no marker was written.
    """
    check_allowed(hang, is_commit=is_commit, is_saved=folder is not None)
    saved, rows = (None, 0) if folder is None else save(producers, hang, folder)
    reach(RepairCrashPoint.SAVED)
    found = _found_again(producers, brokers, store, hang)
    reach(RepairCrashPoint.END)
    write_marker(producers, brokers, found, is_commit=is_commit)
    reach(RepairCrashPoint.ENDED)
    ended = _end_of(producers, hang)
    return Repaired(
        hang.topic,
        hang.partition,
        hang.start_offset,
        "commit" if ended.is_commit else "abort",
        ended.is_commit == is_commit,
        None if saved is None else str(saved),
        rows,
    )


_MOVED = frozenset({"NOT_LEADER_FOR_PARTITION", "LEADER_NOT_AVAILABLE"})


def write_marker(producers: KafkaProducers, brokers: Brokers, found: OpenInPartition, *, is_commit: bool) -> None:
    """End a transaction in one partition.

    Raises:
        BrokerAccessError: this user may not do it, or the leader refuses it.
        BrokerUnavailableError: the leader did not answer.
    """
    fields = {"topic": found.topic, "partition": found.partition}
    for _ in brokers.tries("a marker could not be written", **fields):
        answer = producers.write_marker(found, is_commit=is_commit)
        if answer == "NONE":
            return
        if answer == "CLUSTER_AUTHORIZATION_FAILED":
            raise BrokerAccessError("to write a marker, this user needs the right Alter on the cluster", **fields)
        if answer not in end_txn.PASSING and answer not in _MOVED:
            raise refusal(answer, "a marker could not be written", **fields)


def check_allowed(hang: Hang, *, is_commit: bool, is_saved: bool) -> None:
    """Whether this marker may end this transaction.

    Raises:
        UsageError: it may not; the message says why.
    """
    if hang.verdict is Verdict.RUNNING:
        raise UsageError("its producer may still be at work, so no marker is written", **_named(hang))
    if hang.verdict is Verdict.COMMITTED and not is_commit:
        raise UsageError("an abort would drop committed rows", **_named(hang))
    if hang.verdict is Verdict.ABORTED and is_commit:
        raise UsageError("a commit would show rows that were aborted", **_named(hang))
    if hang.verdict is Verdict.UNKNOWN and not is_commit and not is_saved:
        raise UsageError("an abort may drop committed rows: name a folder to save them in", **_named(hang))


def _named(hang: Hang) -> dict[str, object]:
    return {"topic": hang.topic, "partition": hang.partition, "offset": hang.start_offset, "why": hang.why}


def _found_again(producers: KafkaProducers, brokers: Brokers, store: ZnodeStore | None, hang: Hang) -> OpenInPartition:
    place = {(hang.topic, hang.partition)}
    now = {one.key: one.verdict for one in find(producers, brokers, store, place).hangs}
    for one in producers.open_transactions(place)[0]:
        if one.key == hang.key and now.get(hang.key) is hang.verdict:
            return one
    raise NoLongerHangsError("it does not hang any more: it was ended, or has changed since", **_named(hang))


def _end_of(producers: KafkaProducers, hang: Hang) -> Marker:
    for one in producers.read(hang.topic, hang.partition, hang.start_offset):
        if isinstance(one, Marker) and one.producer_id == hang.producer_id:
            return one
    raise NoLongerHangsError("its marker is not in the partition: were its records deleted?", **_named(hang))


# Coordinators and ledgers ---------------------------------------------------------------------------------------------


def _known(producers: KafkaProducers, brokers: Brokers, opened: Iterable[OpenInPartition]) -> dict[int, Transaction]:
    """What the coordinators say, by producer id."""
    producer_ids = {one.producer_id for one in opened}
    if not producer_ids:
        return {}
    return {one.producer_id: one for one in brokers.describe(producers.ids_of(producer_ids)).values()}


def _recorded(store: ZnodeStore) -> Recorded:
    """What all ledgers of the store remember."""
    prefixes = KAFKA_LEDGERS.prefixes(store)
    rounds = [one for prefix in prefixes for one in KAFKA_LEDGERS.read_rounds(store, prefix).values()]
    return Recorded(
        [p for one in rounds if one.is_complete for p in one.participants if not p.is_lost],
        [p for one in rounds if one.is_unfinished for p in one.participants if not p.is_lost],
    )


# Saved rows -----------------------------------------------------------------------------------------------------------


def save(producers: KafkaProducers, hang: Hang, folder: Path) -> tuple[Path, int]:
    """Save the rows of a transaction to an Avro file, durably. A file of an earlier run is replaced.

    Returns:
        The file, and how many rows it has.
    """
    path = folder / f"{hang.place}-{hang.start_offset}-{hang.producer_id}.{hang.epoch}.avro"
    topic_id = producers.topic_id((hang.topic, hang.partition)) or ""
    origin = Origin(
        producers.cluster_id(),
        hang.topic,
        topic_id,
        hang.partition,
        hang.start_offset,
        hang.producer_id,
        hang.epoch,
        wall_ms(),
    )
    return path, saved_rows.save(path, origin, _rows_of(producers, hang))


def _rows_of(producers: KafkaProducers, hang: Hang) -> Iterator[Row]:
    """The rows of the transaction, which is open: they reach to the end of the partition."""
    for one in producers.read(hang.topic, hang.partition, hang.start_offset):
        if one.producer_id == hang.producer_id:
            if isinstance(one, Marker):
                return
            yield one
