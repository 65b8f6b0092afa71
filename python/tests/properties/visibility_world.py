"""A log in miniature, moved by the pure code under test: its znodes, its readers and its settlers.

Everything is a value and every read of a znode is a step of its own, as on a store without snapshots. Random histories
and the search through all interleavings take these steps in whatever order they like.

`Scheme` names the rules that make it safe; a test may break one of them, to prove that its checks find that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from oncelog.protocol import visibility
from oncelog.protocol.partition import IndexEntry, Marker, OwnerSpan, OwnerState, PartitionState
from oncelog.protocol.visibility import Plan
from oncelog.types import NO_SEQUENCE, Block, IsolationLevel, Outcome, ProducerIdAndEpoch
from tests.properties.visibility_model import Decision, Shown, Truth, Written

BLOCK = Block("data", 0, 1, 0, 1, 0, 0)
"""What each record lies in: no law asks for its content."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """The rules of reading and settling.

    Attributes:
        plan: of a reader.
        settle_plan: of a settler.
        is_overtaken: when a reader or settler starts over.
        losing_pairs: what a marker says.
        raised_trim: of a partition that a settler with a snapshot settles: (trim, snapshot) -> trim.
        settles_neighbours: a settler plans over every partition that its owners reach.
        reads_commits_first: a reader reads /commits before the partitions.
        reads_list_first: rows are read after the list of unsettled owners, and these after the rows.
    """

    plan: Callable[[int, Mapping[int, PartitionState], Mapping[str, OwnerState]], Plan[int]] = visibility.plan
    settle_plan: Callable[[int, Mapping[int, PartitionState], Mapping[str, OwnerState]], Plan[int]] = visibility.plan
    is_overtaken: Callable[[int, Iterable[PartitionState]], bool] = visibility.is_overtaken
    losing_pairs: Callable[[OwnerSpan, OwnerState], tuple[ProducerIdAndEpoch, ...]] = visibility.losing_pairs
    raised_trim: Callable[[int, int], int] = max
    settles_neighbours: bool = True
    reads_commits_first: bool = True
    reads_list_first: bool = True


SOUND = Scheme()


@dataclass(frozen=True, slots=True)
class Log:
    """The znodes, and the truth about how they came to be.

    Attributes:
        commits: mzxid of /commits.
        partitions: their znodes.
        indexes: every entry of each partition.
        owners: their znodes; an owner goes once nothing lists it.
        truth: the same history, written down naively.
    """

    partitions: tuple[PartitionState, ...]
    indexes: tuple[tuple[IndexEntry, ...], ...]
    truth: Truth
    commits: int = 0
    owners: Mapping[str, OwnerState] = field(default_factory=dict)

    @staticmethod
    def empty(partitions: int) -> Log:
        nothing = ((),) * partitions
        return Log((PartitionState(),) * partitions, nothing, Truth(nothing))

    # Writers ----------------------------------------------------------------------------------------------------------

    def written(self, partition: int, owner: str | None, producer: ProducerIdAndEpoch) -> Log:
        """One record more; the first one of an owner creates it."""
        state = self.partitions[partition]
        offset = state.log_end
        grown = replace(state, log_end=offset + 1)
        owners = self.owners
        if owner is not None:
            grown = grown.extended_by(owner, producer, offset, offset)
            listed = owners[owner].partitions if owner in owners else ()
            reached = tuple(sorted({*listed, str(partition)}))
            owners = {**owners, owner: OwnerState(Outcome.OPEN, self.commits, partitions=reached)}
        entry = IndexEntry(offset, 1, producer, 0, owner, BLOCK, None)
        truth = self.truth.wrote(partition, Written(owner, producer))
        return replace(self._with_partition(partition, grown, entry), owners=owners, truth=truth)

    def decided(self, owner: str, outcome: Outcome, losers: frozenset[ProducerIdAndEpoch] = frozenset()) -> Log:
        """One write decides: the owner's znode and /commits in one multi."""
        zxid = self.commits + 1
        producers = self.producers_of(owner)
        is_commit = outcome is Outcome.COMMIT
        winners = producers - losers if is_commit else frozenset()
        state = replace(
            self.owners[owner], outcome=outcome, decided_zxid=zxid, participants=winners if losers else None
        )
        truth = self.truth.decided(Decision(owner, zxid, is_commit, winners))
        return replace(self, commits=zxid, owners={**self.owners, owner: state}, truth=truth)

    def committed_at_once(self, partition: int, name: str, producer: ProducerIdAndEpoch) -> Log:
        """A transaction of one append: one write puts its record and its marker there, and no znode is its owner's.

        Nobody can read it before it is decided, so its decision precedes every snapshot.
        """
        state = self.partitions[partition]
        offset = state.log_end
        record = IndexEntry(offset, 1, producer, 0, name, BLOCK, None)
        marker = Marker(Outcome.COMMIT, offset, ())
        end = IndexEntry(offset + 1, 1, producer, NO_SEQUENCE, name, None, marker)
        log = self._with_partition(partition, state, record)
        log = log._with_partition(partition, replace(state, log_end=offset + 2), end)
        truth = self.truth.wrote(partition, Written(name, producer)).wrote(partition, None)
        return replace(log, truth=truth.decided(Decision(name, 0, True, frozenset({producer}))))

    def producers_of(self, owner: str) -> frozenset[ProducerIdAndEpoch]:
        spans = (span for state in self.partitions for span in state.owners if span.owner == owner)
        return frozenset(pair for span in spans for pair in span.producers)

    # Settlers ---------------------------------------------------------------------------------------------------------

    def settled(self, partition: int, ready: frozenset[str], snapshot_zxid: int, scheme: Scheme = SOUND) -> Log:
        """One multi: a marker for each of `ready` that the partition still lists; no-op when there is none."""
        log = self
        for span in self.partitions[partition].owners:
            if span.owner in ready and span.owner in self.owners:
                log = log._with_marker(partition, span, snapshot_zxid, scheme)
        return log

    def forgotten(self, owner: str) -> Log:
        """A decided owner goes once no partition lists it."""
        state = self.owners.get(owner)
        if state is None or state.outcome is Outcome.OPEN:
            return self
        if any(self.partitions[int(path)].span_of(owner) for path in state.partitions):
            return self
        return replace(self, owners={name: other for name, other in self.owners.items() if name != owner})

    def _with_marker(self, partition: int, span: OwnerSpan, snapshot_zxid: int, scheme: Scheme) -> Log:
        state, owner = self.partitions[partition], self.owners[span.owner]
        settled = replace(
            state,
            log_end=state.log_end + 1,
            trim=scheme.raised_trim(state.trim, snapshot_zxid),
            owners=tuple(listed for listed in state.owners if listed.owner != span.owner),
        )
        marker = Marker(owner.outcome, span.first, scheme.losing_pairs(span, owner))
        entry = IndexEntry(state.log_end, 1, span.producers[-1], NO_SEQUENCE, span.owner, None, marker)
        return replace(self._with_partition(partition, settled, entry), truth=self.truth.wrote(partition, None))

    def _with_partition(self, partition: int, state: PartitionState, entry: IndexEntry) -> Log:
        partitions, indexes = list(self.partitions), list(self.indexes)
        partitions[partition] = state
        indexes[partition] = (*indexes[partition], entry)
        return replace(self, partitions=tuple(partitions), indexes=tuple(indexes))


