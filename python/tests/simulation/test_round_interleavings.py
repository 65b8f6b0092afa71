"""Every interleaving of three runs of one streaming query that write the same two micro-batches, step by step.

A run is a driver. It begins where the checkpoint stands, plans, writes, stages its source offsets, decides, and tells
the checkpoint; it may be left behind at any of these steps and wake up at any later one, as a zombie. Beside them a
sweeper aborts what seems overdue, a settler settles, and a stranger commits to the group of the sink.

Where steps are dear, the step that decides does all of it, from a run's second batch on. Then a batch may open its
round at any time before that, because it lasts, and may not hear that it did.

The product's own code takes every step, over a znode store that branches where two things may happen. What a step
reads and writes is one multi, so a step is the smallest thing that can come between two others. The search visits every
state once, breadth first: a broken law comes with one of the shortest histories that break it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from oncelog import limits
from oncelog.batches import rules
from oncelog.batches.ledger import EMBEDDED, LedgerKind
from oncelog.batches.offsets import GroupProgress
from oncelog.batches.rules import AlreadyDecided, BatchRequest, NewRound, QueryLedger
from oncelog.batches.steps import BatchSteps, OpenRound
from oncelog.coordinator import groups
from oncelog.coordinator.producer_ids import ProducerIds
from oncelog.coordinator.rounds import RoundServices
from oncelog.coordinator.settler import Settler, Settling
from oncelog.errors import OncelogError, RoundAbortedError
from oncelog.log import generations, snapshot
from oncelog.log.index_files import IndexFiles
from oncelog.ports import ZnodeView
from oncelog.randomness import drawn_from
from oncelog.runtime import open_with
from oncelog.types import Block, IsolationLevel, OffsetAndMetadata, Outcome, TopicIdPartition
from oncelog.znodes import paths, payloads
from oncelog.znodes.memory import MemoryZnodeStore
from oncelog.znodes.payloads import OwnerRecord
from tests.support.harness.parts import is_deep
from tests.support.log.logs import TOPIC, DrivenTime, MemoryFiles, partitions
from tests.support.log.rounds import GROUP, PREFIX, SOURCE, Round, plan_round, request

pytestmark = pytest.mark.sampled

TWICE = "a batch is in the log twice, or behind a later one"
HALF = "a batch is half visible"
LOST = "the checkpoint knows a batch as done that the log does not hold"
OFFSETS = "the group's offsets did not move with a batch, or not only with it"
ZOMBIE = "a run took a step although another one has planned since"
LEFT_OPEN = "a round is open that nobody will decide"
STUCK = "a run that is alone cannot finish"


class Size(NamedTuple):
    """How much may happen."""

    batches: int = 2
    runs: int = 3
    time_outs: int = 1
    settlings: int = 1
    strangers: int = 0
    is_dear: bool = False
    """Whether steps are dear; then every step that decides settles, too."""


PLANS, WRITES, STAGES, DECIDES = "plans", "writes", "stages the offsets of", "decides"
DONE, FAILED = "notes in the checkpoint", "has failed at"


class Driver(NamedTuple):
    """A run of the query: which batch it writes, and how far it is with that."""

    run: int
    batch: int
    step: str = PLANS
    round: Round | None = None
    has_planned: bool = False

    def identity(self) -> Hashable:
        held = vars(self.round) if self.round else {}
        is_foreseen = self.round and held["_opened"].is_foreseen
        return *self[:3], self.has_planned, self.round and self.round.number, is_foreseen, held.get("_has_staged")


class State(NamedTuple):
    """The znodes, the drivers, how much of everything is left, what the checkpoint knows as done, the run that planned
    last, and whether a stranger has committed to the group."""

    store: MemoryZnodeStore
    drivers: tuple[Driver, ...]
    size: Size
    finished: int = 0
    leading: int = 0
    has_stranger_committed: bool = False

    def identity(self) -> Hashable:
        znodes = tuple(_znodes(self.store, "/"))
        return znodes, tuple(driver.identity() for driver in self.drivers), *self[2:]


def _znodes(store: MemoryZnodeStore, path: str) -> Iterator[Hashable]:
    znode = store.get(path)
    assert znode is not None
    yield path, znode.data, znode.stat.version
    for name, _ in store.children_data(path):
        yield from _znodes(store, f"{path.rstrip('/')}/{name}")


def nonces(number: int) -> AbstractContextManager[None]:
    """Within the block a step draws this nonce: the same one in every state in which it is taken."""
    return drawn_from(lambda count: number.to_bytes(count, "big"))


class Present:
    """`ports.ZnodeStore` of the state in which the next step is taken."""

    def __init__(self, store: MemoryZnodeStore) -> None:
        self.of = store
        self.joins_steps = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.of, name)


class World:
    """What may happen, and what it leads to."""

    def __init__(self, size: Size) -> None:
        time, files = DrivenTime(), MemoryFiles()
        store = MemoryZnodeStore(now_ms=lambda: 0, clock=time, jitter=lambda: 0.0)
        log = open_with("", "memory", store, files, time)
        log.create_topic(TOPIC, partitions=2)
        log.create_topic(SOURCE)
        self.partitions = partitions(log, TOPIC)
        (self.source,) = partitions(log, SOURCE)
        self.start = State(store, (), size)
        self.present: Any = Present(store)
        self.present.joins_steps = size.is_dear
        self._time = time
        self._files = IndexFiles(files)
        self._alone: dict[Hashable, bool] = {}

    # Moves

    def moves(self, state: State) -> Iterator[tuple[str, State, list[str]]]:
        """What may happen next: its name, where it leads, and the laws that it breaks."""
        for name, take in self._moves(state):
            self.present.of = store = state.store.fork()
            after = take(state._replace(store=store))
            if after is not None:
                yield name, after, list(self._broken(state, after))

    def _moves(self, state: State) -> Iterator[tuple[str, Callable[[State], State | None]]]:
        size = state.size
        for at, driver in enumerate(state.drivers):
            yield f"run {driver.run} {driver.step} batch {driver.batch}", lambda s, at=at: self._drive(s, at)  # type: ignore[misc]
            if driver.round and vars(driver.round)["_opened"].is_foreseen:
                for hears in (True, False):
                    name = f"run {driver.run} opens its round" + ("" if hears else ", and does not hear of it")
                    yield name, lambda s, at=at, hears=hears: self._open(s, at, hears=hears)  # type: ignore[misc]
        if len(state.drivers) < size.runs:
            yield f"run {len(state.drivers) + 1} starts", self._start_run
        if size.time_outs:
            yield "the sweeper aborts the open round", self._time_out
        if size.settlings:
            yield "the settler settles", self._settle
        if size.strangers:
            yield "a stranger commits to the group", self._commit_as_stranger

    def _start_run(self, state: State) -> State:
        driver = Driver(len(state.drivers) + 1, state.finished)
        return state._replace(drivers=(*state.drivers, driver))

    def _drive(self, state: State, at: int) -> State | None:
        driver = state.drivers[at]
        if driver.batch == state.size.batches or driver.step == FAILED:
            return None
        if driver.step == DONE:
            following = driver._replace(batch=driver.batch + 1, step=PLANS)
            state = state._replace(finished=max(state.finished, driver.batch + 1))
        else:
            following = self.step(driver)
            if driver.step == PLANS and following.step != FAILED:
                state = state._replace(leading=driver.run)
        return state._replace(drivers=(*state.drivers[:at], following, *state.drivers[at + 1 :]))

    def _open(self, state: State, at: int, *, hears: bool) -> State | None:
        driver = state.drivers[at]
        round_ = copy(driver.round)
        assert round_ is not None
        try:
            round_.renew()
        except OncelogError:
            return None
        following = driver._replace(round=round_) if hears else driver
        return state._replace(drivers=(*state.drivers[:at], following, *state.drivers[at + 1 :]))

    def step(self, driver: Driver) -> Driver:
        """The driver after its next step."""
        round_ = copy(driver.round)
        try:
            if driver.step == PLANS:
                round_ = self._begin(driver)
                return driver._replace(step=WRITES if round_ else DONE, round=round_, has_planned=True)
            assert round_ is not None
            if driver.step == WRITES:
                round_.write({p: [self._block(driver, p)] for p in self.partitions})
                return driver._replace(step=STAGES, round=round_)
            if driver.step == STAGES:
                round_.stage_offsets(self.offsets(driver.batch))
                return driver._replace(step=DECIDES, round=round_)
            return self.decide(driver, round_)
        except OncelogError:
            return driver._replace(step=FAILED, round=None)

    def decide(self, driver: Driver, round_: Round) -> Driver:
        """The last step of a batch."""
        also = self._settling() if round_.is_one_step else None
        round_.decide(also.run if also else None)
        return driver._replace(step=DONE, round=None)

    def _settling(self) -> Settling | None:
        settler = Settler(self.present, self._time)
        settler.step_if_due(self.partitions)
        self._time.sleep_ms(limits.SETTLE_LAG_MS)
        return settler.step_if_due(self.partitions)

    def _begin(self, driver: Driver) -> Round | None:
        services = RoundServices(self.present, self._files, ProducerIds(self.present))
        with nonces(100 * driver.run + driver.batch):
            return plan_round(services, request(driver.batch, f"run-{driver.run}", group_id=GROUP))

    def _block(self, driver: Driver, partition: TopicIdPartition) -> Block:
        """One record whose time is the number of its batch."""
        name = f"{generations.prefix(generations.DATA, 0)}{driver.run}-{partition.partition}"
        return Block(name, 0, 1, 0, 1, driver.batch, driver.batch)

    def offsets(self, batch: int) -> GroupProgress[TopicIdPartition]:
        """Ten rows for each batch."""
        return GroupProgress(GROUP, {self.source: 10 * batch}, {self.source: 10 * batch + 10})

    def _time_out(self, state: State) -> State | None:
        ledger = EMBEDDED.read(state.store, PREFIX)
        if ledger is None or not EMBEDDED.abort(self.present, PREFIX, ledger.current_round):
            return None
        return state._replace(size=state.size._replace(time_outs=state.size.time_outs - 1))

    def _settle(self, state: State) -> State:
        Settler(self.present, self._time).settle_now(self.partitions)
        return state._replace(size=state.size._replace(settlings=state.size.settlings - 1))

    def _commit_as_stranger(self, state: State) -> State | None:
        try:
            with nonces(0):
                groups.commit(self.present, GROUP, {self.source: OffsetAndMetadata(7)})
        except OncelogError:
            return None
        size = state.size._replace(strangers=state.size.strangers - 1)
        return state._replace(size=size, has_stranger_committed=True)

    # Laws

    def _broken(self, before: State, after: State) -> Iterator[str]:
        shown = [self._shown(after.store, partition) for partition in self.partitions]
        if any(batches != list(range(len(batches))) for batches in shown):
            yield TWICE
        if shown[0] != shown[1]:
            yield HALF
        if len(shown[0]) < after.finished:
            yield LOST
        if not self._have_offsets_moved_well(before, after):
            yield OFFSETS
        if _zombies(before, after):
            yield ZOMBIE
        if self._has_lost_round(after.store):
            yield LEFT_OPEN
        if not after.has_stranger_committed and not self._can_finish(after):
            yield STUCK

    def _have_offsets_moved_well(self, before: State, after: State) -> bool:
        """With a batch, from its start to its end; with a stranger's commit, anywhere; and else not at all."""
        was, now = self._group(before.store), self._group(after.store)
        batches = len(self._shown(after.store, self.partitions[0]))
        if batches > len(self._shown(before.store, self.partitions[0])):
            return (was or 0) == 10 * (batches - 1) and now == 10 * batches
        return was == now or after.size.strangers < before.size.strangers

    def _shown(self, store: MemoryZnodeStore, partition: TopicIdPartition) -> list[int]:
        """The batches that a reader of both partitions sees in this one."""
        end = snapshot.take(store, self.partitions).plan.ends[partition]
        seen = snapshot.visible_range(store, self._files, partition, 0, end, IsolationLevel.READ_COMMITTED)
        return [piece.block.min_timestamp_ms for piece in seen.slices]

    def _group(self, store: MemoryZnodeStore) -> int | None:
        found = groups.fetch(store, GROUP, [self.source], require_stable=False)
        return found[self.source].offset if found else None

    def _has_lost_round(self, store: MemoryZnodeStore) -> bool:
        ledger = EMBEDDED.read(store, PREFIX)
        numbers = [] if ledger is None else [int(name) for name in store.children(EMBEDDED.rounds_path(PREFIX))]
        stored = {number: EMBEDDED.read_round(store, PREFIX, number) for number in numbers}
        opened = [number for number, record in stored.items() if record and record.outcome is Outcome.OPEN]
        return ledger is not None and any(number != ledger.current_round for number in opened)

    def _can_finish(self, state: State) -> bool:
        """Whether a new run that nobody disturbs brings every batch into the log."""
        key = (tuple(_znodes(state.store, "/")), state.finished)
        if key not in self._alone:
            self.present.of = store = state.store.fork()
            driver = Driver(99, state.finished)
            while driver.batch < state.size.batches and driver.step != FAILED:
                driver = Driver(99, driver.batch + 1) if driver.step == DONE else self.step(driver)
            shown = self._shown(store, self.partitions[0])
            self._alone[key] = shown == list(range(state.size.batches)) or self._knows_more(state)
        return self._alone[key]

    def _knows_more(self, state: State) -> bool:
        """Whether the log is ahead of the checkpoint by more than one batch: the run is told so, and starts again."""
        ledger = EMBEDDED.read(state.store, PREFIX)
        return ledger is not None and ledger.last is not None and ledger.last.batch_id > state.finished


