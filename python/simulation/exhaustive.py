"""Every possible crash: one or two crashes, at every operation of every core scenario, with a check after each run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import chain, count
from multiprocessing import get_context
from random import Random

from oncelog.errors import AbortableError, OutcomeUnknownError, RetriableError, RunSupersededError
from simulation.clients import GaveUpError
from simulation.errors import LawBrokenError
from simulation.faults import CrashesAt, NoFaults
from simulation.laws import judge
from simulation.processes import Process
from simulation.runner import silence_warnings
from simulation.scenarios import SCENARIOS, Scenario
from simulation.shards import Shard
from simulation.swarm import described, limits_replaced
from simulation.world import Nature, World

LIVES_MAX = 6
"""A scenario whose work is not done after this many lives has failed."""

VARIANTS = 4
"""The number of ways in which a file can be torn."""

NATURES = (Nature(), Nature(reads_are_atomic=False), Nature(is_on_log=True))
"""The kinds of worlds that every crash is tried in."""

SMALL = {
    "TAIL_MAX_ENTRIES": 5,
    "INDEX_FANOUT": 2,
    "PRODUCER_ID_BLOCK": 2,
    "OWNERS_PER_STEP": 1,
    "PARTITIONS_PER_STEP": 1,
    "SAVED_EVERY": 30,
    "PART_BYTES": 2_000,
}
"""Limits that give the scenarios many small steps."""


@dataclass(frozen=True, slots=True)
class Played:
    """One run of a scenario.

    Attributes:
        crashes: where, see `CrashesAt`.
        struck: how many of the crashes happened.
        failure: the law that broke, if one did.
        world: of the run.
    """

    crashes: tuple[int, ...]
    struck: int
    failure: str | None
    world: World


@dataclass(frozen=True, slots=True)
class Explored:
    """All runs of a scenario with some crashes.

    Attributes:
        scenario: its name.
        places: the number of possible crashes, or pairs of crashes.
        runs: how many runs that took.
        failures: what broke, by the crashes of the run.
        is_pairs: whether each run had two crashes.
        kind: what happens at a place.
    """

    scenario: str
    places: int
    runs: int
    failures: Mapping[tuple[object, ...], str]
    is_pairs: bool = False
    kind: str = "crashes"


def play(name: str, crashes: Sequence[int] = (), nature: Nature = NATURES[0], *, variant: int = 0) -> Played:
    """Run a scenario with crashes at chosen operations, and check the result.

    Args:
        name: of the scenario.
        crashes: see `CrashesAt`.
        nature: of the world.
        variant: chooses how files are torn.
    """
    world = World(Random(repr((name, *crashes, variant))), nature)
    faults = CrashesAt(crashes)
    failure = None
    with world.entered(), limits_replaced({**SMALL, **SCENARIOS[name].limits}):
        try:
            scenario = SCENARIOS[name](world)
            prepare(scenario)
            world.faults = faults
            work(scenario)
            world.faults = NoFaults()
            in_strand(world, scenario.wake)
            judge(world, scenario.cast)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
            failure = described(error)
        finally:
            world.end()
    return Played(tuple(crashes), faults.struck, failure, world)


def singles(name: str, variants: int = VARIANTS) -> Explored:
    """A crash at every operation of a scenario, in all natures, with differently torn files."""
    runs = (_until_none_strikes(name, (), nature, variant) for nature in NATURES for variant in range(variants))
    return _explored(name, chain.from_iterable(runs))


def pairs(name: str, first: int) -> Explored:
    """A second crash at every operation of the lives that follow the first crash, in all natures."""
    runs = (_until_none_strikes(name, (first,), nature) for nature in NATURES)
    return _explored(name, chain.from_iterable(runs))


def _until_none_strikes(name: str, before: tuple[int, ...], nature: Nature, variant: int = 0) -> Iterator[Played]:
    """Run with a crash at one operation after another, until a run has no further crash; that run is included."""
    for number in count():
        played = play(name, (*before, number), nature, variant=variant)
        yield played
        if played.struck < len(played.crashes):
            return


def _explored(name: str, runs: Iterable[Played]) -> Explored:
    places: set[tuple[int, ...]] = set()
    failures: dict[tuple[object, ...], str] = {}
    total = 0
    for played in runs:
        total += 1
        if played.struck == len(played.crashes):
            places.add(played.crashes)
        if played.failure is not None:
            failures[played.crashes] = played.failure
    return Explored(name, len(places), total, failures)


def explore(*, with_pairs: bool, processes: int, shard: Shard) -> Iterator[Explored]:
    """Every scenario with every crash, and with every pair of crashes if wanted; each shard does all of this."""
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=silence_warnings) as pool:
        for name, alone in zip(SCENARIOS, pool.map(singles, SCENARIOS), strict=True):
            yield alone
            if with_pairs:
                parts = list(pool.map(pairs, [name] * alone.places, range(alone.places)))
                failures = {crashes: text for part in parts for crashes, text in part.failures.items()}
                yield Explored(name, sum(p.places for p in parts), sum(p.runs for p in parts), failures, is_pairs=True)


def shown(explored: Iterable[Explored]) -> int:
    """Print what was explored. Returns 0 if no law was broken."""
    failed = total = 0
    for found in explored:
        kind = f"pairs of {found.kind}" if found.is_pairs else found.kind
        sys.stdout.write(f"{found.scenario:<20} {found.places:>6,} {kind}, {found.runs:,} runs, ")
        sys.stdout.write(f"{len(found.failures)} violations\n")
        for places, text in sorted(found.failures.items(), key=str):
            sys.stdout.write(f"  {found.kind} at {', '.join(map(str, places))}: {text}\n")
        sys.stdout.flush()
        failed += len(found.failures)
        total += found.places
    sys.stdout.write(f"{total:,} places, {failed} violations\n")
    return 1 if failed else 0


def prepare(scenario: Scenario) -> None:
    """Create the topics, and prepare what the work needs."""
    process = scenario.world.process("setup")

    def create() -> None:
        log = process.open()
        for topic, partitions in scenario.topics.items():
            log.create_topic(topic, partitions=partitions)
        scenario.prepare(process, log)

    in_strand(scenario.world, create)


def work(scenario: Scenario) -> None:
    """Run one life after another, until one has done the work."""
    for _ in range(LIVES_MAX):
        process, done = scenario.world.process("life"), list[bool]()
        process.start(lambda process=process, done=done: live(scenario, process, done))  # type: ignore[misc]
        scenario.world.scheduler.run()
        if done:
            return
    raise LawBrokenError(f"the work is not done after {LIVES_MAX} lives")


def live(scenario: Scenario, process: Process, done: list[bool]) -> None:
    """Do what is left of the work, in one life; whether it is done then is added to `done`."""
    try:
        scenario.live(process)
    except (GaveUpError, RetriableError, OutcomeUnknownError, AbortableError, RunSupersededError):
        return
    done.append(True)


def in_strand(world: World, body: Callable[[], None]) -> None:
    """Run `body`, and all that it starts."""
    world.scheduler.start(body)
    world.scheduler.run()
