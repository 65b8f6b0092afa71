"""A micro-batch as one round with one decision: the driver's side of both Spark sinks.

The tasks wrote and fsynced files and touched no znode; here the driver plans the batch against the ledger, appends the
blocks under the round, and decides with one small multi. Crash points:
  plan     the round exists, open, and the previous undecided one is aborted    → a restart aborts it and begins anew
  write    some partitions list the round                                       → the same
  decide   everything is visible, or nothing                                    → a restart skips the batch
  settle   lists are shortened                                                  → anyone finishes

Assumptions: one multi is atomic; every step below compares the ledger and the round it was derived from. Hence of two
drivers the older finds itself superseded, or its round aborted, at its next step, whatever it is, and a zombie writes
nothing. The participant of log partition number p has the transactional id ``<prefix>-<p>``, so readers and tools see
the field's terms: producer id, epoch, sequence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from oncelog import limits
from oncelog.coordinator import former_names, groups, metadata, settler
from oncelog.coordinator.former_names import QueryIds
from oncelog.coordinator.groups import GroupOffsets
from oncelog.coordinator.producer_ids import ProducerIds
from oncelog.crash_points import CrashPoint, reach
from oncelog.errors import BatchRefusedError, CorruptDataError, RoundAbortedError, RunSupersededError
from oncelog.log import partition_log
from oncelog.log.index_files import IndexFiles
from oncelog.log.partition_log import Append
from oncelog.ports import ZnodeReader, ZnodeStore, ZnodeView
from oncelog.protocol import batch_ledger
from oncelog.protocol.batch_ledger import AlreadyDecided, BatchRequest, QueryLedger
from oncelog.protocol.coordinator_events import ProducerIdNeeded
from oncelog.randomness import random_id
from oncelog.types import Block, Outcome, ProducerIdAndEpoch, TopicIdPartition
from oncelog.znodes import paths, payloads
from oncelog.znodes.payloads import OwnerRecord
from oncelog.znodes.transact import in_parts, resolving

REMEMBERED_ROUNDS = 8
"""Settled rounds are deleted in groups of about this many: one step in a few batches."""


@dataclass(frozen=True, slots=True)
class PartitionBlocks:
    """What a batch appends to one partition; `manifest_file` lists the blocks when a znode could not."""

    partition: TopicIdPartition
    blocks: tuple[Block, ...]
    manifest_file: str | None


@dataclass(frozen=True, slots=True)
class BatchOffsets:
    """The source offsets of a batch, for the consumer group that the sink maintains.

    Attributes:
        group_id: the group.
        start: what the group must hold before the batch; partitions it never committed may be missing there.
        end: what the decision makes current.
    """

    group_id: str
    start: GroupOffsets
    end: GroupOffsets


@dataclass(frozen=True, slots=True)
class RoundServices:
    """What a round works with: the store, the index files, and the process's producer ids."""

    store: ZnodeStore
    index_files: IndexFiles
    producer_ids: ProducerIds


def begin(services: RoundServices, request: BatchRequest, *, timeout_ms: int = limits.ROUND_TIMEOUT_MS) -> Round | None:
    """Plan a batch against the ledger.

    Args:
        services: of this process.
        request: the batch.
        timeout_ms: after this long without renewal anyone may abort the round.

    Returns:
        the open round to write the batch in; None when the log holds the batch already.

    Raises:
        RunSupersededError, BatchRefusedError: see protocol/batch_ledger.py.
    """
    nonce = random_id()
    reach(CrashPoint.SINK_PLAN)

    def plan(query_ids: QueryIds | None) -> int | None:
        return resolving(
            lambda: services.store.transact(lambda view: _plan(view, request, nonce, timeout_ms, query_ids))
        )

    number = former_names.planning(services.store, paths.QUERIES, plan)
    reach(CrashPoint.SINK_PLANNED)
    return None if number is None else Round(services, request, number, nonce)