def _zombies(before: State, after: State) -> list[Driver]:
    """The drivers that took a step which another run should have kept them from."""
    moved = [(was, now) for was, now in zip(before.drivers, after.drivers, strict=False) if was != now]
    if before.size.is_dear:  # what is written or staged is kept for the decision
        moved = [(was, now) for was, now in moved if was.step in (PLANS, DECIDES)]
    superseded = [(was, now) for was, now in moved if was.has_planned and was.run != before.leading]
    return [now for was, now in superseded if was.step != DONE and now.step != FAILED]


class Result(NamedTuple):
    """How many states were visited, and a shortest history for each law that was broken."""

    states: int
    broken: dict[str, list[str]]


def search(world: World, *, until: str | None = None) -> Result:
    """Visit every state that can be reached, or as many as it takes to break the law `until`."""
    seen = {world.start.identity()}
    broken: dict[str, list[str]] = {}
    frontier: list[tuple[State, tuple[str, ...]]] = [(world.start, ())]
    while frontier and until not in broken:
        following = []
        for state, history in frontier:
            for name, after, laws in world.moves(state):
                for law in laws:
                    broken.setdefault(law, [*history, name])
                identity = after.identity()
                if identity not in seen:
                    seen.add(identity)
                    following.append((after, (*history, name)))
        frontier = following
    return Result(len(seen), broken)


