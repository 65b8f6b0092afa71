"""Interleaved steps against serial ones: whatever another step does in the middle of one, they are as if in turn."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from hypothesis import example, given, settings
from hypothesis import strategies as st

from oncelog.ports import Create, Znode, ZnodeReader
from oncelog.testing.znode_store_contract.histories import Action, outcome, paths, programs
from oncelog.testing.znode_store_contract.worlds import FakeTime, dump
from oncelog.znodes.memory import MemoryZnodeStore
from oncelog.znodes.rules import join_path


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
