"""The znodes that all processes share, and each process's access to them.

The store underneath is the real in-memory store. Two kinds of store are simulated on it: one whose snapshots show one
moment, like SQLite's, and one whose reads come from servers that lag, like ZooKeeper's. With the second, a process
never sees an older state than before, sees its own answered writes, and after a `sync` sees everything acknowledged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from oncelog.errors import IllegalStateTransitionError, OutcomeUnknownError, StoreUnavailableError
from oncelog.ports import ANY_VERSION, Check, Delete, Op, Set, Timing, Znode, ZnodeReader
from oncelog.znodes.errors import MultiFailedError, StaleStepError
from oncelog.znodes.memory import MemoryZnodeStore
from oncelog.znodes.rules import ROOT
from oncelog.znodes.transact import IsFresh, Transacting, always_fresh
from simulation.faults import Fault, Operation

if TYPE_CHECKING:
    from simulation.processes import Process
    from simulation.world import World

LAG_MAX = 6
"""How many writes a server may lag behind."""

APART = 0.15
"""The probability that another client's write comes between two reads that were sent together."""


class SharedZnodes:
    """The current znodes, and the older states that lagging servers still show.

    Attributes:
        store: the current znodes.
        writes: how many multis were applied.
        reads_are_atomic: see `Nature`.
    """

    def __init__(self, world: World) -> None:
        self.store = MemoryZnodeStore(now_ms=world.wall_ms)
        self.writes = 0
        self.reads_are_atomic = world.nature.reads_are_atomic
        self._world = world
        self._past: deque[tuple[AbstractContextManager[ZnodeReader], ZnodeReader]] = deque()

    def opened_by(self, process: Process) -> ProcessStore:
        """A process's access."""
        return ProcessStore(process, self)

    def apply(self, ops: Sequence[Op], is_fresh: IsFresh = always_fresh) -> None:
        """Apply a multi."""
        if self.reads_are_atomic:
            self.store.multi(ops, is_fresh=is_fresh)
        else:
            self._apply_and_remember(ops, is_fresh)
        self.writes += 1

    def apply_later(self, ops: Sequence[Op]) -> None:
        """Let a multi arrive some time later."""

        def arrive() -> None:
            try:
                self.apply(ops)
            except MultiFailedError:
                self._world.counts["late requests refused"] += 1
            else:
                self._world.on_write(ops)

        self._world.deliver_later(ops[0].path, arrive)

    def past(self, writes: int) -> ZnodeReader:
        """What a server shows that has only the first `writes` writes."""
        back = self.writes - writes
        return self._past[-back][1] if back else self.store

    def _apply_and_remember(self, ops: Sequence[Op], is_fresh: IsFresh) -> None:
        before = self.store.snapshot()
        reader = before.__enter__()
        try:
            self.store.multi(ops, is_fresh=is_fresh)
        except MultiFailedError:
            before.__exit__(None, None, None)
            raise
        self._past.append((before, reader))
        if len(self._past) > LAG_MAX:
            oldest, _ = self._past.popleft()
            oldest.__exit__(None, None, None)

    def oldest(self) -> int:
        """The lowest number of writes that a server may have."""
        return self.writes - len(self._past)


class ProcessStore(Transacting):
    """`ports.ZnodeStore` of one process."""

    def __init__(self, process: Process, shared: SharedZnodes) -> None:
        self._process = process
        self._shared = shared
        self._seen = shared.writes
        self._is_closed = False
        self.reads_are_atomic = shared.reads_are_atomic
        self.timing = Timing(process.world.wall_ms, process, process.world.chance.random)

    # Reads

    def get(self, path: str) -> Znode | None:
        return self._reader(path).get(path)

    def get_many(self, paths: Iterable[str]) -> list[Znode | None]:
        wanted = list(paths)
        if not wanted:
            return []
        if self.reads_are_atomic:
            return self._reader(wanted[0]).get_many(wanted)
        chance, reader = self._process.world.chance, self._reader(wanted[0])
        found: list[Znode | None] = []
        for path in wanted:
            if found and chance.random() < APART:
                reader = self._reader(path)
            found.append(reader.get(path))
        return found

    def children(self, path: str) -> list[str]:
        return self._reader(path).children(path)

    def children_data(self, path: str) -> list[tuple[str, Znode]]:
        if self.reads_are_atomic:
            return self._reader(path).children_data(path)
        names = self.children(path)
        znodes = self.get_many(f"{path.rstrip(ROOT)}/{name}" for name in names)
        return [(name, znode) for name, znode in zip(names, znodes, strict=True) if znode is not None]

    def snapshot(self) -> AbstractContextManager[ZnodeReader]:
        if not self.reads_are_atomic:
            return nullcontext(self)
        self._ask(Operation.ZNODE_READ, "snapshot")
        return self._shared.store.snapshot()

    def sync(self) -> None:
        self._ask(Operation.ZNODE_READ, "sync")
        self._seen = self._shared.writes

    def _reader(self, path: str) -> ZnodeReader:
        """A server that this process may read from now."""
        fault = self._ask(Operation.ZNODE_READ, path)
        shared = self._shared
        if fault is Fault.STALE_READ and not self.reads_are_atomic:
            oldest = max(self._seen, shared.oldest())
            self._seen = self._process.world.chance.randint(oldest, shared.writes)
        else:
            self._seen = shared.writes
        return shared.past(self._seen)

    def _ask(self, operation: Operation, what: str | Sequence[Op]) -> Fault | None:
        if self._is_closed:
            raise IllegalStateTransitionError("the znode store is closed")
        fault = self._process.ask(operation, what)
        if fault is Fault.UNAVAILABLE:
            raise StoreUnavailableError("the store is away")
        return fault

    # Writes

    def multi(self, ops: Sequence[Op], *, is_fresh: IsFresh = always_fresh) -> None:
        fault = self._ask(Operation.ZNODE_WRITE, ops)
        if fault is Fault.CONFLICT:
            _refuse(ops)
        if fault in (Fault.LOST_REQUEST, Fault.DELAYED_REQUEST):
            if fault is Fault.DELAYED_REQUEST:
                self._shared.apply_later(ops)
            raise self._unknown()
        self._shared.apply(ops, is_fresh)
        self._process.world.on_write(ops)
        if fault is Fault.CRASH_AFTER:
            self._process.die_after()
        if fault is Fault.REPEATED_REQUEST:
            self._shared.apply_later(ops)
        if fault is Fault.LOST_REPLY:
            raise self._unknown()
        self._seen = self._shared.writes

    def close(self) -> None:
        self._is_closed = True  # the znodes belong to the world

    def _unknown(self) -> OutcomeUnknownError:
        """The error for a lost connection; the next connection sees everything that was acknowledged."""
        self._process.unknown_outcomes += 1
        self._seen = self._shared.writes
        return OutcomeUnknownError("the answer was lost")


def _refuse(ops: Sequence[Op]) -> None:
    """Refuse a multi whose step has to read again; a multi that is based on no reads cannot conflict."""
    if any(isinstance(op, (Check, Set, Delete)) and op.version != ANY_VERSION for op in ops):
        raise StaleStepError("the step read its znodes too long ago to write by them")
