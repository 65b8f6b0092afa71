"""The command log in the simulation: no seed breaks a law on it, and whoever goes on upon a damaged one agrees."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from oncelog.errors import CorruptDataError
from oncelog.ports import Create, ZnodeStore, ZnodeView
from oncelog.testing.znode_store_contract.worlds import increment
from oncelog.znodes.replicated import store
from oncelog.znodes.replicated.port import Entry
from simulation.clients import Client, persevere
from simulation.command_log import SharedLog
from simulation.errors import LawBrokenError
from simulation.faults import Fault, RandomFaults
from simulation.processes import Process
from simulation.swarm import IN_A_SMALL_BUCKET, RATES, STORY_STEPS, limits_replaced, run
from simulation.world import Nature, World

pytestmark = pytest.mark.sampled

SEEDS = 10
COUNTS = 4
DAMAGED_SEEDS = 150
OFTEN = 0.05

LOOK_MS, REMOVED_AFTER_MS = IN_A_SMALL_BUCKET["LOOK_MS"], IN_A_SMALL_BUCKET["REMOVED_AFTER_MS"]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_seed_breaks_a_law(seed: int) -> None:
    outcome = run(seed, is_on_log=True)

    assert outcome.failure is None, outcome.story()


class Counter(Client):
    """A client that counts, and holds a snapshot open meanwhile."""

    def live(self, process: Process) -> None:
        opened = process.store()
        for _ in range(COUNTS):
            persevere(process, lambda: self._count(opened))
            if self.world.nature.is_in_bucket:
                process.wait(self.world.chance.choice((0, 0, LOOK_MS, REMOVED_AFTER_MS)))
        self.is_done = True

    def _count(self, opened: ZnodeStore) -> None:
        with opened.snapshot():
            opened.transact(increment)


def play(seed: int, *, is_in_bucket: bool = False) -> World:
    """A few processes that count, with any faults; they are killed, stopped and started again."""
    chance = Random(seed)
    nature = Nature(
        is_on_log=True,
        is_in_bucket=is_in_bucket,
        latency_max_ms=3,
        slow=chance.choice((0.0, 0.1)),
        pause_max_ms=20_000 if is_in_bucket else 2_000,
    )
    world = World(chance, nature, steps_kept=STORY_STEPS)
    share = chance.choice((0.2, 0.8))
    rates = {fault: chance.choice(some) for fault, some in RATES.items() if chance.random() < share}
    small = {"SAVED_EVERY": chance.choice((1, 3, 9)), "PART_BYTES": chance.choice((60, 900_000)), "STARTS": 1}
    if is_in_bucket:
        small |= {**IN_A_SMALL_BUCKET, "STARTS": 5}
        rates[Fault.PAUSE] = OFTEN
    with world.entered(), limits_replaced(small):
        world.process("first").store().multi([Create("/counter", b"0")])
        for number in range(chance.randint(2, 4)):
            Counter(world, f"counter-{number}", lives=chance.randint(1, 2)).start()
        world.faults = RandomFaults(chance, rates)
        try:
            world.scheduler.run()
        except LawBrokenError as broken:
            pytest.fail("\n".join([f"seed {seed}: {broken}", *map(str, world.trace)]))
        world.end()
    return world


MANY = [pytest.param(range(first, first + 400), marks=pytest.mark.walk("many seeds")) for first in range(0, 2_000, 400)]


@pytest.mark.parametrize("seeds", [range(100), *MANY])
def test_no_process_reads_or_is_told_what_is_not_so(seeds: range) -> None:
    assert sum(play(seed).counts["trims"] for seed in seeds) > len(seeds)


@pytest.mark.parametrize("seeds", [range(60), *MANY])
def test_no_process_reads_or_is_told_what_is_not_so_in_a_bucket(seeds: range) -> None:
    """Some stand still while what they are about to put becomes a zombie."""
    worlds = [play(seed, is_in_bucket=True) for seed in seeds]

    assert sum(world.counts["trims"] for world in worlds) > len(seeds)
    assert sum(world.counts["zombies' entries"] for world in worlds) > len(seeds) // 20


def _without_one(entries: list[Entry], chance: Random) -> list[Entry]:
    lost = chance.randrange(len(entries))
    return entries[:lost] + entries[lost + 1 :]


def _without_the_last(entries: list[Entry], chance: Random) -> list[Entry]:
    return entries[: -chance.randint(1, 3)]


def _with_one_changed(entries: list[Entry], chance: Random) -> list[Entry]:
    changed, other = chance.sample(range(len(entries)), 2)
    return [*entries[:changed], entries[changed]._replace(body=entries[other].body), *entries[changed + 1 :]]


def _with_those_of_another_log(entries: list[Entry], chance: Random) -> list[Entry]:
    world = World(Random(chance.random()), Nature(is_on_log=True))
    assert isinstance(world.znodes, SharedLog)
    with world.entered():
        for number in range(chance.randint(1, 20)):
            Appender(world, f"stranger-{number}").add()
        return list(world.znodes.read(world.znodes.start))


IN_A_BUCKET = [_without_one, _without_the_last, _with_one_changed]
"""What a lifecycle rule does, a bucket that is restored, and a store that lets two writers win."""

DAMAGES = [*IN_A_BUCKET, _with_those_of_another_log]


class Appender:
    """A process that adds znodes, until it is told that the log is damaged."""

    def __init__(self, world: World, name: str) -> None:
        self.shown: object = None
        self._process = world.process(name)
        self._goes_on = True
        self._count = 0

    def add(self) -> None:
        self._count += 1

        def step(view: ZnodeView) -> None:
            view.create(f"/{self._process.name}-{self._count}", b"")

        self._try(lambda: self._process.store().transact(step))

    def look(self) -> None:
        """Read all znodes, if it was not told yet."""

        def read() -> None:
            self.shown = self._process.store().children_data("/")

        self.shown = None
        self._try(read)

    def _try(self, call: Callable[[], None]) -> None:
        try:
            if self._goes_on:
                call()
        except CorruptDataError:
            self._goes_on = False


@pytest.mark.parametrize("change", DAMAGES, ids=lambda change: change.__name__.strip("_"))
def test_who_goes_on_upon_a_damaged_log_sees_what_all_others_see_who_go_on(
    change: Callable[[list[Entry], Random], list[Entry]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some have read what was lost, some have not, and somebody comes new."""
    damaged(change, Nature(is_on_log=True), DAMAGED_SEEDS, monkeypatch)


