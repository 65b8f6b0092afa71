"""A command log in the simulation: its home, which all processes share, and the product's store on it in each process.

The home does what a Kafka partition may do. It keeps copies of an append whose answer was lost, and appends that arrive
when their sender has long gone on. It is trimmed between any two reads. Its clock goes back.

The home knows what its entries mean, too: it applies each multi once, as it arrives, to a tree of its own. Whenever a
process takes a snapshot, that one must be this tree, and it must stay as it is. Whatever a process is told about a
multi must be what became of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from oncelog.errors import CorruptDataError, OutcomeUnknownError, StoreUnavailableError
from oncelog.limits import RECENT_MS
from oncelog.ports import Check, Op, Timing
from oncelog.znodes.errors import MultiFailedError
from oncelog.znodes.replicated.command import Part, decode, is_entry
from oncelog.znodes.replicated.port import BEGINNING, CommandLog, Entry, TrimmedError
from oncelog.znodes.replicated.store import ReplicatedZnodeStore
from oncelog.znodes.transact import IsFresh, always_fresh
from oncelog.znodes.tree import Tree
from simulation.errors import LawBrokenError
from simulation.faults import Fault, Operation

if TYPE_CHECKING:
    from simulation.processes import Process
    from simulation.world import World

GAPS, RESENT = 0.1, 0.5
"""The probabilities that a position is left out, and that a home sends an unanswered append again."""


class SharedLog:
    """The entries, and what they come to.

    Attributes:
        store: the current znodes.
        start: see `CommandLog`.
        multis: those that were carried out or refused, and why.
    """

    def __init__(self, world: World) -> None:
        self.store = Tree()
        self.start = BEGINNING
        self.multis: list[tuple[Sequence[Op], str | None]] = []
        self._world = world
        self._entries: list[Entry] = []
        self._numbers: dict[str, int] = {}
        self._missing: dict[tuple[int, str], set[int]] = {}
        self._time_ms = 0
        self._is_damaged = False

    def opened_by(self, process: Process) -> JudgedStore:
        """A process's store."""
        return JudgedStore(process, self, ProcessLog(process, self))

    def read(self, after: int) -> Sequence[Entry]:
        """See `CommandLog`."""
        if after < self.start:
            raise TrimmedError("the log was trimmed", after=after, start=self.start)
        if after > self._end():
            raise CorruptDataError("the log lost its newest entries", after=after)
        return self._entries[bisect_right(self._entries, after, key=lambda entry: entry.position) :]

    def append(self, body: bytes) -> None:
        """Append an entry, and do what it says.

        Raises:
            LawBrokenError: a reader of a topic would take it for a record of another program, and leave it out.
        """
        if not is_entry(body):
            raise LawBrokenError(f"an entry does not begin like one: {body[:40]!r}")
        entry = Entry(self._end() + 1 + (self._world.chance.random() < GAPS), self._world.wall_ms(), body)
        self._entries.append(entry)
        self._apply(entry)

    def _apply(self, entry: Entry) -> None:
        self._time_ms = max(self._time_ms, entry.time_ms)
        found = decode(entry)
        if isinstance(found, Part):
            self._missing.setdefault((found.position, found.writer), set(range(found.count))).discard(found.number)
        elif found.number > self._numbers.get(found.sender, 0):
            self._numbers[found.sender] = found.number
            for ops in found.multis:
                self._carry_out(ops)

    def append_later(self, body: bytes) -> None:
        """Let an append arrive some time later."""
        self._world.deliver_later("an entry", lambda: self.append(body))

    def trim(self, position: int) -> None:
        """See `CommandLog`.

        Raises:
            LawBrokenError: the snapshots that are left are not two whole ones.
        """
        left = [of for (of, _), missing in self._missing.items() if of >= position and not missing]
        if len(left) < 2 and not self._is_damaged:
            raise LawBrokenError(f"a trim up to {position} leaves no two whole snapshots, but those of {left}")
        self.start = max(self.start, position)
        self._world.counts["trims"] += 1

    def damage(self, change: Callable[[list[Entry]], list[Entry]]) -> None:
        """Lose or change entries. From now on nobody can say what a process must see."""
        self._entries = change(self._entries)
        self._is_damaged = True

    def compare(self, tree: Tree, since: int) -> None:
        """What a process has read is what the log says; `since` is the zxid when it began to read.

        Raises:
            LawBrokenError: it is not.
        """
        if self._is_damaged:
            return
        if tree.zxid != self.store.zxid or tree.znodes != self.store.znodes:
            wrong = {path for path, _ in dict(tree.znodes).items() ^ dict(self.store.znodes).items()}
            raise LawBrokenError(f"a process sees other znodes than the log has: {sorted(wrong)}")

    def ensure_told(self, ops: Sequence[Op], why: str | None, since: int) -> None:
        """What a process was told about a multi is what became of it.

        Args:
            ops: of the multi.
            why: it was refused, or None.
            since: how many multis there were when it was sent.

        Raises:
            LawBrokenError: it is not so.
        """
        if self._is_damaged or all(isinstance(op, Check) for op in ops):
            return  # checks alone are no entry: they were looked up in a snapshot
        if not any(list(some) == list(ops) and said == why for some, said in self.multis[since:]):
            raise LawBrokenError(f"a process was told of a multi what is not so: {why or 'carried out'}: {ops}")

    def _end(self) -> int:
        return self._entries[-1].position if self._entries else BEGINNING

    def _carry_out(self, ops: Sequence[Op]) -> None:
        try:
            self.store.apply(ops, self._time_ms)
        except MultiFailedError as refused:
            self.multis.append((ops, str(refused)))
        else:
            self.multis.append((ops, None))
            self._world.on_write(ops)


