"""Writes a micro-batch as one round of the ledger: the driver's side of the sinks of the embedded log.

Tasks have written and fsynced files, and no znode. The driver appends their blocks under the round, and decides with
one small multi (batches/steps.py). Crash points, and what follows after a crash:
  plan     the round is open, and the previous undecided one is aborted    a restart aborts it and starts again
  write    some partitions list the round                                  the same
  decide   everything is visible, or nothing                               a restart skips the batch
  settle   some partitions do not list the round any more                  any settler continues

On a high-latency store (`ZnodeStore.joins_steps`), a batch that fits into one step is appended, staged and decided in
that step, as a producer's commit is. So write is a part of decide. From the second batch of a run on, plan is a part of
it, too: the first batch has fenced all older runs, and a round that is open only within a step needs no timeout. If a
batch takes long or does not fit, its round is opened first.

The participant of log partition number p has the transactional id ``<prefix>-<p>``. So readers and tools see the usual
terms: producer id, epoch, sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, repeat
from typing import Any, TypeVar

from oncelog import limits
from oncelog.batches.ledger import EMBEDDED
from oncelog.batches.offsets import GroupProgress
from oncelog.batches.rules import BatchRequest, QueryLedger
from oncelog.batches.steps import REMEMBERED_ROUNDS, BatchSteps, OpenRound
from oncelog.batches.transaction import Step
from oncelog.coordinator import groups, settler, transactional_ids
from oncelog.coordinator.groups import GroupOffsets
from oncelog.coordinator.producer_ids import ProducerIds
from oncelog.crash_points import CrashPoint, reach
from oncelog.errors import BatchRefusedError, StepTooLargeError
from oncelog.log import partition_log
from oncelog.log.index_files import IndexFiles
from oncelog.log.partition_log import Append
from oncelog.ports import ZnodeStore, ZnodeView
from oncelog.protocol.coordinator_events import ProducerIdNeeded
from oncelog.types import Block, OffsetAndMetadata, Outcome, ProducerIdAndEpoch, TopicIdPartition
from oncelog.znodes import paths
from oncelog.znodes.payloads import OwnerRecord
from oncelog.znodes.transact import in_parts, recently

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PartitionBlocks:
    """What a batch appends to one partition; `manifest_file` lists the blocks if they are too many for a znode."""

    partition: TopicIdPartition
    blocks: tuple[Block, ...]
    manifest_file: str | None


@dataclass(frozen=True, slots=True)
class RoundServices:
    """The parts that a round needs: the store, the index files, and the process's producer ids."""

    store: ZnodeStore
    index_files: IndexFiles
    producer_ids: ProducerIds


def plan(
    services: RoundServices,
    steps: BatchSteps[OwnerRecord],
    take: Callable[[Round | None], None],
    *,
    timeout_ms: int = limits.ROUND_TIMEOUT_MS,
    is_alone: bool = True,
) -> Step[Any] | None:
    """The step that asks the ledger for a round; None if it is left to the one that decides.

    Args:
        steps: of the batch, in the ledgers `EMBEDDED`.
        take: takes the open round in which to write the batch, or None if the batch is already in the log.
        timeout_ms: any process may abort the round if it is not renewed for this long.
        is_alone: whether no other sink plans the batch in the same transaction.
    """
    record = new_record(steps.request, timeout_ms=timeout_ms)

    def taken(opened: OpenRound[OwnerRecord] | None) -> None:
        take(None if opened is None else Round(services, steps, opened))

    foreseen = steps.foresee(record) if services.store.joins_steps and is_alone else None
    if foreseen is None:
        return steps.plan(record, taken)
    taken(foreseen)
    return None