# The tests ------------------------------------------------------------------------------------------------------------


SMALL = Size(runs=2)
DEAR = SMALL._replace(settlings=0, is_dear=True)
SIZES = [SMALL, Size(batches=1, runs=2, strangers=1), Size(batches=1, settlings=0), DEAR]


@pytest.mark.walk
@pytest.mark.parametrize("size", SIZES, ids=["two runs", "two runs and a stranger", "three runs", "dear steps"])
def test_no_interleaving_of_runs_breaks_a_law(size: Size) -> None:
    """conformance: 52, 53, 57, 62."""
    result = search(World(Size() if is_deep() else size))

    assert result.broken == {}
    assert result.states > 1_000


class Fault(NamedTuple):
    """A broken rule of rounds, the law that the search must see broken, and how much must happen for that."""

    name: str
    plant: Callable[[pytest.MonkeyPatch], None]
    law: str
    size: Size = SMALL


def decides_unfenced(patch_: pytest.MonkeyPatch) -> None:
    def unchecked(_: BatchSteps[OwnerRecord], view: ZnodeView, number: int) -> tuple[QueryLedger, OwnerRecord]:
        ledger, record = EMBEDDED.read(view, PREFIX), EMBEDDED.read_round(view, PREFIX, number)
        if ledger is None or record is None:
            raise RoundAbortedError("the round is gone")
        return ledger, record

    patch_.setattr(BatchSteps, "check_open", unchecked)