def _plan(
    view: ZnodeView, request: BatchRequest, nonce: str, timeout_ms: int, query_ids: QueryIds | None
) -> int | None:
    path = paths.query(request.prefix)
    ledger = read_ledger(view, request.prefix)
    if ledger is not None and ledger.current_round:
        current = read_round(view, request.prefix, ledger.current_round)
        if current is not None and current.nonce == nonce:
            return ledger.current_round  # an earlier try of this step won
    verdict = batch_ledger.plan_batch(ledger, request)
    data = payloads.encode_ledger(verdict.ledger)
    if ledger is None:
        view.create(path, data)
    else:
        view.set(path, data)
    if isinstance(verdict, AlreadyDecided):
        return None
    if verdict.previous is not None:
        abort_in(view, request.prefix, verdict.previous)
    for former in former_names.supersede(view, paths.QUERIES, request, ledger, verdict.ledger, query_ids):
        abort_in(view, *former)
    owner = OwnerRecord(
        Outcome.OPEN,
        participants=(),
        timeout_ms=timeout_ms,
        batch_id=request.batch_id,
        fingerprint=request.fingerprint,
        run_id=request.run_id,
        nonce=nonce,
    )
    view.create(paths.round_owner(request.prefix, verdict.number), payloads.encode_owner(owner))
    return verdict.number


