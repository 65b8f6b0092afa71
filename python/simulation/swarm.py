"""A run from its seed, which decides the kind of world, the clients, and what goes wrong.

Each seed leaves out most kinds of faults and clients (swarm testing). So bugs that a frequent fault or client would
hide are found by the seeds without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from random import Random
from types import ModuleType

from oncelog import limits
from oncelog.batches import steps as batch_steps
from oncelog.clients import sender
from oncelog.coordinator import settler
from oncelog.protocol import identities
from oncelog.spark import log_target
from oncelog.types import IsolationLevel
from oncelog.znodes.replicated import objects
from oncelog.znodes.replicated import snapshot as log_snapshots
from oncelog.znodes.replicated import store as log_store
from simulation.clients import Client
from simulation.copiers import CopyingClient
from simulation.errors import LawBrokenError
from simulation.faults import Fault, RandomFaults
from simulation.laws import Cast, judge
from simulation.producers import IdempotentClient, TransactionalClient
from simulation.readers import PlanningClient, ReadingClient
from simulation.sinks import BatchWriteClient, QueryClient
from simulation.upkeep import DeletingClient, UpkeepClient
from simulation.world import Nature, World

STORY_STEPS, STORY_WIDTH = 30, 180
"""How many steps of the trace a failure shows."""

SOURCE, COPIES, SUNK, MIXED = "in", "copies", "sunk", "mixed"
DOOMED, DOOMED_SUNK, DRAINED = "doomed", "doomed-sunk", "drained"

DELETIONS = 0.1
"""The probability that a topic is deleted while others write and read it."""

LOSSES = (0.0, 0.0, 0.4)
"""The probability, at the start of each run of a query with a group, that its checkpoint is lost."""

RATES: dict[Fault, tuple[float, ...]] = {
    Fault.CRASH_BEFORE: (0.002, 0.01, 0.03),
    Fault.CRASH_AFTER: (0.005, 0.02, 0.05),
    Fault.LOST_REPLY: (0.01, 0.05, 0.2),
    Fault.LOST_REQUEST: (0.01, 0.05, 0.2),
    Fault.DELAYED_REQUEST: (0.01, 0.05, 0.2),
    Fault.REPEATED_REQUEST: (0.01, 0.05, 0.2),
    Fault.UNAVAILABLE: (0.005, 0.02, 0.05),
    Fault.CONFLICT: (0.02, 0.1, 0.3),
    Fault.STALE_READ: (0.1, 0.3, 0.8),
    Fault.PAUSE: (0.002, 0.01, 0.03),
    Fault.CLOCK_JUMP: (0.002, 0.01, 0.03),
    Fault.FAILED_FILE: (0.01, 0.05, 0.1),
}
"""The probability of a fault at an operation that can have it: rare, frequent, or very frequent."""

OF_A_NETWORK = (Fault.STALE_READ, Fault.DELAYED_REQUEST, Fault.REPEATED_REQUEST)
"""Only stores with servers have these."""

ON_LOG = 0.5
"""The share of the seeds with atomic reads whose znodes are on a command log."""


IN_BUCKET = 0.5
"""The share of those whose command log is in a bucket."""

IN_A_SMALL_BUCKET: Mapping[str, int] = {"LOOK_MS": 2_000, "REMOVED_AFTER_MS": 6_000, "PATIENCE_MS": 4_000}
"""Times that are short enough for a run, in the proportions of the real ones."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended.

    Attributes:
        failure: what broke, in words; None if nothing did.
        world: of the run.
        faults: how many of each kind happened.
        program: the module that runs such seeds.
    """

    seed: int
    failure: str | None
    world: World
    faults: Counter[Fault]
    program: str = "simulation"

    def counts(self) -> Counter[str]:
        """How often things happened."""
        world = self.world
        faults = {f"fault: {fault}": count for fault, count in self.faults.items()}
        whole = {"steps": world.operations, "virtual seconds": world.scheduler.now_ms // 1000}
        return world.counts + Counter({**faults, **whole, "torn or lost files": world.disk.torn})

    def story(self) -> str:
        """What broke, the last steps before it, and how to run it again."""
        steps = "\n".join(str(step)[:STORY_WIDTH] for step in list(self.world.trace)[-STORY_STEPS:])
        again = f"python -m {self.program} --seeds {self.seed} --trace"
        return f"seed {self.seed}: {self.failure}\n{steps}\nagain: make sim SEEDS={self.seed}, or {again}"


def run(seed: int, *, steps_kept: int | None = None, is_on_log: bool | None = None) -> Outcome:
    """Run one seed and check the result.

    Args:
        steps_kept: how many of the last steps the trace keeps; all by default.
        is_on_log: see `Nature`; depends on the seed by default.
    """
    chance = Random(seed)
    nature, log_limits = on_log(seed, nature_of(chance), is_on_log)
    world = World(chance, nature, steps_kept=steps_kept)
    faults = faults_of(world)
    failure = None
    with world.entered(), limits_replaced(small_limits(seed, chance) | log_limits):
        try:
            cast = _Staging(world).cast(faults)
            world.scheduler.run()
            judge(world, cast)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
            failure = described(error)
        finally:
            world.end()
    return Outcome(seed, failure, world, faults.counts)


def described(error: Exception) -> str:
    """The description of a run's failure."""
    return str(error) if isinstance(error, LawBrokenError) else f"{type(error).__name__}: {error}"


