"""Random histories: every store must answer them like the in-memory store, which is the reference.

They include random programs of steps, in which everything that a step does depends on what it saw before.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from oncelog.errors import InvariantViolation
from oncelog.ports import Check, Create, Delete, Op, Set, Znode, ZnodeStore, ZnodeView
from oncelog.testing.znode_store_contract.worlds import FakeTime, StoreFixtures, StoreWorld, dump
from oncelog.znodes.errors import MultiFailedError, NodeExistsError, NoNodeError, Refusal
from oncelog.znodes.memory import MemoryZnodeStore
from oncelog.znodes.rules import join_path

PATHS = ["/", "/a", "/b", "/a/a", "/a/b", "/b/a", "/a/a/a"]
paths = st.sampled_from(PATHS)
versions = st.sampled_from([-1, -1, 0, 1, 2])
data = st.binary(max_size=3)


@dataclass(frozen=True)
class Action:
    """One call on a view. It writes a digest of everything that the step has seen so far."""

    name: str
    path: str


ACTIONS = ["get", "get", "get_many", "children", "children_data", "create", "create", "set", "delete", "set_blind"]
programs = st.lists(st.builds(Action, st.sampled_from(ACTIONS), paths), max_size=6)


def read(view: ZnodeView, action: Action) -> object:
    path = action.path
    match action.name:
        case "children":
            return view.children(path)
        case "children_data":
            return [(name, znode.data, znode.stat.version) for name, znode in view.children_data(path)]
        case _:
            wanted = [join_path(path, "a"), path] if action.name == "get_many" else [path]
            return [znode and (znode.data, znode.stat.version) for znode in view.get_many(wanted)]


def write(view: ZnodeView, action: Action, data: bytes) -> None:
    match action.name:
        case "create":
            view.create(action.path, data)
        case "set":
            view.set(action.path, data)
        case "set_blind":
            view.set_blind("/", data)  # on any other path it would be a bug if the path were missing
        case "delete" if action.path != "/" and not view.children(action.path):
            view.delete(action.path)


def run(view: ZnodeView, program: list[Action]) -> bytes:
    """Run the program, and return a digest of everything that it saw."""
    seen = b""
    for action in program:
        answered: object = None
        try:
            if action.name in {"create", "set", "set_blind", "delete"}:
                write(view, action, seen)
            else:
                answered = read(view, action)
        except (NodeExistsError, NoNodeError) as error:
            answered = type(error).__name__
        seen = b"%08x" % zlib.crc32(seen + repr(answered).encode())
    return seen


def outcome(store: ZnodeStore, program: list[Action]) -> object:
    try:
        return store.transact(lambda view: run(view, program))
    except InvariantViolation as error:  # such as recreating what it deleted: nothing is written
        return str(error)


ops = st.one_of(
    st.builds(Check, paths, versions),
    st.builds(Create, paths, data),
    st.builds(Create, paths, data),
    st.builds(Set, paths, data, versions),
    st.builds(Delete, paths.filter(lambda path: path != "/"), versions),
)


def answer(store: ZnodeStore, multi: list[Op]) -> tuple[int, Refusal] | None:
    try:
        store.multi(multi)
    except MultiFailedError as error:
        return error.index, error.refusal
    return None


class HistoryContract(StoreFixtures):
    """The same histories on the store and on the reference.

    Attributes:
        histories: how many.
        is_of_the_clients_time: whether every number in a Stat must equal the reference's. Otherwise a server assigns
            zxids and times, and only the order of zxids is compared.
    """

    histories = 25
    is_of_the_clients_time = False

    def test_a_random_history_is_answered_as_by_the_store_in_memory(self, new_world: Callable[[], StoreWorld]) -> None:
        is_exact = self.is_of_the_clients_time

        class Histories(_Histories):
            def __init__(self) -> None:
                super().__init__(new_world(), is_exact=is_exact)

        run_state_machine_as_test(
            Histories, settings=settings(max_examples=self.histories, stateful_step_count=25, deadline=None)
        )


class _Histories(RuleBasedStateMachine):
    def __init__(self, world: StoreWorld, *, is_exact: bool) -> None:
        super().__init__()
        self.time = FakeTime()
        self.world = world
        self.seen = _exactly if is_exact else _in_order
        self.store = world.client(self.time)
        self.reference: ZnodeStore = MemoryZnodeStore(now_ms=self.time.now_ms, clock=self.time)

    @rule(multi=st.lists(ops, max_size=5), later_ms=st.integers(-2, 5))
    def apply(self, multi: list[Op], later_ms: int) -> None:
        self.time.wall_ms += later_ms
        assert answer(self.store, multi) == answer(self.reference, multi)

    @rule(program=programs)
    def step(self, program: list[Action]) -> None:
        assert outcome(self.store, program) == outcome(self.reference, program)

    @rule(path=paths)
    def look(self, path: str) -> None:
        for store in (self.store, self.reference):
            with store.snapshot() as reader:
                assert reader.get(path) == store.get(path) == store.get_many([path])[0]
                assert reader.children(path) == store.children(path)
                assert reader.children_data(path) == store.children_data(path)
        assert _contents(self.store.children_data(path)) == _contents(self.reference.children_data(path))

    @invariant()
    def agree(self) -> None:
        assert self.seen(dump(self.store)) == self.seen(dump(self.reference))

    def teardown(self) -> None:
        self.world.close()


def _exactly(znodes: dict[str, Znode]) -> object:
    return znodes


def _in_order(znodes: dict[str, Znode]) -> object:
    """Data and versions, and the order of the zxids."""
    zxids = sorted({zxid for znode in znodes.values() for zxid in (znode.stat.czxid, znode.stat.mzxid)})
    return {
        path: (znode.data, znode.stat.version, zxids.index(znode.stat.czxid), zxids.index(znode.stat.mzxid))
        for path, znode in znodes.items()
    }


def _contents(rows: list[tuple[str, Znode]]) -> object:
    return [(name, znode.data, znode.stat.version) for name, znode in rows]
