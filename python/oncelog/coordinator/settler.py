"""Settles decided owners: writes their control markers, and takes them off the partitions' lists.

Any process may settle at any time, and repeat it. A decision is one znode write and is visible at once; settling only
keeps the lists short. It uses a value of ``/commits`` that is at least `limits.SETTLE_LAG_MS` old: a concurrent plan
starts over if a settler's value is newer than its own, and so this hardly ever happens.

Each step is one multi. After a crash, the next settler continues with the lists, and upkeep finds unlisted owners
(`forget_unlisted`):
  1  for each chunk of partitions: write markers with the aborted ranges, take owners off the lists, raise the trim
  2  for each owner that no partition lists any more: fold in or drop its group offsets, complete its transactional id,
     delete its znode
Only open owners are added to a list. Hence a decided owner that is on no list stays off, and step 2 does not need to
compare the partitions again. The last chunk of step 1 and the first of step 2 share a multi, usually the only one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from oncelog import limits
from oncelog.batches.ledger import EMBEDDED
from oncelog.coordinator import owners, transactional_ids
from oncelog.crash_points import CrashPoint, reach
from oncelog.errors import InvariantViolation, OncelogError, PlanOvertakenError, StepTooLargeError
from oncelog.log import partition_log, partition_reads, snapshot
from oncelog.log.snapshot import LogSnapshot
from oncelog.ports import Clock, ZnodeReader, ZnodeStore, ZnodeView
from oncelog.protocol.partition import OwnerState
from oncelog.types import Outcome, TopicIdPartition
from oncelog.znodes import paths, payloads
from oncelog.znodes.transact import in_parts, recently

PARTITIONS_PER_STEP = 50
OWNERS_PER_STEP = 200
OPERATIONS_PER_STEP = 400
"""Limits of step 1 and of step 2, which may share a multi: together below limits.MULTI_MAX_OPS."""

OPERATIONS_PER_OWNER = 3
PIECES_PER_PART = 10
"""So many group partitions or participants of one owner always fit into a step, however large they are
(limits.MAX_GROUP_PARTITION_BYTES)."""


class Settler:
    """Settles what partitions list, for one client. Not shared between threads."""

    def __init__(self, store: ZnodeStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._sample: tuple[int, int] | None = None  # when /commits was read, and its zxid
        self._waiting: set[TopicIdPartition] = set()

    def settle_if_due(self, partitions: Iterable[TopicIdPartition]) -> int:
        """Settle if ``/commits`` was read at least the settle lag ago; otherwise read it for a later call.

        Cheap enough to call after every transaction.

        Args:
            partitions: are settled by this and later calls until they list nothing decided, or settling fails. Their
                order does not matter.

        Returns:
            how many owners were settled in some partition.
        """
        zxid = self._due(partitions)
        if zxid is None:
            return 0
        waiting, self._waiting = sorted(self._waiting), set()
        return self._settle(waiting, zxid)

    def step_if_due(self, partitions: Iterable[TopicIdPartition]) -> Settling | None:
        """Like `settle_if_due`, but leave the step to the caller, who takes it as a part of another one.

        Args:
            partitions: as of `settle_if_due`; the caller tells `has_settled` when it has taken the step.

        Returns:
            the step; None if there is nothing to settle, or if that took several steps, which were taken.
        """
        zxid = self._due(partitions)
        if zxid is None:
            return None
        seen = self._look(sorted(self._waiting), zxid)
        if seen is None:
            return None
        ready = _ready(seen)
        chunks, settled = _chunks(seen, ready), ready - _left_over(seen, ready)
        steps = _steps({owner: seen.owners[owner] for owner in settled})
        if len(chunks) == 1 and len(steps) == 1:
            reach(CrashPoint.SETTLE)
            return Settling(chunks[0], ready, zxid, steps[0], _unsettled(seen, settled))
        self._waiting = set()
        self._settle_seen(seen, zxid)
        return None

    def has_settled(self, settling: Settling) -> None:
        """The step was taken."""
        reach(CrashPoint.SETTLED)
        self._waiting = settling.unsettled

    def _due(self, partitions: Iterable[TopicIdPartition]) -> int | None:
        """Note that `partitions` wait; returns the zxid to settle with, if that is due."""
        self._waiting.update(partitions)
        now, sample = self._clock.monotonic_ms(), self._sample
        if sample is not None and now - sample[0] < limits.SETTLE_LAG_MS:
            return None
        with recently(self._store) as reader:
            self._sample = (now, snapshot.commits_zxid(reader))
        return None if sample is None else sample[1]

    def settle_now(self, partitions: Iterable[TopicIdPartition]) -> int:
        """Wait for the settle lag and settle everything decided before the call; return at once if there is nothing."""
        named = list(partitions)
        zxid = snapshot.commits_zxid(self._store)
        seen = self._look(named, zxid)
        if seen is None or not _ready(seen):
            return 0
        self._clock.sleep_ms(limits.SETTLE_LAG_MS)
        return self._settle(named, zxid)

    def _look(self, partitions: Iterable[TopicIdPartition], zxid: int) -> LogSnapshot | None:
        """Plan with this zxid; None if another settler used a newer one, which covers this work."""
        try:
            return snapshot.take(self._store, partitions, snapshot_zxid=zxid, with_neighbours=True)
        except PlanOvertakenError:
            return None

    def _settle(self, partitions: Sequence[TopicIdPartition], zxid: int) -> int:
        seen = self._look(partitions, zxid)
        if seen is None:
            self._waiting.update(partitions)
            return 0
        return self._settle_seen(seen, zxid)

    def _settle_seen(self, seen: LogSnapshot, zxid: int) -> int:
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
        """Settle the last chunk and finish the owners that are then unlisted, in one step if it is not too large."""
        first, *others = _steps(unlisted) or [[]]

        try:
            together = partial(_settle_and_finish, chunk=chunk, ready=ready, zxid=zxid, parts=first)
            _finish(self._store, others, unfinished=self._store.transact(together))
        except StepTooLargeError:
            self._settle_chunk(chunk, ready, zxid)
            _finish(self._store, [first, *others])


class NotSettledError(Exception):
    """The part of a step that settles failed, and with it the step."""


@dataclass(frozen=True, slots=True)
class Settling:
    """What a settler found to do, if it is one step.

    Attributes:
        chunk, ready, zxid, parts: the partitions, the owners to settle in them, S, and the owners to finish.
        unsettled: the partitions that wait for the next time.
    """

    chunk: Sequence[TopicIdPartition]
    ready: frozenset[str]
    zxid: int
    parts: Sequence[_Part]
    unsettled: set[TopicIdPartition]

    def run(self, view: ZnodeView) -> None:
        """Settle within a step.

        Raises:
            NotSettledError: take the step without this; nothing was written.
        """
        try:
            _settle_and_finish(view, self.chunk, self.ready, self.zxid, self.parts)
        except (OncelogError, InvariantViolation) as problem:
            raise NotSettledError("the settling within a step failed") from problem


def _settle_and_finish(
    view: ZnodeView,
    chunk: Sequence[TopicIdPartition],
    ready: frozenset[str],
    zxid: int,
    parts: Sequence[_Part],
) -> frozenset[str]:
    _settle_chunk(view, chunk, ready, zxid)
    return _finish_parts(view, parts, frozenset())


def _ready(seen: LogSnapshot) -> frozenset[str]:
    """The owners that may be settled: the committed and the aborted ones."""
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
            continue  # the topic was deleted meanwhile
        decided = []
        for span in partition_reads.read_partition(view, partition).owners:
            owner = partition_reads.read_owner(view, span.owner) if span.owner in ready else None
            if owner is not None:
                decided.append((span, owner))
        if decided:
            partition_log.append_markers(view, partition, decided[:OWNERS_PER_STEP], zxid)


def _read_ahead(view: ZnodeView, chunk: Sequence[TopicIdPartition], ready: frozenset[str]) -> None:
    """Read all znodes at once that settling will read one by one."""
    view.get_many(path for partition in chunk for path in (paths.partition(partition), paths.tail(partition)))
    listed = partition_reads.read_existing(view, chunk).items()
    spans = [(partition, span) for partition, state in listed for span in state.owners if span.owner in ready]
    producers = (paths.producer(partition, pair.producer_id) for partition, span in spans for pair in span.producers)
    view.get_many([*(span.owner for _, span in spans), *producers])


def _left_over(seen: LogSnapshot, ready: frozenset[str]) -> set[str]:
    """Owners that a partition lists after those that one step can settle; the next settler gets to them."""
    left: set[str] = set()
    for state in seen.partitions.values():
        left.update([span.owner for span in state.owners if span.owner in ready][OWNERS_PER_STEP:])
    return left


def _unsettled(seen: LogSnapshot, settled: frozenset[str]) -> set[TopicIdPartition]:
    """Partitions that still list decided owners: decided too late, held back in another partition, or left over."""
    left = {name for name, owner in seen.owners.items() if owner.outcome is not Outcome.OPEN} - settled
    return {partition for partition, state in seen.partitions.items() if any(s.owner in left for s in state.owners)}


# Finishing ------------------------------------------------------------------------------------------------------------


def forget_unlisted(store: ZnodeStore) -> None:
    """Finish all decided owners that no partition lists, because a settler died or topics were deleted.

    For upkeep, since it reads all owners.
    """
    forget(store, owners.decided_owners(store))


def forget(store: ZnodeStore, candidates: Iterable[str]) -> None:
    """Finish those `candidates` that are decided and that no partition lists: both stays so, whenever it was read.

    The newest rounds of a prefix keep their znodes, since the ledger needs them.
    """
    unlisted: dict[str, OwnerState] = {}
    listed: dict[str, frozenset[str]] = {}
    with recently(store) as reader:
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
    """Finish decided, unlisted owners in these steps; `unfinished` are owners with parts that could not be finished."""

    def finish(parts: Sequence[_Part]) -> None:
        nonlocal unfinished
        unfinished = store.transact(lambda view: _finish_parts(view, parts, unfinished))

    for parts in steps:
        in_parts(parts, finish)


def _finish_parts(view: ZnodeView, parts: Sequence[_Part], unfinished: frozenset[str]) -> frozenset[str]:
    """Finish some parts; returns the owners with parts that could not be finished, in this step or before."""
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
    """Divide the work to finish these owners into steps of about `OPERATIONS_PER_STEP`."""
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