def nature_of(chance: Random) -> Nature:
    return Nature(
        reads_are_atomic=chance.random() < 0.5,
        latency_max_ms=chance.choice((1, 3, 10)),
        slow=chance.choice((0.0, 0.01, 0.05)),
        pause_max_ms=chance.choice((500, 5_000, 20_000, 200_000)),
        jump_max_ms=chance.choice((1_000, 60_000, 3_600_000)),
    )


def on_log(seed: int, nature: Nature, is_on_log: bool | None) -> tuple[Nature, dict[str, object]]:
    """Whether a seed's znodes are on a command log, and how soon snapshots of it are made.

    This is drawn by itself, so that everything else of the seed stays the same.
    """
    chance = Random(f"command log of {seed}")
    if is_on_log is None:
        is_on_log = nature.reads_are_atomic and chance.random() < ON_LOG
    if not is_on_log:
        return nature, {}
    small = {
        "SAVED_EVERY": chance.choice((2, 10, 50, 200)),
        "PART_BYTES": chance.choice((300, 900_000)),
        "STARTS": chance.choice((1, 5)),
    }
    nature = replace(nature, reads_are_atomic=True, is_on_log=True, is_in_bucket=chance.random() < IN_BUCKET)
    small |= {"SETTLED_EVERY": chance.choice((1, 4)), "ROUND_OPENED_AFTER_MS": chance.choice((1, 20, 30_000))}
    return nature, {**small, **(IN_A_SMALL_BUCKET if nature.is_in_bucket else {})}


def faults_of(world: World) -> RandomFaults:
    """Some kinds of faults, each with its own rate."""
    chance, rates = world.chance, {}
    share = chance.choice((0.2, 0.5, 0.8))
    for fault, some in RATES.items():
        has_network = world.nature.is_on_log or not world.nature.reads_are_atomic
        possible = has_network or fault not in OF_A_NETWORK
        if chance.random() < share and possible:
            rates[fault] = chance.choice(some)
    return RandomFaults(chance, rates)


def small_limits(seed: int, chance: Random) -> dict[str, object]:
    """Limits that even a small log reaches.

    What came later than the seeds that are known is drawn by itself, so that everything else of them stays the same.
    """
    return {
        "PLANNED_RECORDS": Random(f"planned records of {seed}").choice((1, 5, 1_000_000)),
        "TAIL_MAX_ENTRIES": chance.choice((3, 6, 12, 256)),
        "INDEX_FANOUT": chance.choice((2, 3, 16)),
        "INLINE_BLOCKS_MAX": chance.choice((1, 64)),
        "MAX_UNSETTLED_OWNERS": chance.choice((4, 1000, 1000)),
        "PRODUCER_ID_BLOCK": chance.choice((1, 2, 1000)),
        "GENERATION_MIN_AGE_MS": chance.choice((3_000, 60_000, 3_600_000)),
        "SETTLE_LAG_MS": chance.choice((0, 5, 200)),
        "OWNERS_PER_STEP": chance.choice((1, 200)),
        "PARTITIONS_PER_STEP": chance.choice((1, 50)),
        "LAST_USABLE_EPOCH": chance.choice((1, 3, 32_766, 32_766)),
    }


