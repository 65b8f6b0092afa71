"""Reads a log: its partitions, transactions, groups, ledgers and collection.

It writes nothing, not even to learn the store's time, so ages are by this machine's clock.
Open transactions are found where they are listed, in partitions and groups. So what a read costs depends on partitions
and groups, and not on the number of transactional ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar, cast

from oncelog.clients import offset_lookup
from oncelog.clients.services import LogServices
from oncelog.coordinator import groups, inspection
from oncelog.coordinator.groups import GroupDescription
from oncelog.coordinator.inspection import OwnerDescription
from oncelog.errors import CorruptDataError
from oncelog.log import collection, snapshot, topics
from oncelog.log.snapshot import LogSnapshot
from oncelog.metrics import catalogue as c
from oncelog.metrics.ledgers import read_ledgers
from oncelog.metrics.reading import Holder, Reading
from oncelog.protocol import visibility
from oncelog.types import IsolationLevel, Outcome, TopicIdPartition
from oncelog.znodes import paths
from oncelog.znodes.log_payloads import decode_generation

T = TypeVar("T")

TRANSACTION_STATES = ("open", "overdue", "prepared", "decided")
ROUND_STATES = ("open", "overdue", "decided")

_Spot = tuple[str, TopicIdPartition, int, int]
"""A group's partition with its committed offset and last stable offset."""


GROUP_MS: Final = 600_000
"""How much longer an offset is shown that upkeep has expired, because nobody has committed it for days."""


class _Group(NamedTuple):
    """A group as it was read, with the zxid of its znode and the time before that."""

    zxid: int
    read_ms: int
    described: GroupDescription

    def is_current(self, zxid: int | None, now_ms: int) -> bool:
        return zxid == self.zxid and not self.described.undecided and now_ms - self.read_ms <= GROUP_MS


class LogReader:
    """Reads one log again and again, and remembers what need not be read twice."""

    def __init__(self, services: LogServices) -> None:
        self._services = services
        self._store = services.store
        self._index_files = services.new_index_files()
        self._lags: dict[_Spot, int] = {}
        self._counts: dict[str, tuple[int, object]] = {}
        self._groups: dict[str, _Group] = {}

    def read(self) -> Reading:
        """Everything at about one moment.

        Raises:
            OncelogError: the store is unreachable, or the metadata is damaged.
        """
        now_ms = self._services.clock.now_ms()
        reading = Reading([*c.LOG, *c.LEDGER])
        reading.put(c.LOG_INFO, 1, self._services.cluster_id)
        seen = _alone(snapshot.take_selected(self._store, topics.all_partitions))
        found = self._describe_groups()
        held = {owner for one in found for some in one.undecided.values() for owner in some}
        owners = inspection.describe_owners(self._store, {*seen.owners, *held}, now_ms)
        _read_partitions(reading, seen, owners)
        _read_owners(reading, owners)
        reading.holders = [_holder(owner) for owner in owners]
        ids = self._counted(paths.TRANSACTIONS, lambda: len(self._store.children(paths.TRANSACTIONS)), 0)
        reading.put(c.TRANSACTIONAL_IDS, ids)
        reading.put(c.GROUPS, len(found))
        self._read_groups(reading, found, seen)
        self._read_collection(reading, now_ms)
        with self._store.snapshot() as reader:
            read_ledgers(reader, reading, now_ms)
        return reading

    def _describe_groups(self) -> list[GroupDescription]:
        """All groups. Those are read again that may have changed.

        Every commit and every staging sets the group's znode, and settling leaves all offsets as they are. Hence a
        group that holds nothing undecided changes only with its znode, or when upkeep expires an offset.
        """
        now_ms = self._services.clock.monotonic_ms()
        zxids = groups.last_set(self._store)
        kept = {
            group_id: known for group_id, known in self._groups.items() if known.is_current(zxids.get(group_id), now_ms)
        }
        described = groups.describe(self._store, sorted(zxids.keys() - kept.keys()))
        read = {group_id: _Group(zxids[group_id], now_ms, one) for group_id, one in described.items()}
        self._groups = dict(sorted((kept | read).items()))
        return [one.described for one in self._groups.values()]

    def _read_groups(self, reading: Reading, found: Iterable[GroupDescription], seen: LogSnapshot) -> None:
        lags: dict[_Spot, int] = {}
        for group in found:
            beyond = 0
            for partition, committed in group.offsets.items():
                if partition not in seen.partitions:  # deleted since
                    continue
                where = (group.group_id, partition.topic, str(partition.partition))
                end = seen.partitions[partition].log_end
                spot = (group.group_id, partition, committed.offset, seen.plan.ends[partition])
                lags[spot] = self._lag(seen, spot)
                beyond += committed.offset > end
                reading.put(c.GROUP_OFFSET, committed.offset, *where)
                reading.put(c.GROUP_LAG, lags[spot], *where)
                reading.put(c.GROUP_LAG_TO_END, max(end - committed.offset, 0), *where)
            reading.put(c.GROUP_UNDECIDED, len(group.undecided), group.group_id)
            reading.put(c.GROUP_BEYOND, beyond, group.group_id)
        self._lags = lags

    def _lag(self, seen: LogSnapshot, spot: _Spot) -> int:
        """The lag, for which the index is only looked at if an offset changed since the last reading."""
        known = self._lags.get(spot)
        if known is not None:
            return known
        _, partition, offset, _ = spot
        isolation = IsolationLevel.READ_COMMITTED
        return offset_lookup.lag(self._services, self._index_files, seen, partition, offset, isolation)

    def _read_collection(self, reading: Reading, now_ms: int) -> None:
        znode = self._store.get(paths.GENERATION)
        if znode is None:
            raise CorruptDataError("the store holds no log", path=paths.GENERATION)
        reading.put(c.GENERATION, decode_generation(znode.data))
        reading.put(c.GENERATION_AGE, max(now_ms - znode.stat.mtime_ms, 0) / 1000)
        dead_files, dead_bytes = self._counted(paths.CANDIDATES, self._dead_files, (0, 0))
        reading.put(c.DEAD_FILES, dead_files)
        reading.put(c.DEAD_BYTES, dead_bytes)

    def _dead_files(self) -> tuple[int, int]:
        """How many they are, and their size in bytes, for which all files of the log are listed."""
        names = collection.read_candidates(self._store)
        return len(names), collection.size_of(self._services.files, names)

    def _counted(self, path: str, count: Callable[[], T], none: T) -> T:
        """What changes with the znode at `path`, which is set whenever a child comes or goes.

        There may be tens of thousands: they are only counted again after a change.

        Args:
            none: if there is no such znode.
        """
        znode = self._store.get(path)
        if znode is None:
            return none
        if path not in self._counts or self._counts[path][0] != znode.stat.mzxid:
            self._counts[path] = znode.stat.mzxid, count()
        return cast(T, self._counts[path][1])


