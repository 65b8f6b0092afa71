"""Settling: after the decision, write the control markers and stop listing the owner. Anyone, any time, repeatable.

A decision is one znode write and is visible at once; settling only keeps the lists short. It uses a snapshot of
``/commits`` that is at least `limits.SETTLE_LAG_MS` old, so that concurrent plans, which start over when a settler's
snapshot is younger than theirs, hardly ever do.

Steps, each one multi; a crash leaves lists that the next settler finishes, or unlisted owners, which upkeep finds
(`forget_unlisted`):
  1  per chunk of partitions: markers, aborted ranges, owners removed, trim raised
  2  per owner no partition lists any more: pending group offsets folded in or dropped, the transactional id completed,
     the owner's znode deleted
Only an open owner is ever listed anew. Hence a decided one that is found unlisted stays so, and step 2 need not compare
the partitions again. The last chunk of 1 and the first of 2 share a multi, which mostly is the only one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from oncelog import limits
from oncelog.coordinator import owners, transactional_ids
from oncelog.crash_points import CrashPoint, reach
from oncelog.errors import PlanOvertakenError, StepTooLargeError
from oncelog.ledger.kinds import EMBEDDED
from oncelog.log import partition_log, partition_reads, snapshot
from oncelog.log.snapshot import LogSnapshot
from oncelog.ports import Clock, ZnodeReader, ZnodeStore, ZnodeView
from oncelog.protocol.partition import OwnerState
from oncelog.types import Outcome, TopicIdPartition
from oncelog.znodes import paths, payloads
from oncelog.znodes.transact import in_parts

PARTITIONS_PER_STEP = 50
OWNERS_PER_STEP = 200
OPERATIONS_PER_STEP = 400
"""Of step 1, and of step 2, which may share a multi: together below limits.MULTI_MAX_OPS."""

OPERATIONS_PER_OWNER = 3
PIECES_PER_PART = 10
"""Group partitions and participants of one owner that are never finished in less than a step, however large they are
(limits.MAX_GROUP_PARTITION_BYTES)."""


class Settler:
    """Settles what partitions list. One per process part that writes or plans; not shared between threads."""

    def __init__(self, store: ZnodeStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._sample: tuple[int, int] | None = None  # when a snapshot was taken, and its zxid
        self._waiting: set[TopicIdPartition] = set()

    def settle_if_due(self, partitions: Iterable[TopicIdPartition]) -> int:
        """Settle with a snapshot of at least the settle lag, if one was taken long enough ago; else remember one.

        Cheap enough to call after every transaction.

        Args:
            partitions: to settle from now on until they list nothing decided, or it fails, in any order: what is done
                depends on which they are alone.

        Returns:
            how many owners were settled somewhere.
        """
        self._waiting.update(partitions)
        now, sample = self._clock.monotonic_ms(), self._sample
        if sample is not None and now - sample[0] < limits.SETTLE_LAG_MS:
            return 0
        self._sample = (now, snapshot.commits_zxid(self._store))
        if sample is None:
            return 0
        waiting, self._waiting = sorted(self._waiting), set()
        return self._settle(waiting, sample[1])

    def settle_now(self, partitions: Iterable[TopicIdPartition]) -> int:
        """Settle everything decided before the call, once the settle lag is over; where there is nothing, at once."""
        named = list(partitions)
        zxid = snapshot.commits_zxid(self._store)
        seen = self._look(named, zxid)
        if seen is None or not _ready(seen):
            return 0
        self._clock.sleep_ms(limits.SETTLE_LAG_MS)
        return self._settle(named, zxid)

    def _look(self, partitions: Iterable[TopicIdPartition], zxid: int) -> LogSnapshot | None:
        """None if another settler used a younger snapshot: its work covers this one."""
        try:
            return snapshot.take(self._store, partitions, snapshot_zxid=zxid, with_neighbours=True)
        except PlanOvertakenError:
            return None

    def _settle(self, partitions: Sequence[TopicIdPartition], zxid: int) -> int:
        seen = self._look(partitions, zxid)
        if seen is None:
            self._waiting.update(partitions)
            return 0
        ready = _ready(seen)
        reach(CrashPoint.SETTLE)
        chunks = _chunks(seen, ready)
        settled = ready - _left_over(seen, ready)
        unlisted = {owner: seen.owners[owner] for owner in settled}
        for chunk in chunks[:-1]:
            self._settle_chunk(chunk, ready, zxid)
        if chunks:
            self._settle_and_finish(chunks[-1], ready, zxid, unlisted)
        reach(CrashPoint.SETTLED)
        self._waiting |= _unsettled(seen, settled)
        return len(ready)

    def _settle_chunk(self, chunk: Sequence[TopicIdPartition], ready: frozenset[str], zxid: int) -> None:
        def settle(some: Sequence[TopicIdPartition]) -> None:
            self._store.transact(lambda view: _settle_chunk(view, some, ready, zxid))

        in_parts(chunk, settle)

    def _settle_and_finish(
        self, chunk: Sequence[TopicIdPartition], ready: frozenset[str], zxid: int, unlisted: Mapping[str, OwnerState]
    ) -> None:
        """Settle the last chunk and finish the owners that are listed nowhere then, together where that is one step."""
        first, *others = _steps(unlisted) or [[]]

        def together(view: ZnodeView) -> frozenset[str]:
            _settle_chunk(view, chunk, ready, zxid)
            return _finish_parts(view, first, frozenset())

        try:
            _finish(self._store, others, unfinished=self._store.transact(together))
        except StepTooLargeError:
            self._settle_chunk(chunk, ready, zxid)
            _finish(self._store, [first, *others])


def _ready(seen: LogSnapshot) -> frozenset[str]:
    """The owners that are decided, and those that are gone."""
    return seen.plan.visible | seen.plan.gone


def _chunks(seen: LogSnapshot, ready: frozenset[str]) -> list[list[TopicIdPartition]]:
    """The partitions with something to settle, in steps of bounded size."""
    chunks: list[list[TopicIdPartition]] = []
    room = 0
    for partition, state in sorted(seen.partitions.items()):
        count = sum(1 for span in state.owners if span.owner in ready)
        if count == 0:
            continue
        if count > room or len(chunks[-1]) >= PARTITIONS_PER_STEP:
            chunks.append([])
            room = OWNERS_PER_STEP
        chunks[-1].append(partition)
        room -= count
    return chunks


def _settle_chunk(view: ZnodeView, chunk: Sequence[TopicIdPartition], ready: frozenset[str], zxid: int) -> None:
    _read_ahead(view, chunk, ready)
    for partition in chunk:
        if not partition_reads.exists(view, partition):
            continue  # the topic was deleted since
        decided = []
        for span in partition_reads.read_partition(view, partition).owners:
            owner = partition_reads.read_owner(view, span.owner) if span.owner in ready else None
            if owner is not None:
                decided.append((span, owner))
        if decided:
            partition_log.append_markers(view, partition, decided[:OWNERS_PER_STEP], zxid)


def _read_ahead(view: ZnodeView, chunk: Sequence[TopicIdPartition], ready: frozenset[str]) -> None:
    """Read together what settling will ask for one by one."""
    view.get_many(path for partition in chunk for path in (paths.partition(partition), paths.tail(partition)))
    listed = partition_reads.read_existing(view, chunk).items()
    spans = [(partition, span) for partition, state in listed for span in state.owners if span.owner in ready]
    producers = (paths.producer(partition, pair.producer_id) for partition, span in spans for pair in span.producers)
    view.get_many([*(span.owner for _, span in spans), *producers])


def _left_over(seen: LogSnapshot, ready: frozenset[str]) -> set[str]:
    """Owners that some partition lists behind more than one step can settle; the next settler comes to them."""
    left: set[str] = set()
    for state in seen.partitions.values():
        left.update([span.owner for span in state.owners if span.owner in ready][OWNERS_PER_STEP:])
    return left


def _unsettled(seen: LogSnapshot, settled: frozenset[str]) -> set[TopicIdPartition]:
    """Partitions that still list decided owners: too late for the snapshot, held back elsewhere, or left over."""
    left = {name for name, owner in seen.owners.items() if owner.outcome is not Outcome.OPEN} - settled
    return {partition for partition, state in seen.partitions.items() if any(s.owner in left for s in state.owners)}


# Finishing ------------------------------------------------------------------------------------------------------------


def forget_unlisted(store: ZnodeStore) -> None:
    """Finish every decided owner that no partition lists: its settler died, or its topics were deleted.

    Reads all owners; for upkeep.
    """
    forget(store, owners.decided_owners(store))


def forget(store: ZnodeStore, candidates: Iterable[str]) -> None:
    """Finish those of `candidates` that are decided and that no partition lists.

    The newest rounds of a prefix keep their znodes: they are the ledger's memory.
    """
    unlisted: dict[str, OwnerState] = {}
    listed: dict[str, frozenset[str]] = {}
    with store.snapshot() as reader:
        for owner in candidates:
            state = partition_reads.read_owner(reader, owner)
            if state is None or state.outcome is Outcome.OPEN:
                continue
            if not any(owner in _listed_owners(reader, path, listed) for path in state.partitions):
                unlisted[owner] = state
    _finish(store, _steps(unlisted))


class _Part(NamedTuple):
    """A decided owner, or some of its group partitions and participants."""

    owner: str
    state: OwnerState
    is_last: bool

    @property
    def operations(self) -> int:
        participants = len(self.state.partitions) if paths.is_round(self.owner) else 0
        return OPERATIONS_PER_OWNER + len(self.state.groups) + participants


def _finish(store: ZnodeStore, steps: Iterable[Sequence[_Part]], unfinished: frozenset[str] = frozenset()) -> None:
    """Finish decided, unlisted owners.

    Args:
        store: of the log.
        steps: see `_steps`.
        unfinished: owners of which some part could not be finished before.
    """

    def finish(parts: Sequence[_Part]) -> None:
        nonlocal unfinished
        unfinished = store.transact(lambda view: _finish_parts(view, parts, unfinished))

    for parts in steps:
        in_parts(parts, finish)


def _finish_parts(view: ZnodeView, parts: Sequence[_Part], unfinished: frozenset[str]) -> frozenset[str]:
    """Finish some parts; returns the owners of which some part could not be finished, in this step or before."""
    for part in parts:
        if not _finish_part(view, part, unfinished):
            unfinished |= {part.owner}
    return unfinished


def _finish_part(view: ZnodeView, part: _Part, unfinished: frozenset[str]) -> bool:
    if partition_reads.read_owner(view, part.owner) is None:
        return True  # another settler was faster
    is_kept = _is_remembered(view, part.owner)
    is_complete = transactional_ids.fold(
        view, part.owner, replace(part.state, partitions=()) if is_kept else part.state
    )
    if is_complete and part.is_last and not is_kept and part.owner not in unfinished:
        view.delete(part.owner)
    return is_complete


def _steps(unlisted: Mapping[str, OwnerState]) -> list[list[_Part]]:
    """What there is to finish, in steps of about `OPERATIONS_PER_STEP`."""
    steps: list[list[_Part]] = []
    room = 0
    for owner, state in sorted(unlisted.items()):
        for part in _parts(owner, state):
            if part.operations > room:
                steps.append([])
                room = OPERATIONS_PER_STEP
            steps[-1].append(part)
            room -= part.operations
    return steps


def _parts(owner: str, state: OwnerState) -> Iterator[_Part]:
    whole = _Part(owner, state, is_last=True)
    if whole.operations <= OPERATIONS_PER_OWNER + PIECES_PER_PART:
        yield whole
        return
    for at in range(0, len(state.groups), PIECES_PER_PART):
        yield _Part(owner, replace(state, partitions=(), groups=state.groups[at : at + PIECES_PER_PART]), is_last=False)
    for at in range(0, len(state.partitions), PIECES_PER_PART):
        some = state.partitions[at : at + PIECES_PER_PART]
        yield _Part(owner, replace(state, partitions=some, groups=()), is_last=False)
    yield _Part(owner, replace(state, partitions=(), groups=()), is_last=True)


def _listed_owners(reader: ZnodeReader, path: str, known: dict[str, frozenset[str]]) -> frozenset[str]:
    if path not in known:
        znode = reader.get(path)
        spans = payloads.decode_partition(path, znode.data).owners if znode else ()
        known[path] = frozenset(span.owner for span in spans)
    return known[path]


def _is_remembered(reader: ZnodeReader, owner: str) -> bool:
    return paths.is_round(owner) and EMBEDDED.is_remembered(reader, *paths.round_of(owner))
