"""Settling: after the decision, write the control markers and stop listing the owner. Anyone, any time, repeatable.

A decision is one znode write and is visible at once; settling only keeps the lists short. It uses a snapshot of
``/commits`` that is at least `limits.SETTLE_LAG_MS` old, so that concurrent plans, which start over when a settler's
snapshot is younger than theirs, hardly ever do.

Steps, each one multi; a crash between any two leaves lists that the next settler finishes:
  1  per chunk of partitions: markers, aborted ranges, owners removed, trim raised
  2  per owner no partition lists any more: pending group offsets folded in or dropped, the transactional id completed,
     the owner's znode deleted
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oncelog import limits
from oncelog.coordinator import groups, metadata, owners
from oncelog.crash_points import CrashPoint, reach
from oncelog.errors import PlanOvertakenError
from oncelog.log import partition_log, snapshot
from oncelog.log.snapshot import LogSnapshot
from oncelog.ports import Clock, ZnodeReader, ZnodeStore, ZnodeView
from oncelog.types import Outcome, TopicIdPartition
from oncelog.znodes import paths, payloads

PARTITIONS_PER_STEP = 50
OWNERS_PER_STEP = 200
"""Bound a step to a few hundred operations, far below limits.MULTI_MAX_OPS."""


class Settler:
    """Settles what partitions list. One per process part that writes or plans; not shared between threads."""

    def __init__(self, store: ZnodeStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._samples: list[tuple[int, int]] = []

    def settle_if_due(self, partitions: Iterable[TopicIdPartition]) -> int:
        """Settle with a snapshot of at least the settle lag, if one was taken long enough ago; else remember one.

        Cheap enough to call after every transaction.

        Returns:
            how many owners were settled somewhere.
        """
        now = self._clock.monotonic_ms()
        due = [zxid for taken_ms, zxid in self._samples if now - taken_ms >= limits.SETTLE_LAG_MS]
        if due:
            self._samples = []
        if not self._samples:
            self._samples.append((now, snapshot.commits_zxid(self._store)))
        return self._settle(partitions, due[-1]) if due else 0

    def settle_now(self, partitions: Iterable[TopicIdPartition]) -> int:
        """Wait out the settle lag, then settle everything decided before the call."""
        zxid = snapshot.commits_zxid(self._store)
        self._clock.sleep_ms(limits.SETTLE_LAG_MS)
        return self._settle(partitions, zxid)

    def _settle(self, partitions: Iterable[TopicIdPartition], zxid: int) -> int:
        try:
            seen = snapshot.take(self._store, partitions, snapshot_zxid=zxid, with_neighbours=True)
        except PlanOvertakenError:
            return 0  # another settler used a younger snapshot: its work covers this one
        ready = seen.plan.visible | seen.plan.gone
        reach(CrashPoint.SETTLE)
        chunks = _chunks(seen, ready)
        for chunk in chunks[:-1]:
            self._store.transact(lambda view, chunk=chunk: _settle_chunk(view, chunk, ready, zxid))  # type: ignore[misc]
        decided = sorted(ready)
        for at in range(0, len(decided), OWNERS_PER_STEP):
            some, last = decided[at : at + OWNERS_PER_STEP], chunks[-1] if at == 0 else []
            self._store.transact(lambda view, some=some, last=last: _finish(view, last, ready, zxid, some))  # type: ignore[misc]
        reach(CrashPoint.SETTLED)
        return len(decided)


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
    for partition in chunk:
        if not partition_log.exists(view, partition):
            continue  # the topic was deleted since
        decided = []
        for span in partition_log.read_partition(view, partition).owners:
            owner = partition_log.read_owner(view, span.owner) if span.owner in ready else None
            if owner is not None:
                decided.append((span, owner))
        if decided:
            partition_log.append_markers(view, partition, decided[:OWNERS_PER_STEP], zxid)


def _finish(
    view: ZnodeView, chunk: Sequence[TopicIdPartition], ready: frozenset[str], zxid: int, decided: Sequence[str]
) -> None:
    _settle_chunk(view, chunk, ready, zxid)
    forget(view, decided)


def forget(view: ZnodeView, decided: Iterable[str]) -> None:
    """Finish decided owners that no partition lists: their group offsets, transactional id and znode.

    The newest rounds of a prefix keep their znodes: they are the ledger's memory.
    """
    listed: dict[str, frozenset[str]] = {}
    for owner in decided:
        state = partition_log.read_owner(view, owner)
        if state is None or state.outcome is Outcome.OPEN:
            continue
        if any(owner in _listed_owners(view, path, listed) for path in state.partitions):
            continue
        for path in state.groups:
            groups.settle(view, path, owner, state)
        if not _is_remembered(view, owner) and metadata.complete_owned(view, owner, state):
            view.delete(owner)


def forget_unlisted(store: ZnodeStore) -> None:
    """Finish every decided owner that no partition lists: it staged offsets alone, or its topics were deleted.

    Reads all owners; for upkeep.
    """
    decided = owners.decided_owners(store)
    for at in range(0, len(decided), OWNERS_PER_STEP):
        some = decided[at : at + OWNERS_PER_STEP]
        store.transact(lambda view, some=some: forget(view, some))  # type: ignore[misc]


def _listed_owners(reader: ZnodeReader, path: str, known: dict[str, frozenset[str]]) -> frozenset[str]:
    if path not in known:
        znode = reader.get(path)
        spans = payloads.decode_partition(path, znode.data).owners if znode else ()
        known[path] = frozenset(span.owner for span in spans)
    return known[path]


def _is_remembered(reader: ZnodeReader, owner: str) -> bool:
    if not paths.is_round(owner):
        return False
    prefix, number = paths.round_of(owner)
    path = paths.query(prefix)
    znode = reader.get(path)
    if znode is None:
        return False
    ledger = payloads.decode_ledger(path, znode.data)
    return number == ledger.current_round or (ledger.last is not None and number == ledger.last.round)