_ELSEWHERE: dict[str, ModuleType] = {
    "OWNERS_PER_STEP": settler,
    "PARTITIONS_PER_STEP": settler,
    "LAST_USABLE_EPOCH": identities,
    "REMEMBERED_ROUNDS": batch_steps,
    "GENERATION_KNOWN_MS": sender,
    "SAVED_EVERY": log_store,
    "PART_BYTES": log_snapshots,
    "STARTS": log_snapshots,
    "SETTLED_EVERY": log_target,
    "LOOK_MS": objects,
    "REMOVED_AFTER_MS": objects,
    "PATIENCE_MS": objects,
}
"""Limits that are not in the module `limits`."""


@contextmanager
def limits_replaced(values: Mapping[str, object]) -> Iterator[None]:
    """Replace limits, by name, during the block."""
    wanted = dict(values)
    if isinstance(least_ms := wanted.get("GENERATION_MIN_AGE_MS"), int):
        wanted["GENERATION_KNOWN_MS"] = least_ms // 60  # a sender caches a generation far shorter than it lasts
    places = {name: _ELSEWHERE.get(name, limits) for name in wanted}
    before = {name: getattr(place, name) for name, place in places.items()}
    for name, place in places.items():
        setattr(place, name, wanted[name])
    try:
        yield
    finally:
        for name, place in places.items():
            setattr(place, name, before[name])