def new_record(request: BatchRequest, *, timeout_ms: int) -> Callable[[int, str, OwnerRecord | None], OwnerRecord]:
    """The function that makes the record of the batch's round; see `BatchSteps.plan`."""

    def make(_: int, nonce: str, __: OwnerRecord | None) -> OwnerRecord:
        return OwnerRecord(
            Outcome.OPEN,
            participants=(),
            timeout_ms=timeout_ms,
            batch_id=request.batch_id,
            fingerprint=request.fingerprint,
            run_id=request.run_id,
            nonce=nonce,
        )

    return make


class Round:
    """One attempt to write one micro-batch, from `plan`. Write, then decide or abort."""

    def __init__(self, services: RoundServices, steps: BatchSteps[OwnerRecord], opened: OpenRound[OwnerRecord]) -> None:
        self._services = services
        self._store = services.store
        self._steps = steps
        self._opened = opened
        self._prefix = steps.request.prefix
        self._nonce = opened.record.nonce or ""
        self._has_staged = False
        self._joined: list[PartitionBlocks] = []
        """What the step that decides appends."""
        self._progress: GroupProgress[TopicIdPartition] | None = None
        """What the step that decides stages."""
        self._fresh_ids: Sequence[int] | None = None
        """New producer ids for the participants, once the step that decides asked for them."""
        self.number = opened.number
        self.path = EMBEDDED.round_path(self._prefix, opened.number)
        self.partitions: tuple[TopicIdPartition, ...] = ()

    def write(self, blocks: Mapping[TopicIdPartition, Sequence[Block]]) -> None:
        """Append the tasks' blocks: for each participant init, begin, append and prepare, in a few multis.

        Raises:
            RoundAbortedError: the round was aborted; run the batch again.
            RunSupersededError: a newer run took over.
        """
        chunks: Iterable[list[PartitionBlocks]] = partition_log.in_steps(self._by_number(blocks))
        if self._joined:
            self._take_apart()
        elif self._store.joins_steps and not self.partitions:
            chunks = list(chunks)
            if len(chunks) == 1:
                self._joined = chunks[0]
                return
        for chunk in chunks:
            self._append(chunk)

    def _append(self, chunk: Sequence[PartitionBlocks]) -> None:
        """Append what fits into a step, or in several if it turns out to be too large."""
        self.open()
        reach(CrashPoint.ROUND_APPEND)
        appended: dict[TopicIdPartition, int] = {}
        for tails in in_parts(_participants(chunk), self._write_participants):
            appended |= tails
        reach(CrashPoint.ROUND_APPENDED)
        self._has_appended(chunk, appended)

    def _has_appended(self, chunk: Sequence[PartitionBlocks], appended: Mapping[TopicIdPartition, int]) -> None:
        """Roll long tails.

        Args:
            chunk: what was appended.
            appended: the lengths of the partitions' tails.
        """
        self.partitions += tuple(part.partition for part in chunk)
        for partition, tail_nodes in appended.items():
            partition_log.roll_if_long(self._store, self._services.index_files, partition, tail_nodes)

    def _write_participants(self, participants: Sequence[Sequence[PartitionBlocks]]) -> dict[TopicIdPartition, int]:
        """Append the blocks of some participants in one step; returns the lengths of the partitions' tails."""

        def write(fresh_ids: Sequence[int] | None) -> dict[TopicIdPartition, int]:
            return self._steps.run(lambda view: self._write(view, participants, fresh_ids))

        try:
            return write(None)
        except ProducerIdNeeded:
            return write(self._new_ids(participants))

    def _new_ids(self, participants: Sequence[object]) -> list[int]:
        return [self._services.producer_ids.take() for _ in participants]

    def stage_offsets(self, offsets: GroupProgress[TopicIdPartition]) -> None:
        """Stage the batch's source offsets; they become current with the decision.

        Raises:
            BatchRefusedError: the group's offsets are not those at which the batch starts.
        """
        if self._joined and len(offsets.end) <= groups.PARTITIONS_PER_STEP:
            self._progress = offsets
            return

        def stage(some: GroupOffsets) -> None:
            self._steps.run(lambda view: self._stage(view, offsets, some))

        if self._joined:
            self._take_apart()
        self.open()
        for _ in groups.step_by_step(_ends(offsets), stage):
            self._has_staged = True
        reach(CrashPoint.ROUND_STAGED)

    @property
    def is_one_step(self) -> bool:
        """Whether the step that decides does all the rest, too."""
        return bool(self._joined)

    def decide(self, also: Callable[[ZnodeView], None] | None = None) -> Step[OwnerRecord]:
        """The step that makes everything that the round wrote visible. It cannot be undone afterwards (I6).

        It raises a RunSupersededError or a RoundAbortedError if another driver took over; nothing was decided then.

        Args:
            also: what the same step does first; only for a round that is one step. If the step is too large together
                with it, the caller leaves it out.
        """
        if self._joined:
            return self._decide_at_once(self._joined, also)
        return self._steps.decide(self._opened, self._complete)

    def _decide_at_once(
        self, chunk: Sequence[PartitionBlocks], also: Callable[[ZnodeView], None] | None
    ) -> Step[OwnerRecord]:
        """Append, stage and decide in one step: nothing lists the round before it, and all of it is seen after it."""
        participants = _participants(chunk)
        appended: dict[TopicIdPartition, int] = {}

        def complete(view: ZnodeView, _: QueryLedger, __: OwnerRecord) -> OwnerRecord:
            nonlocal appended
            if also is not None:
                also(view)
            appended = self._write(view, participants, self._fresh_ids)
            if self._progress is not None:
                self._stage(view, self._progress, _ends(self._progress))
            return self._steps.check_open(view, self.number)[1]

        def recover(problem: Exception) -> bool:
            if isinstance(problem, ProducerIdNeeded) and self._fresh_ids is None:
                self._fresh_ids = self._new_ids(participants)
                return True
            if isinstance(problem, StepTooLargeError) and self._joined:
                self._take_apart()
                return True
            return False

        reach(CrashPoint.ROUND_APPEND)
        return self._steps.decide(self._opened, complete, lambda _: self._has_appended(chunk, appended), recover)

    def _take_apart(self) -> None:
        """Append and stage in steps of their own, because one that decides, too, is too large."""
        chunk, progress = self._joined, self._progress
        self._joined, self._progress = [], None
        self._append(chunk)
        if progress is not None:
            self.stage_offsets(progress)

    def open(self) -> None:
        """Open the round if that was left for the step that decides."""
        if self._opened.is_foreseen:
            self._opened = self._steps.open(self._opened)

    def abort(self) -> None:
        """Abort the round if it is still open. Then nothing of it ever becomes visible.

        A round that was not opened has its number for itself only once it is: the one that has it may be another's.
        """
        if not self._opened.is_foreseen:
            self._steps.abort(self.number)

    def renew(self) -> None:
        """Open the round, or start its time-out again: the driver is alive."""
        if self._opened.is_foreseen:
            self.open()
        else:
            self._steps.renew(self.number)

    def _write(
        self, view: ZnodeView, participants: Sequence[Sequence[PartitionBlocks]], fresh_ids: Sequence[int] | None
    ) -> dict[TopicIdPartition, int]:
        _, record = self._steps.check_open(view, self.number)
        written = set(record.partitions)
        # An earlier try of this step, or of a part of it, may have succeeded.
        missing = [
            (parts, fresh_id)
            for parts, fresh_id in zip(participants, fresh_ids or repeat(None, len(participants)), strict=True)
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
        transactional_ids.grow_owner(view, self.path, grown)
        return tails

    def _write_participant(
        self, view: ZnodeView, number: int, parts: Sequence[PartitionBlocks], fresh_id: int | None
    ) -> tuple[ProducerIdAndEpoch, dict[TopicIdPartition, int]]:
        """Init, begin, append and prepare the participant of log partition `number` (of one or more topics)."""
        transactional_id = self._transactional_id(number)
        producer = transactional_ids.join_round(view, transactional_id, self.path, self._nonce, fresh_id)
        transactional_ids.add_partitions(
            view, transactional_id, producer, [part.partition for part in parts], self.path
        )
        tails = {}
        for part in parts:
            request = Append(part.partition, producer, 0, self.path, part.blocks, part.manifest_file)
            tails[part.partition] = partition_log.append(view, request).tail_nodes
        transactional_ids.prepare(view, transactional_id, producer)
        return producer, tails

    def _transactional_id(self, number: int) -> str:
        return f"{self._prefix}-{number}"

    def _read_ahead(self, view: ZnodeView, partitions: Sequence[TopicIdPartition]) -> None:
        ids = {partition.partition: self._transactional_id(partition.partition) for partition in partitions}
        view.get_many(paths.transaction(transactional_id) for transactional_id in ids.values())
        stored = {number: transactional_ids.load(view, transactional_id) for number, transactional_id in ids.items()}
        participants = ((partition, stored[partition.partition]) for partition in partitions)
        partition_log.read_ahead(
            view, ((partition, [] if found is None else [found.producer_id]) for partition, found in participants)
        )

    def _by_number(self, blocks: Mapping[TopicIdPartition, Sequence[Block]]) -> Iterator[list[PartitionBlocks]]:
        """What the batch appends, by participant: the partitions of all topics with the same number."""
        manifests = partition_log.write_manifests(self._store, self._services.index_files, blocks)
        written = [PartitionBlocks(part, tuple(blocks[part]), manifests.get(part)) for part in blocks]
        for _, parts in groupby(sorted(written, key=_number_of), key=_number_of):
            yield list(parts)

    def _stage(self, view: ZnodeView, offsets: GroupProgress[TopicIdPartition], end: GroupOffsets) -> None:
        _, record = self._steps.check_open(view, self.number)
        if end and paths.group_partition(offsets.group_id, next(iter(end))) in record.groups:
            return  # an earlier try succeeded
        held = groups.fetch(view, offsets.group_id, end)
        offsets.check_unmoved({partition: value.offset for partition, value in held.items()})
        order = groups.next_order(view, offsets.group_id, owning_prefix=self._prefix, nonce=self._nonce)
        listed = {*record.groups, *groups.stage(view, offsets.group_id, end, self.path, order)}
        transactional_ids.grow_owner(view, self.path, replace(record, groups=tuple(sorted(listed))))

    def _complete(self, view: ZnodeView, ledger: QueryLedger, record: OwnerRecord) -> OwnerRecord:
        if self._has_staged:
            self._check_group_unmoved(view, ledger.group_id or "")
        return record

    def _check_group_unmoved(self, view: ZnodeView, group_id: str) -> None:
        group = groups.read_group(view, group_id)
        if group is None or group.nonce != self._nonce:
            raise BatchRefusedError(
                "another client committed offsets of this sink's group during the batch; use another groupId",
                group_id=group_id,
                prefix=self._prefix,
            )


def _participants(chunk: Sequence[PartitionBlocks]) -> list[list[PartitionBlocks]]:
    """What a step appends, by participant."""
    return [list(parts) for _, parts in groupby(chunk, key=_number_of)]


def _ends(offsets: GroupProgress[TopicIdPartition]) -> dict[TopicIdPartition, OffsetAndMetadata]:
    return {partition: OffsetAndMetadata(end) for partition, end in offsets.end.items()}


def _number_of(part: PartitionBlocks) -> int:
    return part.partition.partition


def forget_old_rounds(store: ZnodeStore, prefix: str) -> None:
    """Delete the znodes of settled rounds that the ledger no longer needs."""
    with recently(store) as reader:
        old = EMBEDDED.round_numbers(reader, prefix)
    if len(old) > REMEMBERED_ROUNDS:
        settler.forget(store, [EMBEDDED.round_path(prefix, number) for number in old])