class Round:
    """One attempt to write one micro-batch. Made by `begin`; write, then decide or abort."""

    def __init__(self, services: RoundServices, request: BatchRequest, number: int, nonce: str) -> None:
        self._services = services
        self._store = services.store
        self._request = request
        self._nonce = nonce
        self._has_staged = False
        self.number = number
        self.path = paths.round_owner(request.prefix, number)
        self.partitions: tuple[TopicIdPartition, ...] = ()

    def write(self, blocks: Mapping[TopicIdPartition, Sequence[Block]]) -> None:
        """Append the tasks' blocks: per participant init, begin, append and prepare, in few multis.

        Raises:
            RoundAbortedError: someone aborted the round; run the batch again.
            RunSupersededError: a newer run took over.
        """
        for chunk in partition_log.in_steps(self._by_number(blocks)):
            reach(CrashPoint.ROUND_APPEND)
            participants = [list(parts) for _, parts in groupby(chunk, key=_number_of)]
            appended: dict[TopicIdPartition, int] = {}
            for tails in in_parts(participants, self._write_participants):
                appended |= tails
            reach(CrashPoint.ROUND_APPENDED)
            self.partitions += tuple(part.partition for part in chunk)
            for partition, tail_nodes in appended.items():
                partition_log.roll_if_long(self._store, self._services.index_files, partition, tail_nodes)

    def _write_participants(self, participants: Sequence[Sequence[PartitionBlocks]]) -> dict[TopicIdPartition, int]:
        """Append what some participants wrote, in one step; returns the lengths of the partitions' tails."""

        def write(fresh_ids: Sequence[int | None]) -> dict[TopicIdPartition, int]:
            return resolving(lambda: self._store.transact(lambda view: self._write(view, participants, fresh_ids)))

        try:
            return write([None] * len(participants))
        except ProducerIdNeeded:
            return write([self._services.producer_ids.take() for _ in participants])

    def stage_offsets(self, offsets: BatchOffsets) -> None:
        """Stage the batch's source offsets; they become current with the decision.

        Raises:
            BatchRefusedError: the group does not stand where the batch starts.
        """

        def stage(some: GroupOffsets) -> None:
            resolving(lambda: self._store.transact(lambda view: self._stage(view, offsets, some)))

        for _ in groups.step_by_step(offsets.end, stage):
            self._has_staged = True
        reach(CrashPoint.ROUND_STAGED)

    def decide(self) -> None:
        """Make everything the round wrote visible, in one small multi. Afterwards nobody can undo it (I6)."""
        reach(CrashPoint.ROUND_DECIDE)
        resolving(lambda: self._store.transact(self._decide))
        reach(CrashPoint.ROUND_DECIDED)

    def abort(self) -> None:
        """Abort the round if it is still open; nothing of it will ever be visible."""
        resolving(lambda: self._store.transact(lambda view: abort_in(view, self._request.prefix, self.number)))

    def renew(self) -> None:
        """Tell the others that the driver lives: the round's time-out counts from here."""

        def step(view: ZnodeView) -> None:
            _, record = self._check_open(view)
            view.set(self.path, payloads.encode_owner(record))

        self._store.transact(step)

    def _check_open(self, view: ZnodeView) -> tuple[QueryLedger, OwnerRecord]:
        """The fence of every step: the run is not superseded, this round is the newest and still open."""
        request = self._request
        ledger = read_ledger(view, request.prefix)
        if ledger is None:
            raise CorruptDataError("the ledger of a running sink is gone", prefix=request.prefix)
        batch_ledger.check_run(ledger, request.run_id, request.prefix)
        if ledger.query_id != request.query_id:
            raise RunSupersededError(
                "another query took this prefix over; this driver must stop",
                prefix=request.prefix,
                query_id=request.query_id,
                stored_query_id=ledger.query_id,
            )
        record = read_round(view, request.prefix, self.number)
        if record is None or record.outcome is not Outcome.OPEN or ledger.current_round != self.number:
            raise RoundAbortedError(
                "the round was aborted (by a time-out, an operator, or a newer driver); run the batch again",
                prefix=request.prefix,
                batch_id=request.batch_id,
                round=self.number,
            )
        return ledger, record

    def _write(
        self, view: ZnodeView, participants: Sequence[Sequence[PartitionBlocks]], fresh_ids: Sequence[int | None]
    ) -> dict[TopicIdPartition, int]:
        _, record = self._check_open(view)
        written = set(record.partitions)
        # An earlier try of this step, or of a part of it, may have won.
        missing = [
            (parts, fresh_id)
            for parts, fresh_id in zip(participants, fresh_ids, strict=True)
            if paths.partition(parts[0].partition) not in written
        ]
        if not missing:
            return {}
        self._read_ahead(view, [part.partition for parts, _ in missing for part in parts])
        tails: dict[TopicIdPartition, int] = {}
        producers = list(record.participants or ())
        for parts, fresh_id in missing:
            producer, appended = self._write_participant(view, _number_of(parts[0]), parts, fresh_id)
            tails |= appended
            producers.append(producer)
        written |= {paths.partition(part.partition) for parts, _ in missing for part in parts}
        grown = replace(record, partitions=tuple(sorted(written)), participants=tuple(producers))
        metadata.grow_owner(view, self.path, grown)
        return tails

    def _write_participant(
        self, view: ZnodeView, number: int, parts: Sequence[PartitionBlocks], fresh_id: int | None
    ) -> tuple[ProducerIdAndEpoch, dict[TopicIdPartition, int]]:
        """Init, begin, append and prepare the participant of log partition `number` (of one or more topics)."""
        transactional_id = self._transactional_id(number)
        producer = metadata.join_round(view, transactional_id, self.path, self._nonce, fresh_id)
        metadata.add_partitions(view, transactional_id, producer, [part.partition for part in parts], self.path)
        tails = {}
        for part in parts:
            request = Append(part.partition, producer, 0, self.path, part.blocks, part.manifest_file)
            tails[part.partition] = partition_log.append(view, request).tail_nodes
        metadata.prepare(view, transactional_id, producer)
        return producer, tails

    def _transactional_id(self, number: int) -> str:
        return f"{self._request.prefix}-{number}"

    def _read_ahead(self, view: ZnodeView, partitions: Sequence[TopicIdPartition]) -> None:
        ids = {partition.partition: self._transactional_id(partition.partition) for partition in partitions}
        view.get_many(paths.transaction(transactional_id) for transactional_id in ids.values())
        stored = {number: metadata.load(view, transactional_id) for number, transactional_id in ids.items()}
        participants = ((partition, stored[partition.partition]) for partition in partitions)
        partition_log.read_ahead(
            view, ((partition, [] if found is None else [found.producer_id]) for partition, found in participants)
        )

    def _by_number(self, blocks: Mapping[TopicIdPartition, Sequence[Block]]) -> Iterator[list[PartitionBlocks]]:
        """What the batch appends, by participant: all topics' partitions of one number."""
        manifests = partition_log.write_manifests(self._store, self._services.index_files, blocks)
        written = [PartitionBlocks(part, tuple(blocks[part]), manifests.get(part)) for part in blocks]
        for _, parts in groupby(sorted(written, key=_number_of), key=_number_of):
            yield list(parts)

    def _stage(self, view: ZnodeView, offsets: BatchOffsets, end: GroupOffsets) -> None:
        _, record = self._check_open(view)
        if end and paths.group_partition(offsets.group_id, next(iter(end))) in record.groups:
            return  # an earlier try won
        held = groups.fetch(view, offsets.group_id, end)
        moved = {p: v for p, v in held.items() if p in offsets.start and offsets.start[p].offset != v.offset}
        if moved:
            raise BatchRefusedError(
                "the group's committed offsets are not where the batch starts (did another query go on?): start "
                "the query with a new checkpoint and startingOffsets=group, or use another groupId",
                group_id=offsets.group_id,
                committed={str(partition): value.offset for partition, value in moved.items()},
                batch_start={str(partition): offsets.start[partition].offset for partition in moved},
            )
        order = groups.next_order(view, offsets.group_id, owning_prefix=self._request.prefix, nonce=self._nonce)
        listed = {*record.groups, *groups.stage(view, offsets.group_id, end, self.path, order)}
        metadata.grow_owner(view, self.path, replace(record, groups=tuple(sorted(listed))))

    def _decide(self, view: ZnodeView) -> None:
        record = read_round(view, self._request.prefix, self.number)
        if record is not None and record.outcome is Outcome.COMMIT and record.nonce == self._nonce:
            return  # an earlier try of this step won
        ledger, record = self._check_open(view)
        if self._has_staged:
            self._check_group_unmoved(view, ledger.group_id or "")
        after = batch_ledger.decided(ledger, self._request, self.number)
        view.set(paths.query(self._request.prefix), payloads.encode_ledger(after))
        view.set(self.path, payloads.encode_owner(replace(record, outcome=Outcome.COMMIT)))
        view.set_blind(paths.COMMITS, b"")

    def _check_group_unmoved(self, view: ZnodeView, group_id: str) -> None:
        group = groups.read_group(view, group_id)
        if group is None or group.nonce != self._nonce:
            raise BatchRefusedError(
                "someone else committed offsets of this sink's group while the batch was written; use another groupId",
                group_id=group_id,
                prefix=self._request.prefix,
            )