def forgets_the_batch(patch_: pytest.MonkeyPatch) -> None:
    patch_.setattr(rules, "decided", lambda ledger, _request, _number: ledger)


def leaves_the_older_round(patch_: pytest.MonkeyPatch) -> None:
    plan = rules.plan_batch

    def planned(ledger: QueryLedger | None, wanted: BatchRequest) -> NewRound | AlreadyDecided:
        verdict = plan(ledger, wanted)
        return replace(verdict, previous=None) if isinstance(verdict, NewRound) else verdict

    patch_.setattr(rules, "plan_batch", planned)


def supersedes_nobody(patch_: pytest.MonkeyPatch) -> None:
    patch_.setattr(rules, "check_run", lambda _ledger, _run_id, _prefix: None)


def aborts_what_is_decided(patch_: pytest.MonkeyPatch) -> None:
    def abort_in(_: object, view: ZnodeView, prefix: str, number: int) -> bool:
        record = EMBEDDED.read_round(view, prefix, number)
        assert record is not None
        aborted = replace(record, outcome=Outcome.ABORT)
        view.set(EMBEDDED.round_path(prefix, number), payloads.encode_owner(aborted))
        view.set_blind(paths.COMMITS, b"")
        return True

    patch_.setattr(LedgerKind, "abort_in", abort_in)


