"""Readers, settlers and writers interleaved at random, read by read, against a naive model of the whole log.

The histories are lists of steps, so that a failure shrinks to the few that matter. The same histories and the same
checker must find every fault that is planted into the scheme: what they cannot find, they cannot exclude.

``HYPOTHESIS_PROFILE=deep`` looks at many more histories.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from oncelog.types import IsolationLevel, Outcome, ProducerIdAndEpoch
from tests.properties.visibility_faults import FAULTS, Fault
from tests.properties.visibility_model import (
    BACKWARDS,
    PROGRESS,
    ROWS,
    Shown,
    broken_by,
    goes_back,
)
from tests.properties.visibility_world import (
    SOUND,
    Log,
    Reading,
    Replay,
    Scheme,
    Settling,
    read_rows,
    read_snapshot,
)

PARTITIONS = 3
WRITERS = 4
"""The even ones are transactional producers, the odd ones sinks, whose rounds have one producer per partition."""


# Histories ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Append:
    writer: int
    partition: int


@dataclass(frozen=True)
class PlainAppend:
    partition: int


@dataclass(frozen=True)
class AppendWhole:
    """A transaction of one append."""

    partition: int


@dataclass(frozen=True)
class Decide:
    """The end of the writer's open transaction or round; of a committed round, `loser` is a partition that loses."""

    writer: int
    outcome: Outcome
    loser: int | None = None


@dataclass(frozen=True)
class BeginPlan:
    partitions: tuple[int, ...]


@dataclass(frozen=True)
class BeginSettling:
    partitions: tuple[int, ...]


@dataclass(frozen=True)
class BeginReplay:
    partition: int


@dataclass(frozen=True)
class Continue:
    """One step of one of those who are at work: one read, or one multi."""

    actor: int


@dataclass(frozen=True)
class Finish:
    """All that one of them still has to do, at once."""

    actor: int


@dataclass(frozen=True)
class Nothing:
    """What a step that does not matter shrinks to."""


Write = Append | PlainAppend | AppendWhole | Decide
Step = Write | BeginPlan | BeginSettling | BeginReplay | Continue | Finish | Nothing


@dataclass(frozen=True)
class Planner:
    """A reader; `plans_before` counts the plans that were finished when it began."""

    reading: Reading
    plans_before: int = 0


@dataclass(frozen=True)
class Settler:
    """A settler that still reads; afterwards it is a `Settling`."""

    reading: Reading


Actor = Planner | Settler | Settling | Replay

STEPS: list[Step] = [  # what is listed more often happens more often
    Nothing(),
    *(Append(writer, partition) for writer in range(WRITERS) for partition in range(PARTITIONS)),
    *(Append(writer, partition) for writer in range(WRITERS) for partition in range(PARTITIONS)),
    *(PlainAppend(partition) for partition in range(PARTITIONS)),
    *(AppendWhole(partition) for partition in range(PARTITIONS)),
    *(Decide(writer, Outcome.COMMIT) for writer in range(WRITERS) for _ in range(2)),
    *(Decide(writer, Outcome.ABORT) for writer in range(WRITERS)),
    *(Decide(writer, Outcome.COMMIT, loser) for writer in (1, 3) for loser in range(2)),
    *(BeginPlan(partitions) for partitions in [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 1), (1, 0), (2, 1), (0,), (2,)]),
    *(BeginSettling(partitions) for partitions in [(0,), (1,), (2,), (0, 1), (2, 0), (0, 1, 2)]),
    *(BeginReplay(partition) for partition in range(PARTITIONS)),
    *(Continue(actor) for actor in range(4) for _ in range(8)),
    *(Finish(actor) for actor in range(4) for _ in range(2)),
]

histories = st.lists(st.sampled_from(STEPS), min_size=30, max_size=120)
writings = st.lists(st.sampled_from([step for step in STEPS if isinstance(step, Write)]), max_size=14)


