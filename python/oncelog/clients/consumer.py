"""The consumer: keeps the positions of its assigned partitions, reads records in offset order, and commits offsets.

clients/fetcher.py plans all assigned partitions together and reads what is planned. A plan always shows whole
transactions, but one `poll` may return a part of them (`max_records`); the next polls return the rest, and only then
anything newer. The caller assigns the partitions: there is no group membership and no rebalancing.

One thread at a time may use a consumer: another one gets an error, as in Kafka's Java client. Calls would otherwise mix
their positions, so that records are returned twice or never.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Annotated, NoReturn, Self, TypeVar

from oncelog import limits
from oncelog.arguments import check_name, check_number
from oncelog.clients import offset_lookup
from oncelog.clients.consumer_group import ConsumerGroup
from oncelog.clients.exclusive import exclusive
from oncelog.clients.fetcher import Assignment, ConsumerBatch, Fetcher, Records, records_of
from oncelog.clients.services import LogServices
from oncelog.clients.upkeep import SWEEP_PAUSE_MS, Upkeep
from oncelog.coordinator import groups
from oncelog.errors import (
    IllegalStateTransitionError,
    OffsetOutOfRangeError,
    PlanOvertakenError,
    UsageError,
)
from oncelog.habits import Guided
from oncelog.log import partition_reads, retention, snapshot, topics
from oncelog.log.snapshot import LogSnapshot
from oncelog.signatures import checked
from oncelog.types import (
    MAX_LONG,
    ConsumerRecord,
    IsolationLevel,
    OffsetAndMetadata,
    TopicIdPartition,
    TopicPartition,
)

T = TypeVar("T")


class Consumer(Guided):
    """Reads records. With read_committed, it only reads committed transactions, up to the last stable offset.

    Made by `Log.consumer`. **A group is only a name for committed offsets: if two consumers with the same `group_id`
    both `subscribe`, each gets every record.** To share a topic, `assign` different partitions to each.

    Example:
        with log.consumer(group_id="g", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["flights"])
            for record in consumer.poll(timeout_ms=1000):
                ...
            consumer.commit()
    """

    @checked
    def __init__(
        self,
        services: Annotated[LogServices, "a consumer is made by log.consumer(...)"],
        *,
        group_id: str | None = None,
        isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED,
        auto_offset_reset: str = "latest",
    ) -> None:
        reset = offset_lookup.check_reset(auto_offset_reset)
        if group_id is not None:
            check_name("group id", group_id)
        self._services = services
        self._store = services.store
        self._isolation = isolation_level
        self._reset = reset
        self._assigned: dict[TopicPartition, Assignment] = {}
        self._index_files = services.new_index_files()
        self._fetcher = Fetcher(services, self._index_files, isolation_level)
        self._upkeep = Upkeep(services)
        self._not_kept_up: LogSnapshot | None = None
        self._group_id = group_id
        self._group = None if group_id is None else ConsumerGroup(services, group_id, self._upkeep)
        self._is_closed = False
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"Consumer(group_id={self._group_id!r}, partitions={len(self._assigned)})"

    # Assignment -------------------------------------------------------------------------------------------------------

    @exclusive
    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions. Partitions that were assigned before keep their positions.

        Raises:
            UnknownTopicError, UnknownPartitionError: a topic or partition does not exist.
        """
        self._check_open()
        if isinstance(partitions, Mapping):
            raise UsageError("assign takes partitions without offsets; set offsets with seek", found=partitions)
        identified = {tp: partition_reads.identify(self._store, tp.topic, tp.partition) for tp in partitions}
        known = self._assigned
        self._assigned = {
            tp: known[tp] if tp in known and known[tp].partition == partition else Assignment(partition)
            for tp, partition in identified.items()
        }

    @exclusive
    def subscribe(self, names: Iterable[str]) -> None:
        """Read all partitions of these topics.

        **There is no group membership: if two consumers with the same `group_id` both subscribe, each gets every
        record.** To share a topic, `assign` different partitions to each.

        Raises:
            UnknownTopicError: a topic does not exist.
        """
        self.assign([p.topic_partition for name in names for p in topics.partitions_of(self._store, name)])

    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions."""
        return sorted(self._assigned)

    @exclusive
    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Return no records of these partitions until `resume`."""
        for assignment in self._each(partitions):
            assignment.is_paused = True

    @exclusive
    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Undo `pause`."""
        for assignment in self._each(partitions):
            assignment.is_paused = False

    # Reading ----------------------------------------------------------------------------------------------------------

    @exclusive
    def poll(self, timeout_ms: int = 0, *, max_records: int = 500) -> list[ConsumerRecord]:
        """The next records, in offset order per partition.

        Args:
            timeout_ms: how long to wait for the first record.
            max_records: the largest number of records to return.

        Raises:
            DataLossError: retention removed the next records, or a file is missing; `seek` to continue after them.
            OffsetOutOfRangeError: a partition has no position, or one above the log end, and `auto_offset_reset` is
                none.
        """
        return self._poll(
            timeout_ms,
            max_records,
            lambda batches: Records(record for batch in batches for record in records_of(batch)),
        )

    @exclusive
    def poll_batches(self, timeout_ms: int = 0, *, max_records: int = 100_000) -> list[ConsumerBatch]:
        """The next records as columns: like `poll`, but faster."""
        return self._poll(timeout_ms, max_records, lambda batches: batches)

    def _poll(self, timeout_ms: int, max_records: int, as_asked: Callable[[list[ConsumerBatch]], list[T]]) -> list[T]:
        self._check_assigned()
        check_number("max_records", max_records, least=1)
        deadline_ms = self._services.clock.monotonic_ms() + check_number("timeout_ms", timeout_ms)
        with self._store.watch() as watch:
            while True:
                seen = None if any(map(self._fetcher.has_planned, self._active())) else self._plan()
                before = [(assignment, assignment.position) for assignment in self._active()]
                try:
                    found = as_asked(self._fetcher.take(self._active(), max_records))
                    if not found:
                        self._keep_up()
                    remaining_ms = deadline_ms - self._services.clock.monotonic_ms()
                    if found or remaining_ms <= 0:
                        return found
                except BaseException:  # Ctrl-C, too: a commit must not skip records that the caller never got
                    for assignment, position in before:
                        if assignment.position != position:
                            assignment.seek(position)
                    raise
                if seen is None:
                    self._services.clock.sleep_ms(min(limits.LOOK_MS, remaining_ms))
                else:
                    watch.wait(snapshot.awaited(seen), min(SWEEP_PAUSE_MS, remaining_ms))

    def _active(self) -> list[Assignment]:
        return [assignment for assignment in self._assigned.values() if not assignment.is_paused]

    def _plan(self) -> LogSnapshot | None:
        """Plan all that is not paused; returns what the plan is of, or None if there is none yet."""
        self._keep_up()
        active = self._active()
        self._find_positions(self._assigned.values())
        if not active:
            return None
        try:
            positions = {assignment.partition: assignment.position or 0 for assignment in active}
            seen = snapshot.take(self._store, positions, positions=positions)
        except PlanOvertakenError:
            return None  # keep what was known; the next plan sees more
        if self._reset_beyond(active, seen):
            return None
        self._fetcher.plan(active, seen)
        self._not_kept_up = seen
        return seen

    def _keep_up(self) -> None:
        """The upkeep after the last plan: while there is nothing to return, so that no record waits for it."""
        seen, self._not_kept_up = self._not_kept_up, None
        if seen is not None:
            self._upkeep.after_planning(seen)

    def _reset_beyond(self, assignments: Iterable[Assignment], seen: LogSnapshot) -> bool:
        """Reset positions above the log end (the log is an older copy) by `auto_offset_reset`, as Kafka does."""
        beyond = [a for a in assignments if (a.position or 0) > seen.partitions[a.partition].log_end]
        if not beyond:
            return False
        if self._reset == "none":
            raise OffsetOutOfRangeError(
                "the position is above the log end (is the log an older copy?), and auto_offset_reset is none; "
                "seek to another offset, or commit one",
                group_id=self._group_id,
                topic=beyond[0].partition.topic,
                partition=beyond[0].partition.partition,
                position=beyond[0].position,
                log_end=seen.partitions[beyond[0].partition].log_end,
            )
        starts = self._reset_positions([assignment.partition for assignment in beyond])
        for assignment in beyond:
            assignment.seek(starts[assignment.partition])
        return True

    # Positions --------------------------------------------------------------------------------------------------------

    @exclusive
    def position(self, partition: TopicPartition) -> int:
        """The offset at which the next `poll` continues."""
        assignment = self._one(partition)
        self._find_positions([assignment])
        return assignment.position or 0

    @exclusive
    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Continue at `offset`.

        Raises:
            OffsetOutOfRangeError: the offset is below the log start or above the log end.
        """
        assignment = self._one(partition)
        check_number("offset", offset, least=-MAX_LONG)
        state = partition_reads.read_partition(self._store, assignment.partition)
        retention.check_within(state, assignment.partition, offset)
        assignment.seek(offset)

    @exclusive
    def seek_to_beginning(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Continue at the log start (of all assigned partitions if none is named)."""
        self._check_assigned()
        wanted = list(partitions) or self.assignment()
        for tp, offset in self.beginning_offsets(wanted).items():
            self._one(tp).seek(offset)

    @exclusive
    def seek_to_end(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Continue at the end: the last stable offsets of these partitions together; read_uncommitted, the log end.

        Args:
            partitions: all assigned ones if none is named.
        """
        self._check_assigned()
        wanted = list(partitions) or self.assignment()
        ends = self._ends_together([self._one(tp).partition for tp in wanted])
        for tp in wanted:
            self._one(tp).seek(ends[self._one(tp).partition])

    @checked
    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The log start of each partition."""
        return {tp: offset_lookup.earliest(self._store, p) for tp, p in self._identified(partitions).items()}

    @checked
    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Each partition's last stable offset, planned alone, or for read_uncommitted its log end."""
        identified = self._identified(partitions)
        return {tp: offset_lookup.latest(self._store, p, self._isolation) for tp, p in identified.items()}

    @checked
    def offsets_for_times(self, timestamps_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first offset of a record with the given timestamp or a later one, by partition.

        None if there is no such record below the partition's `end_offsets`.
        """
        for timestamp_ms in timestamps_ms.values():
            check_number("timestamp_ms", timestamp_ms)
        identified = self._identified(timestamps_ms)
        ends = self.end_offsets(list(timestamps_ms))
        return {
            tp: offset_lookup.for_time(self._services, self._index_files, identified[tp], timestamp_ms, ends[tp])
            for tp, timestamp_ms in timestamps_ms.items()
        }

    def _find_positions(self, wanted: Iterable[Assignment]) -> None:
        """Give `wanted` their first positions. With "latest", all partitions without a position get one together."""
        missing = [assignment for assignment in wanted if assignment.position is None]
        if not missing:
            return
        if self._reset == "latest":
            missing = [assignment for assignment in self._assigned.values() if assignment.position is None]
        committed = self._group.starts(assignment.partition for assignment in missing) if self._group else {}
        starts = self._reset_positions([a.partition for a in missing if a.partition not in committed])
        for assignment in missing:
            found = committed.get(assignment.partition)
            assignment.position = found.offset if found else starts[assignment.partition]

    def _reset_positions(self, partitions: list[TopicIdPartition]) -> dict[TopicIdPartition, int]:
        if self._reset == "earliest":
            return {p: offset_lookup.earliest(self._store, p) for p in partitions}
        if self._reset == "latest":
            return self._ends_together(partitions)
        for partition in partitions:
            raise OffsetOutOfRangeError(
                "the group has no committed offset for the partition, and auto_offset_reset is none",
                group_id=self._group_id,
                topic=partition.topic,
                partition=partition.partition,
            )
        return {}

    def _ends_together(self, partitions: list[TopicIdPartition]) -> dict[TopicIdPartition, int]:
        """The ends of these partitions, planned together: a reader that starts there never gets half a transaction."""
        seen = snapshot.take(self._store, partitions)
        return {partition: seen.end(partition, self._isolation) for partition in partitions}

    # Group offsets ----------------------------------------------------------------------------------------------------

    @exclusive
    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None) -> None:
        """Commit offsets for the group, outside any transaction.

        As in Kafka, a commit does not check that an offset is within the log. A reader that starts beyond the log end
        applies `auto_offset_reset`. `Admin.describe_group` reports such offsets; `Admin.alter_offsets` refuses them.
        If another consumer of the group commits the same partition, a warning is logged.

        Args:
            offsets: the next offset to read, by partition; the current positions if left out.

        Raises:
            GroupOwnedError: a sink owns the group's offsets.
        """
        group = self._need_group()
        if offsets is None:
            offsets = {tp: a.position for tp, a in self._assigned.items() if a.position is not None}
        if not offsets:
            return
        identified = self._identified(offsets)
        values = {identified[tp]: groups.as_value(tp, value) for tp, value in offsets.items()}
        group.commit(values)

    @checked
    def committed(
        self, partitions: Iterable[TopicPartition], *, require_stable: bool = True
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The group's committed offsets, without partitions that have none.

        Raises:
            UnstableOffsetCommitError: with `require_stable`, if an undecided transaction holds offsets of these
                partitions.
        """
        group = self._need_group()
        identified = self._identified(partitions)
        found = group.fetch(identified.values(), require_stable=require_stable)
        return {tp: found[partition] for tp, partition in identified.items() if partition in found}

    @exclusive
    def lag(self, partition: TopicPartition) -> int:
        """Offsets between the position and the partition's last stable offset, planned alone.

        0 if there is nothing but control markers and aborted records; otherwise these count, too.

        Raises:
            OffsetOutOfRangeError: see `poll`.
        """
        assignment = self._one(partition)
        self._find_positions([assignment])
        seen = snapshot.take(self._store, [assignment.partition])
        self._reset_beyond([assignment], seen)
        position = assignment.position or 0
        return offset_lookup.lag(
            self._services, self._index_files, seen, assignment.partition, position, self._isolation
        )

    # Parts ------------------------------------------------------------------------------------------------------------

    def _identified(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, TopicIdPartition]:
        self._check_open()
        return {
            tp: self._assigned[tp].partition
            if tp in self._assigned
            else partition_reads.identify(self._store, tp.topic, tp.partition)
            for tp in partitions
        }

    def _one(self, partition: TopicPartition) -> Assignment:
        self._check_open()
        if partition not in self._assigned:
            raise UsageError("the partition is not assigned to this consumer", partition=str(partition))
        return self._assigned[partition]

    def _each(self, partitions: Iterable[TopicPartition]) -> list[Assignment]:
        return [self._one(partition) for partition in partitions]

    def _need_group(self) -> ConsumerGroup:
        self._check_open()
        if self._group is None:
            raise UsageError("committed offsets need a group: log.consumer(group_id=...)")
        return self._group

    def _check_assigned(self) -> None:
        self._check_open()
        if not self._assigned:
            raise IllegalStateTransitionError("nothing is assigned to this consumer: call subscribe or assign first")

    def _check_open(self) -> None:
        if self._is_closed:
            raise IllegalStateTransitionError("this consumer is closed; make a new one")

    def __iter__(self) -> NoReturn:
        """Not supported, since the loop would never end and could not say when to commit. Raises a UsageError."""
        raise UsageError("a consumer is read with poll: for record in consumer.poll(timeout_ms=1000)")

    __next__ = __iter__

    def close(self) -> None:
        """Close without committing positions. Safe to call twice."""
        self._is_closed = True
        self._assigned = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