@pytest.mark.parametrize("change", IN_A_BUCKET, ids=lambda change: change.__name__.strip("_"))
def test_who_goes_on_upon_a_damaged_bucket_sees_what_all_others_see_who_go_on(
    change: Callable[[list[Entry], Random], list[Entry]], monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged(change, Nature(is_on_log=True, is_in_bucket=True), DAMAGED_SEEDS // 5, monkeypatch)


def damaged(
    change: Callable[[list[Entry], Random], list[Entry]],
    nature: Nature,
    seeds: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Let processes add znodes to a log, damage it, and let them and a newcomer go on."""
    told = 0
    for seed in range(seeds):
        chance = Random(seed)
        monkeypatch.setattr(store, "SAVED_EVERY", chance.choice((3, 5_000)))
        world = World(chance, nature)
        assert isinstance(world.znodes, SharedLog)
        with world.entered():
            appenders = [Appender(world, "appender") for _ in range(3)]
            for _ in range(10):
                chance.choice(appenders).add()
            world.znodes.damage(lambda entries, chance=chance: change(entries, chance))  # type: ignore[misc]
            appenders.append(Appender(world, "newcomer"))
            for _ in range(2):
                for appender in chance.sample(appenders, len(appenders)):
                    appender.add()
            for appender in appenders:
                appender.look()
        found = [appender.shown for appender in appenders if appender.shown is not None]
        told += len(found) < len(appenders)
        assert all(shown == found[0] for shown in found), f"seed {seed}: they go on, and see different znodes"
    assert told > seeds // 2
