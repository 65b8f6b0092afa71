"""A run of a query with simulated brokers from its seed, which decides brokers, options and what goes wrong."""

from __future__ import annotations

from random import Random

from simulation.faults import Fault, NoFaults, RandomFaults
from simulation.kafka.brokers import SHARDS, Settings
from simulation.kafka.cluster import GuardedCluster
from simulation.kafka.jobs import Place
from simulation.kafka.laws import Auditor, Watcher, judge
from simulation.kafka.operators import AWAY_MS, LOADS_MS
from simulation.kafka.queries import TIMEOUT_MAX_MS, SinkQuery, Traits
from simulation.kafka.whole_reader import WholeReader
from simulation.swarm import Outcome, described, limits_replaced, on_log
from simulation.world import Nature, World

RATES: dict[Fault, tuple[float, ...]] = {
    Fault.CRASH_BEFORE: (0.002, 0.01, 0.03),
    Fault.CRASH_AFTER: (0.005, 0.02, 0.05),
    Fault.LOST_REPLY: (0.01, 0.05, 0.1),
    Fault.LOST_REQUEST: (0.01, 0.05, 0.1),
    Fault.DELAYED_REQUEST: (0.01, 0.05, 0.1),
    Fault.UNAVAILABLE: (0.005, 0.02),
    Fault.CONFLICT: (0.02, 0.1),
    Fault.PAUSE: (0.002, 0.01, 0.03),
    Fault.STALE_READ: (0.1, 0.5),
    Fault.CLOCK_JUMP: (0.002, 0.01, 0.03),
}
"""The probability of a fault at an operation that can have it."""

LOSSES, SET_BACKS, FALLS = (0.0, 0.0, 0.4), (0.0, 0.0, 0.2), (0.0, 0.3, 0.6)
"""The probabilities that the checkpoint is lost, or an older one is restored, when a driver begins, and that the
driver's machine dies right after a decision."""

SPECULATIVE = 0.02
"""The probability, at each check, of a second attempt of a task, in runs with copies."""

STEPWISE = 0.5
"""The share of runs whose drivers work in two steps."""

LASTS_MS = 300_000
"""During this time a reader reads, most often at the beginning."""

LOOKS = 20

WHOLE_LOOKS = 60
"""Of a reader of whole batches."""


def run(
    seed: int, *, steps_kept: int | None = None, is_stepwise: bool | None = None, is_on_log: bool | None = None
) -> Outcome:
    """Run one seed and check the result.

    Args:
        is_stepwise: see `Traits`; depends on the seed by default.
        steps_kept: how many of the last steps the trace keeps; all by default.
        is_on_log: see `Nature`; depends on the seed by default.
    """
    chance = Random(seed)
    nature = Nature(
        reads_are_atomic=chance.random() < 0.5,
        latency_max_ms=chance.choice((1, 10, 50)),
        slow=chance.choice((0.0, 0.01)),
        pause_max_ms=chance.choice((1_000, 20_000, 200_000)),
        jump_max_ms=chance.choice((1_000, 60_000, 3_600_000)),
    )
    nature, log_limits = on_log(seed, nature, is_on_log)
    world = World(chance, nature, steps_kept=steps_kept)
    share = chance.choice((0.2, 0.5, 0.8))
    faults = RandomFaults(
        chance, {fault: chance.choice(some) for fault, some in RATES.items() if chance.random() < share}
    )
    failure = None
    with world.entered(), limits_replaced(log_limits):
        try:
            drawn = Random(f"steps of {seed}").random() < STEPWISE  # a separate Random, so that all else stays the same
            _play(world, faults, seed, is_stepwise=drawn if is_stepwise is None else is_stepwise)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
            failure = described(error)
        finally:
            world.end()
    return Outcome(seed, failure, world, faults.counts, "simulation.kafka")


def _play(world: World, faults: RandomFaults, seed: int, *, is_stepwise: bool) -> None:
    readers, executors = Random(f"reads of {seed}"), Random(f"executors of {seed}")
    query = _query(world, executors, is_stepwise=is_stepwise)
    watcher = Watcher(world, query)
    whole = WholeReader(world, query, readers)
    Auditor(world, query.place.cluster, query.fall, has_sound_clocks=Fault.CLOCK_JUMP not in faults.kinds)
    world.faults = faults
    query.start()
    _disturb(world, query, watcher)
    _abort_in_partitions(world, query, Random(f"partitions of {seed}"))
    for _ in range(WHOLE_LOOKS):
        world.scheduler.start(whole.look, int(LASTS_MS ** readers.random()))
    world.scheduler.run()
    world.faults = NoFaults()

    def end() -> None:
        watcher.look()
        query.catch_up(world.process("driver"))
        watcher.look()

    world.scheduler.start(end)
    world.scheduler.run()
    judge(query)
    whole.look_at_the_end()


def _query(world: World, executors: Random, *, is_stepwise: bool) -> SinkQuery:
    chance = world.chance
    version = chance.choice((1, 2))
    settings = Settings(version=version, max_epoch=chance.choice((3, 2**15 - 1)), is_kafka_3=version == 1)
    longest_ms = chance.choice((0, 20, 500))
    cluster = GuardedCluster(world, settings, marker_delay_ms=lambda: chance.randint(0, longest_ms))
    place = Place(cluster, "out", chance.randint(1, 2))
    cluster.create_topic(place.topic, place.partitions)
    more: dict[str, object] = {
        "transactionTimeoutMs": chance.choice((5_000, 20_000, 60_000, TIMEOUT_MAX_MS, TIMEOUT_MAX_MS))
    }
    if chance.random() < 0.4:
        more |= {"onTimedOutParticipant": "rewrite", "participants": chance.randint(1, 3)}
    traits = Traits(
        has_group=chance.random() < 0.5,
        copies=SPECULATIVE if chance.random() < 0.5 else 0.0,
        losses=chance.choice(LOSSES),
        set_backs=chance.choice(SET_BACKS),
        falls=chance.choice(FALLS),
        is_stepwise=is_stepwise,
    )
    return SinkQuery(world, place, chance.randint(2, 4), more, traits, executors=executors)


def _abort_in_partitions(world: World, query: SinkQuery, chance: Random) -> None:
    """In some runs, an operator uses Kafka's own tool to abort transactions, each in a single partition."""

    def abort() -> None:
        world.counts["transactions aborted in one partition"] += query.place.cluster.abort_unchecked(chance)

    for _ in range(chance.choice((0, 0, 20))):
        world.scheduler.start(abort, chance.randrange(5_000))


def _disturb(world: World, query: SinkQuery, watcher: Watcher) -> None:
    """At random times, chosen in advance, coordinators move, an operator aborts what is open, and a reader reads."""
    chance, cluster = world.chance, query.place.cluster
    for _ in range(chance.choice((0, 0, 3))):
        move = chance.randrange(SHARDS), chance.randrange(2_000), chance.randrange(2_000)
        world.scheduler.start(lambda move=move: cluster.move_coordinators(*move), chance.randrange(5_000))  # type: ignore[misc]
    if chance.random() < 0.3:
        away = chance.randrange(SHARDS), chance.randrange(AWAY_MS), LOADS_MS
        world.scheduler.start(lambda: cluster.move_coordinators(*away), chance.randrange(60_000))
    for _ in range(chance.choice((0, 0, 2))):
        operator = world.process("operator")
        operator.start(lambda operator=operator: query.operator.abort_open(operator), chance.randrange(5_000))  # type: ignore[misc]
    for _ in range(LOOKS):
        world.scheduler.start(watcher.look, int(LASTS_MS ** chance.random()))