@dataclass(frozen=True, slots=True)
class Reading:
    """A snapshot on its way: what was read so far, one znode after the other.

    Attributes:
        wanted: partitions, in the order in which they are read.
        with_neighbours: follow the owners into other partitions, as a settler does.
        zxid: of /commits; None before it was read.
        starts_over: an owner was gone when it was its turn, so that its partition must be read again.
    """

    wanted: tuple[int, ...]
    with_neighbours: bool = False
    zxid: int | None = None
    partitions: Mapping[int, PartitionState] = field(default_factory=dict)
    owners: Mapping[str, OwnerState] = field(default_factory=dict)
    starts_over: bool = False

    def is_new(self) -> bool:
        return self.zxid is None and not self.partitions

    def is_done(self) -> bool:
        return self.starts_over or (
            self.zxid is not None and self._next_partition() is None and self._next_owner() is None
        )

    def step(self, log: Log, scheme: Scheme = SOUND) -> Reading:
        """Read one znode more."""
        if self.zxid is None and scheme.reads_commits_first:
            return replace(self, zxid=log.commits)
        partition = self._next_partition()
        if partition is not None:
            return replace(self, partitions={**self.partitions, partition: log.partitions[partition]})
        owner = self._next_owner()
        if owner is None:
            return replace(self, zxid=log.commits)
        if owner not in log.owners:
            return replace(self, starts_over=True)
        return replace(self, owners={**self.owners, owner: log.owners[owner]})

    def _next_partition(self) -> int | None:
        for partition in self.wanted:
            if partition not in self.partitions:
                return partition
        if not self.with_neighbours or self._next_owner() is not None:
            return None
        reached = {int(path) for state in self.owners.values() for path in state.partitions}
        return min(reached - self.partitions.keys(), default=None)

    def _next_owner(self) -> str | None:
        listed = {span.owner for state in self.partitions.values() for span in state.owners}
        return min(listed - self.owners.keys(), default=None)

    def must_start_over(self, scheme: Scheme = SOUND) -> bool:
        return self.starts_over or scheme.is_overtaken(self.snapshot_zxid, self.partitions.values())

    @property
    def snapshot_zxid(self) -> int:
        return -1 if self.zxid is None else self.zxid

    def plan(self, scheme: Scheme = SOUND) -> Plan[int]:
        rule = scheme.settle_plan if self.with_neighbours else scheme.plan
        return rule(self.snapshot_zxid, self.partitions, self.owners)

    def shown(self, scheme: Scheme = SOUND) -> Shown:
        """What a reader shows once it is done."""
        log_ends = {partition: state.log_end for partition, state in self.partitions.items()}
        return Shown(self.snapshot_zxid, log_ends, dict(self.plan(scheme).ends))