def _alone(seen: LogSnapshot) -> LogSnapshot:
    """The same with each partition's own last stable offset: what an owner elsewhere holds back does not count."""
    ends = {
        partition: _end_alone(seen, partition) if partition in seen.plan.blockers else state.log_end
        for partition, state in seen.partitions.items()
    }
    return replace(seen, plan=replace(seen.plan, ends=ends))


def _end_alone(seen: LogSnapshot, partition: TopicIdPartition) -> int:
    state = seen.partitions[partition]
    owners = {span.owner: seen.owners[span.owner] for span in state.owners}
    alone = visibility.plan(seen.plan.snapshot_zxid, {partition: state}, owners)
    return max(alone.ends[partition], state.log_start)


def _read_partitions(reading: Reading, seen: LogSnapshot, owners: Iterable[OwnerDescription]) -> None:
    ages = {owner.path: owner.age_ms / 1000 for owner in owners if owner.outcome is Outcome.OPEN}
    oldest: dict[str, float] = {}
    for partition, state in seen.partitions.items():
        where = (partition.topic, str(partition.partition))
        reading.put(c.LOG_START, state.log_start, *where)
        reading.put(c.LAST_STABLE, seen.plan.ends[partition], *where)
        reading.put(c.LOG_END, state.log_end, *where)
        reading.put(c.SIZE, state.size_bytes, *where)
        reading.put(c.INDEX_FILES, len(state.roots), *where)
        reading.put(c.TAIL, state.tail_nodes, *where)
        open_ages = [ages[span.owner] for span in state.owners if span.owner in ages]
        oldest[partition.topic] = max([oldest.get(partition.topic, 0), *open_ages])
    reading.put(c.TOPICS, len(oldest))
    for topic, age_seconds in oldest.items():
        reading.put(c.UNDECIDED_AGE, age_seconds, topic)


def _read_owners(reading: Reading, owners: Iterable[OwnerDescription]) -> None:
    transactions, rounds = dict.fromkeys(TRANSACTION_STATES, 0), dict.fromkeys(ROUND_STATES, 0)
    oldest_prepared_ms = 0
    for owner in owners:
        counts = transactions if owner.round is None else rounds
        counts[_state(owner)] += 1
        if owner.is_prepared and owner.outcome is Outcome.OPEN:
            oldest_prepared_ms = max(oldest_prepared_ms, owner.age_ms)
    for metric, by_state in ((c.TRANSACTIONS, transactions), (c.ROUNDS, rounds)):
        for state, count in by_state.items():
            reading.put(metric, count, state)
    reading.put(c.OLDEST_PREPARED, oldest_prepared_ms / 1000)


def _holder(owner: OwnerDescription) -> Holder:
    return Holder(
        "transaction" if owner.round is None else "round",
        owner.transactional_id or "" if owner.round is None else owner.round.prefix,
        None if owner.round is None else owner.round.number,
        _state(owner),
        owner.age_ms / 1000,
        owner.timeout_ms / 1000,
        tuple(map(str, owner.partitions)),
        owner.groups,
    )


def _state(owner: OwnerDescription) -> str:
    if owner.outcome is not Outcome.OPEN:
        return "decided"
    if owner.is_prepared:
        return "prepared"
    return "overdue" if owner.is_overdue else "open"