def decides_in_two_steps(patch_: pytest.MonkeyPatch) -> None:
    """The ledger first, the round after it."""

    def decide(world: World, driver: Driver, round_: Round) -> Driver:
        store = world.present

        def ledger_first(view: ZnodeView) -> None:
            ledger = EMBEDDED.require(view, PREFIX)
            after = rules.decided(ledger, request(driver.batch, f"run-{driver.run}"), round_.number)
            EMBEDDED.put(view, PREFIX, after)

        ledger = EMBEDDED.read(store, PREFIX)
        if ledger is not None and ledger.last is not None and ledger.last.batch_id == driver.batch:
            round_.decide()
            return driver._replace(step=DONE, round=None)
        store.transact(ledger_first)
        return driver

    patch_.setattr(World, "decide", decide)


def takes_the_group_as_it_is(patch_: pytest.MonkeyPatch) -> None:
    offsets = World.offsets
    patch_.setattr(World, "offsets", lambda world, batch: replace(offsets(world, batch), start={}))


def lets_strangers_in(patch_: pytest.MonkeyPatch) -> None:
    order = groups.next_order

    def next_order(view: ZnodeView, group_id: str, *, nonce: str | None = None, **_owner: str | None) -> int:
        record = groups.read_group(view, group_id)
        return order(view, group_id, owning_prefix=record.owning_prefix if record else None, nonce=nonce)

    patch_.setattr(groups, "next_order", next_order)


def decides_without_the_group_check(patch_: pytest.MonkeyPatch) -> None:
    """The group's owner keeps strangers out, too; so that rule has to go with it."""
    lets_strangers_in(patch_)
    patch_.setattr(Round, "_check_group_unmoved", lambda _round, _view, _group_id: None)


def opens_whatever_happened(patch_: pytest.MonkeyPatch) -> None:
    def opened(steps: BatchSteps[OwnerRecord], view: ZnodeView, round_: OpenRound[OwnerRecord]) -> None:
        ledger = EMBEDDED.require(view, PREFIX)
        if ledger.current_round < round_.number:
            EMBEDDED.put(view, PREFIX, replace(ledger, current_round=round_.number))
            view.create(EMBEDDED.round_path(PREFIX, round_.number), EMBEDDED.encode(round_.record))

    patch_.setattr(BatchSteps, "_open", opened)
    patch_.setattr(rules, "check_run", lambda _ledger, _run_id, _prefix: None)


def foresees_the_first_batch_of_a_run(patch_: pytest.MonkeyPatch) -> None:
    goes_on = rules.goes_on
    patch_.setattr(rules, "goes_on", lambda ledger, wanted: goes_on(replace(ledger, run_id=wanted.run_id), wanted))


WITH_STRANGER = SMALL._replace(batches=1, strangers=1)

FAULTS = [
    Fault("a driver writes and decides whatever became of its round", decides_unfenced, TWICE),
    Fault("the ledger forgets the decided batch", forgets_the_batch, STUCK),
    Fault("a new round leaves the older one open", leaves_the_older_round, LEFT_OPEN),
    Fault("a new run supersedes nobody", supersedes_nobody, ZOMBIE),
    Fault("a sweeper aborts what is decided", aborts_what_is_decided, LOST),
    Fault("the decision takes two steps", decides_in_two_steps, LOST),
    Fault("a batch takes its group as it is", takes_the_group_as_it_is, OFFSETS, WITH_STRANGER),
    Fault("a round is opened whatever happened since it was foreseen", opens_whatever_happened, ZOMBIE, DEAR),
    Fault("a run plans not even its first batch", foresees_the_first_batch_of_a_run, ZOMBIE, DEAR),
    Fault("decide without the group check", decides_without_the_group_check, OFFSETS, WITH_STRANGER),
]


@pytest.mark.sampled("planted bugs")
@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_the_search_finds_a_planted_fault(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.plant(monkeypatch)

    assert fault.law in search(World(fault.size), until=fault.law).broken


@pytest.mark.sampled("planted bugs")
def test_the_check_at_the_decision_keeps_strangers_out_of_the_group_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    lets_strangers_in(monkeypatch)

    assert OFFSETS not in search(World(WITH_STRANGER)).broken