@dataclass(frozen=True, slots=True)
class Settling:
    """What a settler does when its snapshot is read: one multi per partition, then its owners' znodes."""

    ready: frozenset[str]
    snapshot_zxid: int
    partitions: tuple[int, ...]

    @staticmethod
    def of(reading: Reading, scheme: Scheme = SOUND) -> Settling | None:
        """None when another settler used a younger snapshot: its work covers this one."""
        if reading.must_start_over(scheme):
            return None
        plan = reading.plan(scheme)
        return Settling(plan.visible | plan.gone, plan.snapshot_zxid, tuple(reading.partitions))

    def step(self, log: Log, scheme: Scheme = SOUND) -> tuple[Log, Settling | None]:
        if self.partitions:
            log = log.settled(self.partitions[0], self.ready, self.snapshot_zxid, scheme)
            return log, replace(self, partitions=self.partitions[1:])
        for owner in self.ready:
            log = log.forgotten(owner)
        return log, None


@dataclass(frozen=True, slots=True)
class Replay:
    """A read of the rows of ``[0, end)``, one znode after the other; `end` was given by an earlier plan."""

    partition: int
    end: int
    state: PartitionState | None = None
    index: tuple[IndexEntry, ...] | None = None
    owners: Mapping[str, OwnerState] = field(default_factory=dict)

    def is_done(self) -> bool:
        return self.state is not None and self.index is not None and not self._missing(self.state)

    def _missing(self, state: PartitionState) -> list[str]:
        return [span.owner for span in state.owners if span.first < self.end and span.owner not in self.owners]

    def step(self, log: Log, scheme: Scheme = SOUND) -> Replay:
        """Read one znode more; begins anew when an owner was settled in between."""
        if self.index is None and (self.state is not None or not scheme.reads_list_first):
            return replace(self, index=log.indexes[self.partition])
        if self.state is None:
            return replace(self, state=log.partitions[self.partition])
        owner = self._missing(self.state)[0]
        if owner not in log.owners:
            return Replay(self.partition, self.end)
        return replace(self, owners={**self.owners, owner: log.owners[owner]})

    def rows(self, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED) -> list[int]:
        """The offsets that are shown."""
        index = self.index or ()
        aborted = visibility.aborted_pairs(
            entry for entry in index if entry.marker and entry.marker.first_offset < self.end
        )
        return [
            entry.base_offset
            for entry in index
            if entry.base_offset < self.end and visibility.is_shown(entry, isolation, self.owners, aborted)
        ]


def read_rows(
    log: Log, partition: int, end: int, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
) -> list[int]:
    """The rows of ``[0, end)`` at one moment."""
    replay = Replay(partition, end)
    while not replay.is_done():
        replay = replay.step(log)
    return replay.rows(isolation)


def read_snapshot(log: Log, wanted: tuple[int, ...], scheme: Scheme = SOUND) -> Reading:
    """A snapshot read at one moment."""
    reading = Reading(wanted)
    while not reading.is_done():
        reading = reading.step(log, scheme)
    return reading
