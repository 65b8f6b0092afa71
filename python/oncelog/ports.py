"""The interfaces to the outside world: clocks, background work, the znode store and the file store.

All other modules use these Protocols. The znode store has exactly ZooKeeper's data model, so that all backends behave
the same. docs/guides/extending-store.md shows how to write a backend; oncelog.testing.znode_store_contract has the
tests that it must pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")

ANY_VERSION = -1
"""As in ZooKeeper: a check, set or delete with this version only requires that the znode exists."""


@runtime_checkable
class Clock(Protocol):
    """This machine's clocks. The protocol uses the store's time instead (`Stat.mtime_ms` of ``/clock``)."""

    def now_ms(self) -> int:
        """Wall-clock time in milliseconds since 1970, for the timestamps of records."""

    def monotonic_ms(self) -> int: ...

    def sleep_ms(self, duration_ms: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Timing:
    """A znode store's sources of time.

    Attributes:
        now_ms: wall clock, for mtimes. It may go backwards; a store's mtimes never do.
        clock: for durations and for the pauses between tries.
        jitter: returns a random number in [0, 1), to spread the tries after a conflict.
    """

    now_ms: Callable[[], int]
    clock: Clock
    jitter: Callable[[], float]


@runtime_checkable
class Background(Protocol):
    """Work in the background."""

    def every_ms(self, pause_ms: int, action: Callable[[], bool], *, name: str) -> AbstractContextManager[None]:
        """While the block runs, call `action` after every pause, until it returns False."""

    def later(self, delay_ms: int, action: Callable[[], int | None], *, name: str) -> None:
        """Call `action` after the delay. It returns the delay before its next call, or None to end."""

    def lock(self) -> AbstractContextManager[object]:
        """A reentrant lock between the caller and its background work."""

    def at_exit(self, client: EndsWithProcess) -> None:
        """Call `client.end_with_process` when the process exits normally, if the client still exists.

        A forked child calls it, too.
        """


class EndsWithProcess(Protocol):
    """A client that must finish or report something when the process exits."""

    def end_with_process(self) -> None:
        """Called at the end of the program. Raises nothing."""


class Stat(NamedTuple):
    """The fields of ZooKeeper's Stat that are used. zxids count the store's multis, and grow with time."""

    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int


class Znode(NamedTuple):
    data: bytes
    stat: Stat


@dataclass(frozen=True, slots=True)
class Check:
    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Set:
    path: str
    data: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = ANY_VERSION


Op = Check | Create | Set | Delete


class ZnodeReader(Protocol):
    """Reads znodes. Paths are absolute; ``/`` always exists."""

    def get(self, path: str) -> Znode | None:
        """The znode, or None if it does not exist."""

    def get_many(self, paths: Iterable[str]) -> list[Znode | None]:
        """`get` of each path, in one round trip if the backend can.

        They are read in this order: none shows an older moment than those before it.
        """

    def children(self, path: str) -> list[str]:
        """Sorted names of the children; empty if `path` does not exist."""

    def children_data(self, path: str) -> list[tuple[str, Znode]]:
        """The children's names and znodes, sorted by name. Only for parents with a bounded number of children."""


class ZnodeView(ZnodeReader, Protocol):
    """What a step of `ZnodeStore.transact` reads and writes: reads are recorded, writes are buffered and visible to it.

    A read of a missing path or of a child list adds the nearest existing ancestor to the read set, and every create and
    delete sets its parent (to the same data). So absence and child lists are compared like data (invariant I3).
    """

    def create(self, path: str, data: bytes = b"") -> None:
        """Create a znode, and its missing ancestors with empty data. Raises NodeExistsError if the znode exists."""

    def create_blind(self, path: str, data: bytes = b"") -> None:
        """Create a znode without checking that it is absent; only the parent is read.

        For a znode that cannot exist while the step's reads are unchanged. If it exists nevertheless, nothing is
        written. The step then ends in CorruptDataError if the store's reads are atomic, and otherwise in conflicts
        until its deadline.
        """

    def set(self, path: str, data: bytes) -> None:
        """Replace the data of a znode, which is read first if this view has not read it."""

    def set_blind(self, path: str, data: bytes) -> None:
        """Replace the data of an existing znode without reading it, so that it never conflicts. The last write wins."""

    def delete(self, path: str) -> None:
        """Delete a znode without children."""