class Run:
    """Takes the steps of a history and collects the laws that were broken on the way."""

    def __init__(self, scheme: Scheme = SOUND) -> None:
        self.scheme = scheme
        self.log = Log.empty(PARTITIONS)
        self.broken: set[str] = set()
        self.plans: list[Shown] = []
        self._epochs = [0] * WRITERS
        self._actors: list[Actor] = []

    def take(self, step: Step) -> None:
        match step:
            case Append(writer, partition):
                self.log = self.log.written(partition, self._owner(writer), self._producer(writer, partition))
            case PlainAppend(partition):
                self.log = self.log.written(partition, None, ProducerIdAndEpoch(99, 0))
            case AppendWhole(partition):
                epoch = len(self.log.truth.decisions)
                self.log = self.log.committed_at_once(partition, f"whole {epoch}", ProducerIdAndEpoch(98, epoch))
            case Decide(writer, outcome, loser):
                self._decide(writer, outcome, loser)
            case BeginPlan(partitions):
                self._actors.append(Planner(Reading(partitions)))
            case BeginSettling(partitions):
                self._actors.append(Settler(Reading(partitions, with_neighbours=self.scheme.settles_neighbours)))
            case BeginReplay(partition):
                ends = [plan.ends[partition] for plan in self.plans if partition in plan.ends]
                self._actors += [Replay(partition, max(ends))] if ends else []
            case Continue(actor) | Finish(actor) if self._actors:
                self._continue(actor % len(self._actors), to_its_end=isinstance(step, Finish))

    def finish(self) -> None:
        """Let all finish; then decide everything, plan, settle everything, and plan again."""
        while self._actors:
            self._continue(0, to_its_end=True)
        for writer in range(WRITERS):
            self._decide(writer, Outcome.COMMIT, None)
        self._expect_all_is_shown()
        self._actors.append(Settler(Reading(tuple(range(PARTITIONS)), with_neighbours=True)))
        self._continue(0, to_its_end=True)
        self._expect_all_is_shown()
        for owner in self.log.owners:
            self.log = self.log.forgotten(owner)
        if self.log.owners or any(state.owners for state in self.log.partitions):
            self.broken.add(PROGRESS)
        for plan in self.plans:
            self._expect_rows(plan.ends)

    def _owner(self, writer: int) -> str:
        return f"{'round' if writer % 2 else 'transaction'} {writer}.{self._epochs[writer]}"

    def _producer(self, writer: int, partition: int) -> ProducerIdAndEpoch:
        return ProducerIdAndEpoch(10 * writer + (partition if writer % 2 else 0), self._epochs[writer])

    def _decide(self, writer: int, outcome: Outcome, loser: int | None) -> None:
        owner = self._owner(writer)
        if owner in self.log.owners:
            losers = frozenset() if loser is None else frozenset({self._producer(writer, loser)})
            self.log = self.log.decided(owner, outcome, losers & self.log.producers_of(owner))
            self._epochs[writer] += 1

    def _continue(self, at: int, *, to_its_end: bool) -> None:
        actor: Actor | None = self._moved(self._actors[at])
        while actor is not None and to_its_end:
            actor = self._moved(actor)
        self._actors[at : at + 1] = [] if actor is None else [actor]

    def _moved(self, actor: Actor) -> Actor | None:
        """The actor after its next read or multi; None when it is done."""
        if isinstance(actor, Planner):
            return self._planned(actor)
        if isinstance(actor, Settler):
            reading = actor.reading.step(self.log, self.scheme)
            return Settling.of(reading, self.scheme) if reading.is_done() else Settler(reading)
        if isinstance(actor, Settling):
            self.log, following = actor.step(self.log, self.scheme)
            return following
        replay = actor.step(self.log, self.scheme)
        if not replay.is_done():
            return replay
        self._expect(replay.rows() == self.log.truth.rows(replay.partition, 0, replay.end), ROWS)
        return None

    def _planned(self, planner: Planner) -> Planner | None:
        plans_before = len(self.plans) if planner.reading.is_new() else planner.plans_before
        reading = planner.reading.step(self.log, self.scheme)
        if not reading.is_done():
            return Planner(reading, plans_before)
        if reading.must_start_over(self.scheme):
            return Planner(Reading(reading.wanted))
        shown = reading.shown(self.scheme)
        self.broken.update(broken_by(shown, self.log.truth))
        self._expect(not any(goes_back(earlier, shown) for earlier in self.plans[:plans_before]), BACKWARDS)
        self._expect_rows(shown.ends)
        self.plans.append(shown)
        return None

    def _expect(self, holds: bool, law: str) -> None:
        if not holds:
            self.broken.add(law)

    def _expect_rows(self, ends: Mapping[int, int]) -> None:
        for partition, end in ends.items():
            self._expect(read_rows(self.log, partition, end) == self.log.truth.rows(partition, 0, end), ROWS)

    def _expect_all_is_shown(self) -> None:
        shown = read_snapshot(self.log, tuple(range(PARTITIONS)), self.scheme).shown(self.scheme)
        self._expect(shown.ends == shown.log_ends, PROGRESS)
        for partition, end in shown.log_ends.items():
            records = read_rows(self.log, partition, end, IsolationLevel.READ_UNCOMMITTED)
            self._expect(records == self.log.truth.records(partition, 0, end), ROWS)


def laws_broken_by(history: list[Step], scheme: Scheme = SOUND) -> set[str]:
    run = Run(scheme)
    for step in history:
        run.take(step)
    run.finish()
    return run.broken


# The laws -------------------------------------------------------------------------------------------------------------


@settings(max_examples=3 * settings().max_examples)
@given(histories)
def test_every_plan_of_every_history_keeps_the_laws(history: list[Step]) -> None:
    """conformance: 27, 36, 37, 39, 42, 55."""
    note("\n".join(str(step) for step in history if step != Nothing()))

    assert laws_broken_by(history) == set()


@given(writings)
def test_the_ends_of_a_plan_are_the_greatest_that_hide_the_undecided_and_tear_nothing(history: list[Step]) -> None:
    """conformance: 27."""
    run = Run()
    for step in history:
        run.take(step)

    shown = read_snapshot(run.log, tuple(range(PARTITIONS))).shown()

    assert tuple(shown.ends.values()) == greatest_by_trying(run.log)


def greatest_by_trying(log: Log) -> tuple[int, ...]:
    """The greatest of all ends, looked at one by one."""
    decisions = {decision.owner: decision for decision in log.truth.decisions}

    def is_right(ends: tuple[int, ...]) -> bool:
        sides: dict[str, set[bool]] = {}
        for slots, end in zip(log.truth.partitions, ends, strict=True):
            for offset, what in enumerate(slots):
                if what is not None and what.owner is not None:
                    sides.setdefault(what.owner, set()).add(offset < end)
        undecided = {owner for owner in sides if owner not in decisions}
        committed = {owner for owner in sides if owner in decisions and decisions[owner].is_commit}
        return not any(True in sides[owner] for owner in undecided) and all(len(sides[o]) == 1 for o in committed)

    every = product(*(range(len(slots) + 1) for slots in log.truth.partitions))
    return max(filter(is_right, every), key=sum)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_random_histories_find_a_planted_fault(fault: Fault) -> None:
    chance = random.Random(fault.name)

    histories = (chance.choices(STEPS, k=chance.randint(60, 120)) for _ in range(2000))

    assert any(fault.law in laws_broken_by(history, fault.scheme) for history in histories)
