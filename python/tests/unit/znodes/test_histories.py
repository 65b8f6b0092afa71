"""Random histories: SQLite against the reference operation by operation, and interleaved steps against serial ones."""

from __future__ import annotations

import itertools
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from oncelog.errors import InvariantViolation
from oncelog.ports import Check, Create, Delete, Op, Set, Znode, ZnodeReader, ZnodeStore, ZnodeView
from oncelog.znodes.errors import MultiFailedError, NodeExistsError, NoNodeError, Refusal
from oncelog.znodes.memory import MemoryZnodeStore
from oncelog.znodes.rules import join_path
from oncelog.znodes.sqlite import SqliteZnodeStore
from tests.unit.znodes.worlds import FakeTime, MultiStore, dump

PATHS = ["/", "/a", "/b", "/a/a", "/a/b", "/b/a", "/a/a/a"]
paths = st.sampled_from(PATHS)
versions = st.sampled_from([-1, -1, 0, 1, 2])
data = st.binary(max_size=3)


@dataclass(frozen=True)
class Action:
    """One call of a view. What it writes is a digest of all that the step saw before."""

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
            view.set_blind("/", data)  # of another path it would be a bug where the path is missing
        case "delete" if action.path != "/" and not view.children(action.path):
            view.delete(action.path)


def run(view: ZnodeView, program: list[Action]) -> bytes:
    """Run the program; returns a digest of everything that it saw."""
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
    except InvariantViolation as error:  # recreating what it deleted, and the like: nothing is written
        return str(error)


# Multis: SQLite and memory agree in every answer and every Stat.

ops = st.one_of(
    st.builds(Check, paths, versions),
    st.builds(Create, paths, data),
    st.builds(Create, paths, data),
    st.builds(Set, paths, data, versions),
    st.builds(Delete, paths.filter(lambda path: path != "/"), versions),
)


def answer(store: MultiStore, multi: list[Op]) -> tuple[int, Refusal] | None:
    try:
        store.multi(multi)
    except MultiFailedError as error:
        return error.index, error.refusal
    return None


class SqliteIsTheReference(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.time = FakeTime()
        self.folder = Path(tempfile.mkdtemp())
        self.sqlite: MultiStore = SqliteZnodeStore(self.folder / "store", now_ms=self.time.now_ms, clock=self.time)
        self.memory: MultiStore = MemoryZnodeStore(now_ms=self.time.now_ms, clock=self.time)

    @rule(multi=st.lists(ops, max_size=5), later_ms=st.integers(-2, 5))
    def apply(self, multi: list[Op], later_ms: int) -> None:
        self.time.wall_ms += later_ms
        assert answer(self.sqlite, multi) == answer(self.memory, multi)

    @rule(program=programs)
    def step(self, program: list[Action]) -> None:
        assert outcome(self.sqlite, program) == outcome(self.memory, program)

    @rule(path=paths)
    def look(self, path: str) -> None:
        for store in (self.sqlite, self.memory):
            with store.snapshot() as reader:
                assert reader.get(path) == store.get(path) == store.get_many([path])[0]
                assert reader.children_data(path) == store.children_data(path)
        assert self.sqlite.children_data(path) == self.memory.children_data(path)

    @invariant()
    def agree(self) -> None:
        assert dump(self.sqlite) == dump(self.memory)

    def teardown(self) -> None:
        self.sqlite.close()
        shutil.rmtree(self.folder)


TestSqliteIsTheReference = SqliteIsTheReference.TestCase
TestSqliteIsTheReference.settings = settings(max_examples=25, stateful_step_count=25)


# Steps: whatever another step does in the middle of one, the result is that of one after the other.


class Interrupted(MemoryZnodeStore):
    """Runs `interruption` once, before the read of a step that has this number."""

    def __init__(self, start: list[str], *, is_atomic: bool = True) -> None:
        time = FakeTime()
        super().__init__(now_ms=time.now_ms, clock=time)
        self.multi([Create(path, path.encode()) for path in start])
        self.reads_are_atomic = is_atomic
        self.interruption: Callable[[], object] | None = None
        self.reads_left = 0

    def before_read(self) -> None:
        interruption = self.interruption
        if interruption and self.reads_left == 0:
            self.interruption = None
            interruption()
        self.reads_left -= 1

    @contextmanager
    def snapshot(self) -> Iterator[ZnodeReader]:
        with super().snapshot() as frozen:
            yield OneByOne(self, frozen if self.reads_are_atomic else self)


class OneByOne:
    """Splits every read into the single ones that others may come between."""

    def __init__(self, store: Interrupted, reader: ZnodeReader) -> None:
        self._store, self._reader = store, reader

    def get(self, path: str) -> Znode | None:
        self._store.before_read()
        return self._reader.get(path)

    def get_many(self, paths: Iterable[str]) -> list[Znode | None]:
        return [self.get(path) for path in paths]

    def children(self, path: str) -> list[str]:
        self._store.before_read()
        return self._reader.children(path)

    def children_data(self, path: str) -> list[tuple[str, Znode]]:
        found = [(name, self.get(join_path(path, name))) for name in self.children(path)]
        return [(name, znode) for name, znode in found if znode is not None]


Outcome = tuple[object, object, dict[str, Znode]]
"""Of the step, of the other step, and all znodes at the end."""


def serial(start: list[str], program: list[Action], other: list[Action], *, other_first: bool) -> Outcome:
    store = Interrupted(start)
    if other_first:
        others = outcome(store, other)
        return outcome(store, program), others, dump(store)
    own = outcome(store, program)
    return own, outcome(store, other), dump(store)


def interrupted(
    start: list[str], program: list[Action], other: list[Action], at: int, *, is_atomic: bool
) -> Outcome | None:
    """`other` runs before the read number `at` of `program`; None if there is no such read."""
    store = Interrupted(start, is_atomic=is_atomic)
    others: list[object] = []
    store.interruption, store.reads_left = lambda: others.append(outcome(store, other)), at
    own = outcome(store, program)
    return (own, others[0], dump(store)) if others else None


starts = st.sets(paths.filter(lambda path: path != "/")).map(
    lambda chosen: sorted(
        {"/".join(path.split("/")[: depth + 1]) for path in chosen for depth in range(1, path.count("/") + 1)}
    )
)
"""Some existing paths, with their parents."""


ABSENCE_READ, ABSENT_PATH_CREATED = [Action("get", "/a/a"), Action("set", "/a")], [Action("create", "/a/a")]
"""The creation may come between the reads of the absent path and of its parent."""


@settings(max_examples=300)
@example(start=["/a"], program=ABSENCE_READ, other=ABSENT_PATH_CREATED)
@given(start=starts, program=programs, other=programs)
def test_a_step_that_another_interrupts_at_any_read_ends_as_if_they_ran_one_after_the_other(
    start: list[str], program: list[Action], other: list[Action]
) -> None:
    one_after_the_other = [serial(start, program, other, other_first=first) for first in (True, False)]

    for is_atomic in (True, False):
        for at in itertools.count():
            ended = interrupted(start, program, other, at, is_atomic=is_atomic)
            if ended is None:
                break
            assert ended in one_after_the_other, (at, is_atomic)
