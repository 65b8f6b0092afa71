"""A run of a query into targets from its seed, which decides the targets, the kind of world, and what goes wrong."""

from __future__ import annotations

from random import Random

from simulation.clients import Client
from simulation.faults import NoFaults, RandomFaults
from simulation.laws import Cast, judge
from simulation.processes import Process
from simulation.swarm import (
    LOSSES,
    SUNK,
    Outcome,
    described,
    faults_of,
    limits_replaced,
    nature_of,
    on_log,
    small_limits,
)
from simulation.targets.books import Books
from simulation.targets.destinations import (
    Destination,
    LogDestination,
    OnceDestination,
    PlaceDestination,
)
from simulation.targets.places import Database, Folder, Lake, OwnStore, SharedPlace
from simulation.targets.queries import TargetQuery, Traits
from simulation.upkeep import UpkeepClient
from simulation.world import World

PROGRAM = "simulation.targets"

SPECULATIVE = (0.0, 0.02, 0.2)
"""The probability, at each look, of a second attempt of a task."""

REFUSALS = 0.3
"""The probability that a database refuses a row, until somebody mends it."""

FALLS = (0.0, 0.3, 0.6)
"""The probability that a driver's machine dies right after a decision."""

STRAYS = (0.0, 0.2)
"""The probability, at the start of a life, that the driver is given another, empty ledger first."""

OPERATED_WITHIN_MS = 3_000

PLACES: tuple[type[SharedPlace], ...] = (Folder, Database, Lake, OwnStore)

ALONE, TOGETHER = 0.4, (2, 3)
"""The share of the queries with one target, and how many the others have."""

ADDED, CHOOSY, REPEATABLE = 0.3, 0.2, 0.8
"""The shares of the queries to which sinks are added later, of the targets that get a part of the rows, and of the
queries whose plan may run a second time."""


class AbortingOperator(Client):
    """Aborts what is undecided, a few times."""

    def __init__(self, world: World, query: TargetQuery) -> None:
        super().__init__(world, "operator", lives=1)
        self._query = query

    def live(self, process: Process) -> None:
        for _ in range(2):
            process.sleep_ms(self.world.chance.randrange(OPERATED_WITHIN_MS))
            self._query.abort_open(process)


def run(seed: int, *, steps_kept: int | None = None, is_on_log: bool | None = None) -> Outcome:
    """Run one seed and check the result; see `play`."""
    return play(seed, Staging, PROGRAM, steps_kept=steps_kept, is_on_log=is_on_log)


def play(
    seed: int, staging: type[Staging], program: str, *, steps_kept: int | None = None, is_on_log: bool | None = None
) -> Outcome:
    """Run one seed and check the result.

    Args:
        staging: draws the targets.
        program: repeats the run.
        steps_kept: how many of the last steps the trace keeps; all by default.
        is_on_log: see `Nature`; depends on the seed by default.
    """
    chance = Random(seed)
    nature, log_limits = on_log(seed, nature_of(chance), is_on_log)
    world = World(chance, nature, steps_kept=steps_kept)
    faults = faults_of(world)
    failure = None
    more = {"REMEMBERED_ROUNDS": chance.choice((0, 2, 8))}
    with world.entered(), limits_replaced(small_limits(seed, chance) | log_limits | more):
        try:
            cast = staging(world).cast(faults)
            world.scheduler.run()
            _judge(world, cast)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
            failure = described(error)
        finally:
            world.end()
    return Outcome(seed, failure, world, faults.counts, program)


def _judge(world: World, cast: Cast) -> None:
    """Bring the run to its end and check everything; of the log only if something writes to it."""
    ((query, _),) = cast.targets
    if any(isinstance(one, LogDestination) for one in query.destinations):
        judge(world, cast)
        return
    world.faults = NoFaults()

    def end() -> None:
        query.catch_up(world.process("aftermath"))
        query.judge([])

    world.scheduler.start(end)
    world.scheduler.run()


class Staging:
    """Draws the targets, and starts their query."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._chance = world.chance

    def destinations(self, books: Books, partitions: int) -> list[Destination]:
        """Draw the targets.

        Args:
            partitions: of the log's topic.
        """
        chance = self._chance
        if chance.random() < ALONE:
            return [self.destination(books, chance.choice(PLACES), 0, partitions)]
        kinds = chance.sample((None, Folder, *PLACES), chance.choice(TOGETHER))
        return [self.destination(books, kind, at, partitions) for at, kind in enumerate(kinds)]

    def cast(self, faults: RandomFaults) -> Cast:
        """Create the topic, without faults, and start the clients."""
        chance, world = self._chance, self._world
        cast = Cast({SUNK: chance.randint(1, 2)})
        world.scheduler.start(lambda: self._create(cast.topics[SUNK]))
        world.scheduler.run()
        query = self._query(cast.topics[SUNK])
        cast.targets.append((query, SUNK))
        world.faults = faults
        clients: list[Client] = [query]
        if chance.random() < 0.3:
            clients.append(AbortingOperator(world, query))
        if chance.random() < 0.3:
            clients.append(UpkeepClient(world, "upkeep", pause_ms=chance.choice((200, 1_000, 4_000))))
        for client in clients:
            client.start(chance.randrange(300))
        return cast

    def _create(self, partitions: int) -> None:
        _, log = self._world.open("setup")
        log.create_topic(SUNK, partitions=partitions)

    def _query(self, partitions: int) -> TargetQuery:
        chance, world = self._chance, self._world
        books = Books(world)
        destinations = self.destinations(books, partitions)
        traits = Traits(
            batches=chance.randint(1, 4),
            losses=chance.choice(LOSSES),
            falls=chance.choice(FALLS),
            strays=0.0 if any(one.place is None for one in destinations) else chance.choice(STRAYS),
            is_repeatable=chance.random() < REPEATABLE,
        )
        added = chance.randrange(len(destinations)) if chance.random() < ADDED else 0
        first = len(destinations) - added
        query = TargetQuery(world, "query", books, destinations[:first], traits, later=destinations[first:], topic=SUNK)
        for destination in destinations:
            if isinstance(destination.place, Database) and chance.random() < REFUSALS:
                everything = [number for rows in query.source for some in rows for number in some]
                destination.place.refused.update(chance.sample(everything, min(1, len(everything))))
        return query

    def destination(self, books: Books, kind: type[SharedPlace] | None, at: int, partitions: int) -> Destination:
        """Draw the properties of one target.

        Args:
            kind: of its place; None for the log's topic.
            at: its number.
        """
        chance = self._chance
        is_choosy, speculative = chance.random() < CHOOSY, chance.choice(SPECULATIVE)
        if kind is None:
            timeout_ms = chance.choice((1_000, 60_000))
            return LogDestination(
                SUNK, partitions, round_timeout_ms=timeout_ms, is_choosy=is_choosy, speculative=speculative
            )
        place = kind(self._world, f"{kind.__name__.lower()}-{at}", books)
        if isinstance(place, OwnStore):
            return OnceDestination(place, is_choosy=is_choosy)
        return PlaceDestination(place, is_choosy=is_choosy, speculative=speculative)
