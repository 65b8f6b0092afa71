"""Every place at which a driver may stand still while another one does its work, in small scenarios of targets.

A first driver stands still at one of its operations, and a second one begins. With two places, the second driver stands
still as well, at one of its own: then the first one goes on to its end, and the second one after it. If neither has
done the work, further drivers do it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from itertools import count
from multiprocessing import get_context
from random import Random

from oncelog.errors import BatchRefusedError
from oncelog.ports import Op
from simulation.exhaustive import NATURES, SMALL, Explored, Played, live, prepare, work
from simulation.faults import Fault, Operation
from simulation.laws import judge
from simulation.processes import Process
from simulation.runner import silence_warnings
from simulation.scenarios import SCENARIOS, Scenario, TargetScenario
from simulation.shards import Shard
from simulation.swarm import described, limits_replaced
from simulation.world import Nature, World

STANDS_STILL_MS = 1_000_000
"""How long the first driver stands still; the second one, twice as long."""

STANDS_STILL = "drivers that stand still"

NAMES = [name for name, scenario in SCENARIOS.items() if issubclass(scenario, TargetScenario)]


class _Drivers:
    """Drivers of one scenario, each of which stands still at one of its operations.

    Attributes:
        struck: how many of them came to their places.
        done: not empty once one of them has done the work.
    """

    def __init__(self, scenario: Scenario, places: Sequence[int]) -> None:
        self._scenario = scenario
        self._places = list(places)
        self.struck = 0
        self.done: list[bool] = []

    def start(self) -> None:
        """Start the next driver."""
        process = self._scenario.world.process("driver")
        if self.struck < len(self._places):
            left = iter(range(self._places[self.struck]))
            ask, has_stood = process.ask, list[bool]()

            def asked(operation: Operation, what: str | Sequence[Op]) -> Fault | None:
                if next(left, None) is None and not has_stood:
                    has_stood.append(True)
                    self.struck += 1
                    duration_ms = self.struck * STANDS_STILL_MS
                    process.pause(duration_ms)
                    self._scenario.world.note(process.name, "stands still")
                    self.start()
                    process.wait(duration_ms)
                return ask(operation, what)

            process.ask = asked  # type: ignore[method-assign]
        process.start(lambda: self._live(process))

    def _live(self, process: Process) -> None:
        with suppress(BatchRefusedError):  # one that wakes up may come with a batch that is long done
            live(self._scenario, process, self.done)


def play(name: str, places: Sequence[int], nature: Nature = NATURES[0]) -> Played:
    """Run a scenario with drivers that stand still, and check the result.

    Args:
        name: of the scenario.
        places: the number of the first driver's operation, and of the second driver's.
        nature: of the world.
    """
    world = World(Random(repr((name, *places))), nature)
    failure, drivers = None, None
    with world.entered(), limits_replaced(SMALL):
        try:
            scenario = SCENARIOS[name](world)
            prepare(scenario)
            drivers = _Drivers(scenario, places)
            drivers.start()
            world.scheduler.run()
            if not drivers.done:
                work(scenario)
            judge(world, scenario.cast)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
            failure = described(error)
        finally:
            world.end()
    return Played(tuple(places), drivers.struck if drivers else 0, failure, world)


def singles(name: str, natures: Sequence[Nature] = NATURES) -> Explored:
    """A driver that stands still at every operation of a scenario, in all natures."""
    return _explored(name, (), natures)


def pairs(name: str, first: int, natures: Sequence[Nature] = NATURES) -> Explored:
    """A second driver that stands still at every one of its operations, while the first one goes on."""
    return _explored(name, (first,), natures)


def _explored(name: str, before: tuple[int, ...], natures: Sequence[Nature]) -> Explored:
    places: set[tuple[int, ...]] = set()
    failures: dict[tuple[object, ...], str] = {}
    total = 0
    for nature in natures:
        for number in count():
            played = play(name, (*before, number), nature)
            if played.failure is not None:
                failures[*played.crashes, str(nature)] = played.failure
            if played.struck <= len(before):
                break
            total += 1
            places.add(played.crashes)
    return Explored(name, len(places), total, failures, is_pairs=bool(before), kind=STANDS_STILL)


def explore(*, with_pairs: bool, processes: int, shard: Shard) -> Iterator[Explored]:
    """Every scenario with one driver that stands still, and with two if wanted; each shard does a part of the pairs."""
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=silence_warnings) as pool:
        for name, alone in zip(NAMES, pool.map(singles, NAMES), strict=True):
            yield alone
            if with_pairs:
                firsts = [at for at in range(alone.places) if shard.holds(f"{name} {at}")]
                parts = list(pool.map(pairs, [name] * len(firsts), firsts))
                failures = {at: text for part in parts for at, text in part.failures.items()}
                places, runs = sum(part.places for part in parts), sum(part.runs for part in parts)
                yield Explored(name, places, runs, failures, is_pairs=True, kind=STANDS_STILL)