class ProcessLog:
    """`CommandLog` of one process."""

    foreign = 0

    def __init__(self, process: Process, shared: SharedLog) -> None:
        self._process = process
        self._shared = shared
        self._fault: Fault | None = None

    def is_still_fresh(self, ops: Sequence[Op], is_fresh: IsFresh) -> bool:
        """Wait for the turn of a multi, and ask whether it may still be written.

        As in the other stores of the simulation, nothing comes between this question and the write. A fault of the
        write is one of the append that follows.
        """
        self._fault = self._process.ask(Operation.ZNODE_WRITE, ops)
        return is_fresh()

    def start(self) -> int:
        self._ask(Operation.ZNODE_READ, "start")
        return self._shared.start

    def read(self, after: int) -> Sequence[Entry]:
        self._ask(Operation.ZNODE_READ, f"entries after {after}")
        return self._shared.read(after)

    def append(self, after: int, body: bytes) -> None:
        part = decode(Entry(0, 0, body))
        if isinstance(part, Part):
            self._fault = self._process.ask(Operation.ZNODE_WRITE, f"part {part.number} of {part.count} of a snapshot")
        fault, self._fault = self._fault, None
        if fault is Fault.UNAVAILABLE:
            raise StoreUnavailableError("the log is away")
        if fault in (Fault.DELAYED_REQUEST, Fault.REPEATED_REQUEST):
            self._shared.append_later(body)
        if fault not in (Fault.DELAYED_REQUEST, Fault.LOST_REQUEST):
            self._shared.append(body)
        if fault is Fault.CRASH_AFTER:
            self._process.die_after()
        if fault in (Fault.DELAYED_REQUEST, Fault.LOST_REQUEST, Fault.LOST_REPLY):
            if self._process.world.chance.random() < RESENT:
                self._shared.append(body)
                return
            raise OutcomeUnknownError("the answer was lost")

    def trim(self, position: int) -> None:
        fault = self._process.ask(Operation.ZNODE_WRITE, f"trim up to {position}")
        if fault not in (Fault.LOST_REQUEST, Fault.UNAVAILABLE):
            self._shared.trim(position)
        if fault is Fault.CRASH_AFTER:
            self._process.die_after()

    def close(self) -> None: ...

    def _ask(self, operation: Operation, what: str | Sequence[Op]) -> Fault | None:
        fault = self._process.ask(operation, what)
        if fault is Fault.UNAVAILABLE:
            raise StoreUnavailableError("the log is away")
        return fault


class JudgedLog(CommandLog, Protocol):
    """`CommandLog` of a simulated process."""

    def is_still_fresh(self, ops: Sequence[Op], is_fresh: IsFresh) -> bool:
        """Ask whether a multi may still be written."""


class JudgedStore(ReplicatedZnodeStore):
    """The product's store, compared with the log's own tree whenever it is read or written."""

    def __init__(self, process: Process, shared: SharedLog, log: JudgedLog, recent_ms: int = RECENT_MS) -> None:
        self._process = process
        self._shared = shared
        self._log = log
        timing = Timing(process.world.wall_ms, process, process.world.chance.random)
        super().__init__(lambda: self._log, timing, process.lock, recent_ms=recent_ms)

    @contextmanager
    def snapshot(self) -> Iterator[Tree]:
        since = self._shared.store.zxid
        with super().snapshot() as tree:
            self._shared.compare(tree, since)
            shown = dict(tree.znodes)
            yield tree
            if shown != dict(tree.znodes):
                raise LawBrokenError("an open snapshot has changed")

    def multi(self, ops: Sequence[Op], *, is_fresh: IsFresh = always_fresh) -> None:
        since = len(self._shared.multis)
        try:
            super().multi(ops, is_fresh=lambda: self._log.is_still_fresh(ops, is_fresh))
        except MultiFailedError as refused:
            self._shared.ensure_told(ops, str(refused), since)
            raise
        except OutcomeUnknownError:
            self._process.unknown_outcomes += 1
            raise
        self._shared.ensure_told(ops, None, since)