def _number_of(part: PartitionBlocks) -> int:
    return part.partition.partition


def abort_in(view: ZnodeView, prefix: str, number: int) -> bool:
    """Abort a round in the caller's step if it is still open; returns whether this step did it."""
    record = read_round(view, prefix, number)
    if record is None or record.outcome is not Outcome.OPEN:
        return False
    view.set(paths.round_owner(prefix, number), payloads.encode_owner(replace(record, outcome=Outcome.ABORT)))
    view.set_blind(paths.COMMITS, b"")
    return True


def abort(store: ZnodeStore, prefix: str, number: int) -> bool:
    """Abort a round, whoever's it is, if it is still open; returns whether it is aborted now and was not committed."""

    def step(view: ZnodeView) -> bool:
        record = read_round(view, prefix, number)
        return abort_in(view, prefix, number) or (record is not None and record.outcome is Outcome.ABORT)

    return resolving(lambda: store.transact(step))


def forget_old_rounds(store: ZnodeStore, prefix: str) -> None:
    """Delete the znodes of settled rounds that the ledger no longer needs."""
    old = [paths.round_owner(prefix, int(number)) for number in store.children(paths.rounds(prefix))]
    if len(old) > REMEMBERED_ROUNDS:
        settler.forget(store, old)


def read_ledger(reader: ZnodeReader, prefix: str) -> QueryLedger | None:
    """What the ledger says of a prefix; None before its first batch."""
    path = paths.query(prefix)
    znode = reader.get(path)
    return None if znode is None else payloads.decode_ledger(path, znode.data)


def read_round(reader: ZnodeReader, prefix: str, number: int) -> OwnerRecord | None:
    """What a round's znode says; None when it was settled and forgotten."""
    path = paths.round_owner(prefix, number)
    znode = reader.get(path)
    return None if znode is None else payloads.decode_owner(path, znode.data)