class Watch(Protocol):
    """Waits until others change znodes. For one thread."""

    def wait(self, paths: Iterable[str], timeout_ms: int) -> None:
        """Return once one of these znodes may have changed since the last call returned, or when the time is up.

        Read the znodes after each call, and wait for those that were read. The first call returns at once, or soon: it
        says from when on changes count. Any call may return early. If a change is not heard of, it returns within
        limits.LOOK_MS of the change nevertheless; where every look is paid for, within a quarter of a second.
        """


@runtime_checkable
class ZnodeStore(ZnodeReader, Protocol):
    """A ZooKeeper-like store. Safe to use from many processes; a forked child opens its own connection lazily.

    A backend implements everything except `transact`, which the base class `znodes.transact.Transacting` has. That one
    has `recent` and `joins_steps` for backends whose requests are cheap, and `watch` for those that hear of no changes.
    """

    @property
    def reads_are_atomic(self) -> bool:
        """Whether all reads of a `snapshot` show one moment. If not, even a read-only step has its checks committed."""

    @property
    def joins_steps(self) -> bool:
        """Whether a step costs so much that what others do in several steps is done in one, or later with others."""

    @property
    def timing(self) -> Timing:
        """The times and pauses of `transact`."""

    def snapshot(self) -> AbstractContextManager[ZnodeReader]:
        """Reads in order of time: a later read is never older. One consistent snapshot if `reads_are_atomic`."""

    def recent(self) -> AbstractContextManager[ZnodeReader] | None:
        """Cached reads of one recent moment, without a request; None if there is no such moment.

        The moment is not before the end of any earlier call of this process, and at most `limits.RECENT_MS` before this
        call. So it may miss writes that were acknowledged to others. Use it only where a process that was suspended
        after a snapshot would be correct, too: for a step whose reads are compared when it writes, and for hints.
        """

    def multi(self, ops: Sequence[Op], *, is_fresh: Callable[[], bool] = ...) -> None:
        """Apply all operations atomically under one zxid, or none. Each operation sees the effects of earlier ones.

        Args:
            ops: must pass `znodes.rules.ensure_acceptable`.
            is_fresh: called when no other write can come before this one (under the store's lock, if it has one).
                If it returns False, nothing is applied. By default it returns True.

        Raises:
            MultiFailedError: an operation's condition does not hold (`znodes/errors.py`); nothing was applied.
            StaleStepError: `is_fresh` returned False; nothing was applied.
            OutcomeUnknownError: the answer was lost.
            StoreUnavailableError: nothing was applied.
        """

    def transact(self, step: Callable[[ZnodeView], T], *, deadline_ms: int = ...) -> T:
        """Run `step` on a view and commit its read set and writes as one multi; run it again on a conflict.

        This is the only way to write znodes. `step` must have no side effects. What it returns or raises counts only
        after its checks held.

        Raises:
            TransactConflictError: there were conflicts until the deadline.
            OutcomeUnknownError: run the same step again.
        """

    def watch(self) -> AbstractContextManager[Watch]:
        """For who waits for others: hears of their changes if the backend can, and else looks every now and then."""

    def sync(self) -> None:
        """Make later reads of this process see every write that was acknowledged before the call."""

    def close(self) -> None: ...


class OutputFile(Protocol):
    """A new file under its final random name. Nothing may name it before `finish`."""

    @property
    def position(self) -> int:
        """Number of bytes written so far."""

    def write(self, data: bytes | memoryview) -> None: ...

    def finish(self) -> None:
        """Make the file durable (by fsync of file and folder, or an acknowledged put) and close it (invariant I12)."""

    def discard(self) -> None:
        """Close and remove the unfinished file; safe to call twice and after `finish`."""


@runtime_checkable
class FileStore(Protocol):
    """Immutable files below one root, under relative names with ``/``. Picklable, for tasks in other processes."""

    def create(self, name: str) -> OutputFile: ...

    def read(self, name: str, position: int, length: int) -> bytes:
        """Exactly `length` bytes, or fewer at the end of the file. Raises FileNotFoundError."""

    def size(self, name: str) -> int:
        """The file's size in bytes. Raises FileNotFoundError."""

    def names(self, folder: str) -> Iterable[tuple[str, int, int]]:
        """(name, size, mtime_ms) of each file below `folder`. For collection and verification only."""

    def delete(self, name: str) -> None:
        """Remove a file; no error if it is gone."""