class _Staging:
    """Draws the clients, and starts them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.chance

    def cast(self, faults: RandomFaults) -> Cast:
        """Create the topics, without faults, and start the clients."""
        chance, world = self._chance, self._world
        cast = Cast({SOURCE: chance.randint(1, 2), MIXED: chance.randint(1, 3)})
        copies = chance.random() < 0.4
        sinks = chance.random() < 0.5
        if copies:
            cast.topics[COPIES] = chance.randint(1, 2)
        if sinks:
            cast.topics[SUNK] = chance.randint(1, 3)
        retention_ms = chance.choice((None, None, 50, 1_000))
        if chance.random() < DELETIONS:
            cast.doomed |= {DOOMED: chance.randint(1, 2), DOOMED_SUNK: 1}
            cast.topics[DRAINED] = 1
        world.scheduler.start(lambda: self._create(cast, retention_ms))
        world.scheduler.run()
        world.faults = faults
        for client in self._clients(cast, copies=copies, sinks=sinks):
            client.start(chance.randrange(300))
        return cast

    def _create(self, cast: Cast, retention_ms: int | None) -> None:
        _, log = self._world.open("setup")
        for name, partitions in (cast.topics | cast.doomed).items():
            log.create_topic(name, partitions=partitions, retention_ms=retention_ms if name == MIXED else None)

    def _clients(self, cast: Cast, *, copies: bool, sinks: bool) -> Iterator[Client]:
        yield from self._writers(cast)
        if copies:
            yield from self._copiers(cast)
        if sinks:
            yield self._query(cast)
        yield from self._readers(cast)
        if cast.doomed:
            yield from self._around_a_deletion(cast)
        for at in range(self._chance.randint(0, 2)):
            yield UpkeepClient(self._world, f"upkeep-{at}", pause_ms=self._chance.choice((200, 1_000, 4_000)))

    def _writers(self, cast: Cast) -> Iterator[Client]:
        chance, world = self._chance, self._world
        codec = chance.choice(("null", "lz4", "zstd"))
        for at in range(chance.randint(1, 2)):
            client = TransactionalClient(
                world,
                f"writer-{at}",
                cast.partitions(*chance.choice(((SOURCE,), (MIXED,), (SOURCE, MIXED)))),
                group=f"group-{at}" if chance.random() < 0.4 else None,
                prepares=chance.random() < 0.3,
                timeout_ms=chance.choice((500, 3_000, 60_000)),
                codec=codec,
            )
            cast.producers.append(client)
            yield client
        if chance.random() < 0.4:
            yield IdempotentClient(world, "idempotent", cast.partitions(chance.choice((SOURCE, MIXED))))
        if chance.random() < 0.2:
            yield BatchWriteClient(world, "batch-write", MIXED, cast.topics[MIXED])

    def _around_a_deletion(self, cast: Cast) -> Iterator[Client]:
        chance, world = self._chance, self._world
        doomed, mixed = cast.partitions(DOOMED), cast.partitions(MIXED)
        writer = TransactionalClient(
            world,
            "doomed-writer",
            chance.choice((doomed, [*doomed, *mixed], [*mixed, *doomed])),
            group="doomed-group" if chance.random() < 0.4 else None,
            prepares=chance.random() < 0.3,
            timeout_ms=chance.choice((500, 60_000)),
        )
        cast.producers.append(writer)
        yield writer
        yield chance.choice((self._doomed_reader, self._doomed_planner))(cast)
        match chance.randrange(4):
            case 0:
                yield IdempotentClient(world, "doomed-idempotent", [*doomed, *mixed])
            case 1:
                yield BatchWriteClient(world, "doomed-batch-write", DOOMED, len(doomed))
            case 2:
                yield QueryClient(world, "doomed-query", SOURCE, DOOMED_SUNK, 1)
            case 3:
                yield QueryClient(world, "draining-query", DOOMED, DRAINED, 1)
        yield DeletingClient(world, "deleter", chance.sample(sorted(cast.doomed), len(cast.doomed)))

    def _doomed_reader(self, cast: Cast) -> Client:
        isolation = self._chance.choice(list(IsolationLevel))
        group = "doomed-readers" if self._chance.random() < 0.3 else None
        partitions = cast.partitions(DOOMED, MIXED)
        reader = ReadingClient(self._world, "doomed-reader", partitions, isolation=isolation, group=group)
        cast.readers.append(reader)
        return reader

    def _doomed_planner(self, cast: Cast) -> Client:
        return PlanningClient(self._world, "doomed-planner", [DOOMED, MIXED])

    def _copiers(self, cast: Cast) -> Iterator[Client]:
        targets = cast.partitions(COPIES)
        for source in cast.partitions(SOURCE):
            copier = CopyingClient(self._world, f"copier-{source.partition}", source, targets)
            cast.copiers.append(copier)
            yield copier

    def _query(self, cast: Cast) -> Client:
        chance = self._chance
        query = QueryClient(
            self._world,
            "query",
            SOURCE,
            SUNK,
            cast.topics[SUNK],
            group="query-progress" if chance.random() < 0.5 else None,
            max_rows=chance.choice((None, 2, 5)),
            min_tasks=chance.choice((1, 2, 3)),
            round_timeout_ms=chance.choice((1_000, 60_000)),
            losses=chance.choice(LOSSES),
        )
        cast.queries.append(query)
        return query

    def _readers(self, cast: Cast) -> Iterator[Client]:
        chance, world = self._chance, self._world
        for at in range(chance.randint(1, 2)):
            reader = ReadingClient(
                world,
                f"reader-{at}",
                cast.partitions(*chance.sample(sorted(cast.topics), chance.randint(1, len(cast.topics)))),
                isolation=chance.choice((IsolationLevel.READ_COMMITTED, *IsolationLevel)),
                group=f"readers-{at}" if chance.random() < 0.3 else None,
                max_records=chance.choice((1, 3, 1_000_000)),
            )
            cast.readers.append(reader)
            yield reader
        if chance.random() < 0.5:
            yield PlanningClient(world, "planner", chance.sample(sorted(cast.topics), chance.randint(1, 2)))
