"""Random scripts of calls that a cluster gets from tasks, drivers and operators, played on a real and a simulated one.

A script's steps name what earlier steps brought (an identity that a producer got) by number, and every answer of the
real brokers must be the simulated ones': so both have the same to name.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from oncelog_kafka.brokers import KafkaRequests
from oncelog_kafka.protocol.participants import Participant, Transaction
from oncelog_kafka.protocol.ports import CommittedOffset, Requests
from raw_producer import RawProducer
from simulation.kafka.brokers import Cluster, Settings
from simulation.kafka.requests import SimulatedRequests
from simulation.kafka.transactions import ENDING, NONE, Identity, TopicPartition
from tests.support.harness.waiting import until

IDS = 2
PARTITIONS = 2
LONG_MS = 600_000
SHORT_MS = 3_000
"""Of transactions that are to time out."""

OLD_FORM = 0.2
"""How probable it is that a request has the form of transaction version 1, as of a client that knows no other."""

FIRST_STEPS = 14
LAST_STEPS = 8

_WEIGHTS = {
    "open": 6,
    "init": 3,
    "fence": 1,
    "add": 2,
    "produce": 5,
    "add offsets": 1,
    "stage": 3,
    "commit": 6,
    "abort": 3,
    "hasty": 3,
}


class Step(NamedTuple):
    """One call; the numbers are drawn for whatever it needs."""

    kind: str
    numbers: tuple[float, ...]

    def pick(self, at: int, count: int) -> int:
        """One of so many, the last ones more often."""
        return count - 1 - int(self.numbers[at] ** 2 * count)


class DifferenceError(AssertionError):
    """The two clusters do not answer alike."""


@dataclass
class Script:
    """One random script, under names of its own.

    Attributes:
        seed: of it.
        requests: the real cluster, by the client that is judged.
        producer: the real cluster, by `raw`.
        cluster: the simulated one. Its markers are written when the script says so, and never by themselves.
        topic: of this script alone, on both.
        theirs, ours: identities that both gave, in the same order.
        story: what was asked and answered so far.
    """

    seed: int
    version: int
    requests: Requests
    raw: KafkaRequests
    topic: str
    now_ms: list[int]
    cluster: Cluster = field(init=False)
    theirs: list[Identity] = field(default_factory=list)
    ours: list[Identity] = field(default_factory=list)
    story: list[str] = field(default_factory=list)
    sequences: dict[tuple[Identity, TopicPartition], int] = field(default_factory=dict)
    held: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)
        self.producer = RawProducer(self.raw)
        now_ms = self.now_ms
        settings = Settings(version=self.version, clean_up_ms=500, is_kafka_3=self.version < 2)
        self.cluster = Cluster(lambda: now_ms[0], settings, marker_delay_ms=lambda: 2**40)
        self.cluster.create_topic(self.topic, PARTITIONS)
        self.names = [f"{self.topic}-id-{number}" for number in range(IDS)]
        self.groups = [f"{self.topic}-group-{number}" for number in range(IDS)]

    # The parts

    def begin(self) -> None:
        for _ in range(FIRST_STEPS):
            self.play(self._draw())

    def open_briefly(self) -> None:
        """Leave a transaction open that times out soon."""
        self._open(self._draw(), SHORT_MS)

    def time_out(self) -> None:
        """Wait until it did, and let the simulated one."""
        name = self.ours[-1].transactional_id
        self.now_ms[0] += SHORT_MS + 1_000
        self.cluster.pass_time()
        self.cluster.settle()
        self._say("times out", name)
        ours = self._simulated()
        until(lambda: self._real() == ours, within_s=20, tell=lambda: self._difference(f"{self._real()}, not {ours}"))

    def end(self) -> None:
        for _ in range(LAST_STEPS):
            self.play(self._draw())
        listed = [one for one in self.requests.list_ids(()) if one[0] in self.names]
        self._compare("listed", sorted(listed), sorted(SimulatedRequests(self.cluster).list_ids(())))
        for group in self.groups:
            self._compare_offsets(group)

    def stage_behind_a_fenced_one(self) -> None:
        """Two transactions of one id stage an offset; the first one's producer tries again before the second ends."""
        group, name = self.groups[0], self.names[0]
        for turn in (0, 1):
            self._init(name, LONG_MS)
            at = len(self.ours) - 1
            if self.version < 2:
                self._ask("add offsets", at, lambda side, who: side.add_offsets(who, group))
            self._stage_offset(at, group, CommittedOffset(turn + 1, ""))
            if turn == 1:
                self._stage_offset(0, group, CommittedOffset(9, ""))
            self._end(at, self.version, is_commit=True)
            self._compare_offsets(group)
            held = SimulatedRequests(self.cluster).offsets({group: [(self.topic, 0)]})[group]
            assert not isinstance(held, str)
            self.held[turn] = max(one.offset for one in held.values() if isinstance(one, CommittedOffset))

    def let_expire(self, expiration_ms: int) -> None:
        """Leave one transaction open and end others; then wait until their ids are forgotten, and go on with all."""
        steps = [self._draw()._replace(kind="open") for _ in range(4)]
        for step in steps:
            self._open(step, LONG_MS)
        self._open(steps[0], LONG_MS)
        name = self.ours[-1].transactional_id
        for other in self.names:
            if other != name:
                self._init(other, LONG_MS)
                self._init(other, LONG_MS)
        self.cluster.settings.expiration_ms = expiration_ms
        self.now_ms[0] += expiration_ms
        ours = self._simulated()
        until(lambda: self._real() == ours, within_s=20, tell=lambda: self._difference(f"{self._real()}, not {ours}"))
        self.cluster.settings.expiration_ms = 2**40
        for at in range(len(self.ours)):
            self._produce(at, (self.topic, 0), 1, 0, self.version)
            self._end(at, self.version, is_commit=True)
        for other in self.names:
            self._init(other, LONG_MS)

    def _draw(self) -> Step:
        kind = self.chance.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
        return Step(kind, tuple(self.chance.random() for _ in range(6)))

    # Steps

    def play(self, step: Step) -> None:
        """Take one step on both, and compare."""
        if not self.ours or step.kind == "open":
            self._open(step, LONG_MS)
        elif step.kind == "hasty":
            self._hasty(step)
        else:
            self._one(step)

    def _open(self, step: Step, timeout_ms: int) -> None:
        """What a task does: a participant, prepared."""
        name = self.names[step.pick(0, IDS)]
        while self._init(name, timeout_ms) != NONE:
            pass
        at = len(self.ours) - 1
        partition = self.topic, step.pick(1, PARTITIONS)
        if self.version < 2:
            self._ask("add", at, lambda side, who: side.add_partitions(who, [partition]))
        self._produce(at, partition, 1 + step.pick(2, 3), 0, self.version)
        if step.numbers[3] < 0.7:
            if self.version < 2:
                self._ask("add offsets", at, lambda side, who: side.add_offsets(who, self.groups[0]))
            self._stage(at, step, self.version)

    def _one(self, step: Step) -> None:
        name, at = self.names[step.pick(0, IDS)], step.pick(0, len(self.ours))
        partition = self.topic, step.pick(1, PARTITIONS)
        version = 1 if step.numbers[1] < OLD_FORM else self.version
        if step.kind == "init":
            self._init(name, LONG_MS if step.numbers[1] < 0.9 else 10_000_000)
        elif step.kind == "fence":
            (theirs,) = self.requests.init([name], LONG_MS)
            (ours,) = SimulatedRequests(self.cluster).init([name], LONG_MS)
            self._compare(f"fence {name}", theirs, ours)
            self._settle()
        elif step.kind == "add":
            self._ask("add", at, lambda side, who: side.add_partitions(who, [partition]))
        elif step.kind == "produce":
            self._produce(at, partition, 1 + step.pick(2, 3), step.pick(3, 8), version)
        elif step.kind == "add offsets":
            self._ask("add offsets", at, lambda side, who: side.add_offsets(who, self.groups[step.pick(2, IDS)]))
        elif step.kind == "stage":
            self._stage(at, step, version)
        else:
            self._end(at, version, is_commit=step.kind == "commit")

    def _init(self, name: str, timeout_ms: int) -> str:
        theirs, real = self.producer.init(name, timeout_ms)
        ours, simulated = self.cluster.init(name, timeout_ms)
        self._compare(f"init {name}", theirs, ours)
        if real is not None and simulated is not None:
            self.theirs.append(real)
            self.ours.append(simulated)
        self._settle()
        return ours

    def _produce(self, at: int, partition: TopicPartition, count: int, how: int, version: int) -> None:
        """Write the next batch; or, for some of `how`, one that was written before, or one behind a gap."""
        key = self.ours[at], partition
        following = self.sequences.get(key, 0)
        sequence = {5: max(following - count, 0), 6: 0, 7: following + 3}.get(how, following)
        values = [f"{at}/{partition[1]}/{sequence + number}".encode() for number in range(count)]
        what = f"produce v{version} {partition[1]} {sequence}+{count}"
        answer = self._ask(what, at, lambda side, who: side.produce(who, partition, values, sequence, version=version))
        if answer == NONE and sequence == following:
            self.sequences[key] = sequence + count

    def _stage(self, at: int, step: Step, version: int) -> None:
        group = self.groups[step.pick(4, IDS)]
        offset = CommittedOffset(int(step.numbers[5] * 100), f"of {at}")
        self._stage_offset(at, group, offset, version)

    def _stage_offset(self, at: int, group: str, offset: CommittedOffset, version: int | None = None) -> None:
        offsets, form = {(self.topic, 0): offset}, version or self.version
        self._ask(f"stage v{form}", at, lambda side, who: side.stage(who, group, offsets, version=form))
        self._compare_offsets(group)

    def _end(self, at: int, version: int, *, is_commit: bool) -> None:
        theirs: tuple[str, tuple[Any, ...] | None]
        ours: tuple[str, tuple[Any, ...] | None]
        if is_commit:
            (theirs,) = self.requests.end([participant(self.theirs[at], version)])
            (ours,) = SimulatedRequests(self.cluster).end([participant(self.ours[at], version)])
        else:
            theirs = self.producer.end(self.theirs[at], is_commit=False, version=version)
            ours = self.cluster.end(self.ours[at], is_commit=False, version=version)
        self._compare(f"{'commit' if is_commit else 'abort'} v{version} {self.ours[at]}", theirs[0], ours[0])
        self._follow(at, theirs[1], ours[1])
        self._settle()

    def _follow(self, at: int, theirs: Any, ours: Any) -> None:
        """Add who may begin the id's next transaction; a kept producer goes on as it."""
        name = self.ours[at].transactional_id
        self._compare(f"  followed {name}", theirs is None, ours is None)
        if ours is not None:
            self.theirs.append(Identity(name, *theirs[-2:]))
            self.ours.append(Identity(name, *ours[-2:]))

    def _hasty(self, step: Step) -> None:
        """End a transaction and ask at once for what may find it still ending: either answer will do."""
        at, is_commit = len(self.ours) - 1, step.numbers[0] < 0.5
        who, real = self.ours[at], self.theirs[at]
        ask_commit = step.numbers[1] < 0.5
        first, _ = self.producer.end(real, is_commit=is_commit, version=self.version)
        if step.numbers[2] < 0.3:
            second = self.producer.init(real.transactional_id, LONG_MS)[0]
        else:
            second, _ = self.producer.end(real, is_commit=ask_commit, version=self.version)
        ours, _ = self.cluster.end(who, is_commit=is_commit, version=self.version)
        self._compare(f"hasty end {is_commit} {who}", first, ours)
        completing, complete = copy.deepcopy(self.cluster), copy.deepcopy(self.cluster)
        completing.settle(completes=False)
        complete.settle()
        allowed: dict[str, Cluster] = {}
        for cluster in (self.cluster, completing, complete):
            if step.numbers[2] < 0.3:
                answer = cluster.init(who.transactional_id, LONG_MS)[0]
            else:
                answer, _ = cluster.end(who, is_commit=ask_commit, version=self.version)
            allowed[answer] = cluster
        self._say(f"  then at once {step.numbers[2] < 0.3} {ask_commit}", f"{second}, expected {list(allowed)}")
        if second not in allowed:
            raise self._difference(f"real {second}, simulated {list(allowed)}")
        self.cluster = allowed[second]
        self._settle()

    def _ask(self, what: str, at: int, call: Any) -> str:
        theirs, ours = call(self.producer, self.theirs[at]), call(self.cluster, self.ours[at])
        self._compare(f"{what} {self.ours[at]}", theirs, ours)
        self._settle()
        return str(ours)

    # Comparing

    def _settle(self) -> None:
        """Let all markers be written, and compare what is known of the ids."""
        self.cluster.settle()
        ours = self._simulated()
        theirs = until(self._real_settled, within_s=20, tell=self._real)
        self._compare("  known", theirs, ours)

    def _compare_offsets(self, group: str) -> None:
        wanted = {group: [(self.topic, 0)]}
        ours = SimulatedRequests(self.cluster).offsets(wanted)
        # Behind a marker the group's coordinator needs a moment more.
        until(
            lambda: self.requests.offsets(wanted) == ours,
            within_s=10,
            tell=lambda: self._difference(f"offsets: real {self.requests.offsets(wanted)}, simulated {ours}"),
        )

    def _real(self) -> list[tuple[Any, ...]]:
        return [self._relative(found, self.theirs) for found in self.requests.describe(self.names)]

    def _real_settled(self) -> list[tuple[Any, ...]] | None:
        found = self._real()
        return None if any(one[0] in ENDING for one in found) else found

    def _simulated(self) -> list[tuple[Any, ...]]:
        return [self._relative(found, self.ours) for found in SimulatedRequests(self.cluster).describe(self.names)]

    def _relative(self, found: Transaction | str, identities: Sequence[Identity]) -> tuple[Any, ...]:
        """A description without what cannot be the same: producer ids become the first identity that has them."""
        if isinstance(found, str):
            return (found,)
        first = next((at for at, one in enumerate(identities) if one.producer_id == found.producer_id), None)
        return found.state, first, found.epoch, found.timeout_ms, found.partitions

    def _compare(self, what: str, theirs: object, ours: object) -> None:
        self._say(what, ours)
        if theirs != ours:
            raise self._difference(f"{what}: real {theirs}, simulated {ours}")

    def _say(self, what: str, answer: object) -> None:
        self.story.append(f"{what}: {answer}")

    def _difference(self, problem: str) -> DifferenceError:
        story = "\n".join(self.story)
        return DifferenceError(f"script {self.seed} at version {self.version}\n{story}\n{problem}")

    # Contents

    def contents(self, *, is_committed: bool) -> Iterator[tuple[str, int, int, bytes]]:
        """What a consumer gets of the simulated cluster."""
        for number, offset, value in self.cluster.values(self.topic, is_committed=is_committed):
            yield self.topic, number, offset, value


def participant(who: Identity, version: int) -> Participant:
    return Participant(who.transactional_id, 0, who.producer_id, who.epoch, version, 0, 0, "")
