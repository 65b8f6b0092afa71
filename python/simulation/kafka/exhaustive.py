"""Every possible fault at every call to brokers and znodes, in small scenes of the sink, each followed by a check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from random import Random

from oncelog import crash_points
from oncelog.errors import AbortableError, FatalError, OutcomeUnknownError, RetriableError
from oncelog_kafka.protocol.participants import ONGOING
from simulation.clients import GaveUpError
from simulation.errors import LawBrokenError
from simulation.exhaustive import Explored
from simulation.faults import OF_OPERATION, Fault, NoFaults, Operation, StrikesAt
from simulation.kafka.brokers import Settings
from simulation.kafka.cluster import GuardedCluster
from simulation.kafka.jobs import Place
from simulation.kafka.laws import Auditor, Watcher, judge
from simulation.kafka.queries import TIMEOUT_MAX_MS, SinkQuery
from simulation.kafka.scenes import SCENES, Scene
from simulation.processes import Process
from simulation.shards import Shard
from simulation.swarm import described
from simulation.world import Nature, World

LIVES_MAX = 8
"""A scene whose work is not done after this many drivers has failed."""

KINDS = tuple(fault for fault in OF_OPERATION[Operation.BROKER_WRITE] if fault is not Fault.CLOCK_JUMP)
"""What can happen to a call, or to the driver or task that makes it."""

LOOK_MS = 10
"""How often a reader reads."""

OVER_MS = 400_000
"""By then everything that was paused or delayed has ended."""

Strikes = Sequence[tuple[Fault, int]]
Variant = tuple[int, bool]
"""The transaction version, and whether the ledger's reads are atomic."""

VARIANTS: tuple[Variant, ...] = tuple((version, is_atomic) for version in (1, 2) for is_atomic in (True, False))


class Played:
    """One run of a scene.

    Attributes:
        faults: the faults to be simulated.
        failure: the law that broke, if one did.
        world: of the run.
    """

    def __init__(self, name: str, strikes: Strikes, variant: Variant) -> None:
        version, is_atomic = variant
        chance = Random(repr((name, variant)))
        self.faults = StrikesAt(strikes)
        self.failure: str | None = None
        self.world = World(chance, Nature(reads_are_atomic=is_atomic, latency_max_ms=10, pause_max_ms=100_000))
        with self.world.entered():
            try:
                _Stage(self.world, SCENES[name](), version).play(self.faults, {fault for fault, _ in strikes})
            except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
                self.failure = described(error)
            finally:
                crash_points.arm(None)
                self.world.end()


class _Stage:
    """One query and its drivers, one after another."""

    def __init__(self, world: World, scene: Scene, version: int) -> None:
        self._world = world
        self._scene = scene
        cluster = GuardedCluster(world, Settings(version=version, is_kafka_3=version == 1), marker_delay_ms=lambda: 5)
        place = Place(cluster, "out", 2)
        cluster.create_topic(place.topic, place.partitions)
        more = {"transactionTimeoutMs": TIMEOUT_MAX_MS, **scene.more}
        self._query = SinkQuery(world, place, 0, more, scene.traits)
        self._query.source = [
            [[world.numbers("rows", 1) for _ in range(2)] for _ in range(2)] for _ in range(scene.batches)
        ]
        self._query.operator.out_of_reach, self._query.operator.same_machine = 1.0, 0.0
        self._watcher = Watcher(world, self._query)
        Auditor(world, cluster, lambda decided: None, has_sound_clocks=True)

    def play(self, faults: StrikesAt, kinds: set[Fault]) -> None:
        world, query = self._world, self._query

        def direct() -> None:
            self._scene.prepare(query, self._follow)
            world.faults = faults
            self._work()
            world.faults = NoFaults()
            world.scheduler.wait(OVER_MS)
            self._watcher.look()
            left = query.place.cluster.list_ids([ONGOING])
            if left and not kinds:
                raise LawBrokenError(f"nothing went wrong, and transactions are left open: {left}")
            query.catch_up(world.process("driver"))
            self._watcher.look()

        world.scheduler.start(direct)
        world.scheduler.run()
        judge(query)
        may_lose = bool(kinds) and (self._scene.may_lose or Fault.DELAYED_REQUEST in kinds)
        if query.operator.given_up and not (self._scene.loses or may_lose):
            raise LawBrokenError(f"given up, though it could be committed: {query.operator.given_up}")

    def _work(self) -> None:
        """Run one driver after another, until one has done the work; a paused driver gets a successor immediately."""
        for _ in range(LIVES_MAX):
            if self._follow(self._query.go_on):
                return
        raise LawBrokenError(f"the work is not done after {LIVES_MAX} drivers")

    def _follow(self, body: Callable[[Process], None]) -> bool:
        """Run a driver, with a reader, until it has ended, died or is paused. Returns whether it has done its work."""
        query, world = self._query, self._world
        process, ends = world.process("driver"), list[bool]()
        process.on_pause = lambda: ends.append(False)
        query.drivers.append(process)

        def live() -> None:
            try:
                query.operator.prepare_start(process)
                body(process)
            except (GaveUpError, RetriableError, OutcomeUnknownError, AbortableError):
                ends.append(False)
            except FatalError as error:
                if not query.expects(error):
                    raise
                ends.append(False)
            else:
                ends.append(True)

        process.start(live)
        while not ends and not process.is_dead:
            world.scheduler.wait(LOOK_MS)
            self._watcher.look()
        return bool(ends) and ends[0]


def places_of(name: str, before: Strikes, kind: Fault, variant: Variant) -> int:
    """How many calls of a scene can have a fault, after those that have one already."""
    return Played(name, [*before, (kind, 2**31)], variant).faults.met


def singles(name: str, shard: Shard = Shard(1, 1), variants: Sequence[Variant] = VARIANTS) -> Explored:  # noqa: B008
    """Every kind of fault at every call of a scene, by transaction version and store."""
    failures: dict[tuple[object, ...], str] = {}
    places = 0
    for variant in variants:
        for kind in KINDS:
            for at in range(places_of(name, (), kind, variant)):
                if not shard.holds(f"{name} {kind} {at}"):
                    continue
                places += 1
                failure = Played(name, [(kind, at)], variant).failure
                if failure is not None:
                    failures[kind, at, *variant] = failure
    return Explored(name, places, places, failures)


def pairs(name: str, first: int, variants: Sequence[Variant] = VARIANTS) -> Explored:
    """A crash at one call, and another crash at every call that follows."""
    failures: dict[tuple[object, ...], str] = {}
    places = 0
    for variant in variants:
        before = (Fault.CRASH_BEFORE, first)
        for at in range(places_of(name, [before], Fault.CRASH_BEFORE, variant)):
            places += 1
            failure = Played(name, [before, (Fault.CRASH_BEFORE, at)], variant).failure
            if failure is not None:
                failures[first, at, *variant] = failure
    return Explored(name, places, places, failures, is_pairs=True)


def explore(*, with_pairs: bool, processes: int, shard: Shard) -> Iterator[Explored]:
    """Every scene with every fault, and with every pair of crashes if wanted."""
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(partial(singles, shard=shard), SCENES)
        if with_pairs:
            for name in SCENES:
                calls = max(places_of(name, (), Fault.CRASH_BEFORE, variant) for variant in VARIANTS)
                parts = list(pool.map(pairs, [name] * calls, range(calls)))
                failures = {places: text for part in parts for places, text in part.failures.items()}
                total = sum(part.places for part in parts)
                yield Explored(name, total, total, failures, is_pairs=True)
