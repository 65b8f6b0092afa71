"""What the world must provide: time, work beside the caller's, a znode store and a file store.

Everything above works against these Protocols.

The znode store is ZooKeeper's data model, exactly, so that what holds on one backend holds on all.
docs/guides/extending-store.md shows how to write a backend, and oncelog.testing.znode_store_contract ships the tests
that it must pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

T = TypeVar("T")

ANY_VERSION = -1
"""As in ZooKeeper: a check, set or delete with this version asks for existence only."""


@runtime_checkable
class Clock(Protocol):
    """Of this machine; the time of the protocol is the store's (`Stat.mtime_ms` of ``/clock``)."""

    def now_ms(self) -> int:
        """The wall clock, in milliseconds since 1970: the time of records."""

    def monotonic_ms(self) -> int: ...

    def sleep_ms(self, duration_ms: int) -> None: ...


@dataclass(frozen=True, slots=True)
class Timing:
    """What a znode store asks for time.

    Attributes:
        now_ms: wall clock, for mtimes. It may go backwards; a store never does.
        clock: durations and waiting between tries.
        jitter: in [0, 1), spreads the tries of those who conflicted.
    """

    now_ms: Callable[[], int]
    clock: Clock
    jitter: Callable[[], float]


@runtime_checkable
class Background(Protocol):
    """Work beside the caller's."""

    def every_ms(self, pause_ms: int, action: Callable[[], bool], *, name: str) -> AbstractContextManager[None]:
        """While the block runs, call `action` again and again, each time after a pause, until it returns False."""

    def later(self, delay_ms: int, action: Callable[[], int | None], *, name: str) -> None:
        """Call `action` after a pause, and again after each further pause that it returns, until it returns None."""

    def lock(self) -> AbstractContextManager[object]:
        """A lock between the caller and the work beside it. Whoever holds it may take it again."""

    def at_exit(self, client: EndsWithProcess) -> None:
        """Tell `client`, if it still lives, when the process ends by itself. A forked child tells it, too."""


class EndsWithProcess(Protocol):
    """Who has something to bring to an end, or to say, when the process ends."""

    def end_with_process(self) -> None:
        """Called once the program is over. Raises nothing."""


class Stat(NamedTuple):
    """ZooKeeper's Stat, as far as it is used. zxids are the store's own counter of multis, growing by time."""

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
    """Reads of znodes. Paths are absolute, ``/`` exists always."""

    def get(self, path: str) -> Znode | None:
        """The znode, or None where there is none."""

    def get_many(self, paths: Iterable[str]) -> list[Znode | None]:
        """`get` of each path, in one round trip where the backend can (pipelined)."""

    def children(self, path: str) -> list[str]:
        """Sorted names of the children; empty also where `path` does not exist."""

    def children_data(self, path: str) -> list[tuple[str, Znode]]:
        """`children` with their znodes, sorted by name. Only for parents of bounded size."""


class ZnodeView(ZnodeReader, Protocol):
    """What a step of `ZnodeStore.transact` sees: reads are remembered, writes are buffered, own writes are visible.

    Reading an absent path or a child list puts the nearest existing ancestor into the read set, and every create and
    delete sets its parent (same data), so that absence and child lists are compared and set like data (invariant I3).
    """

    def create(self, path: str, data: bytes = b"") -> None:
        """Create a znode, and its missing ancestors with empty data. Raises NodeExistsError on a present one."""

    def create_blind(self, path: str, data: bytes = b"") -> None:
        """Create a znode that cannot exist while what the step has read holds, without a look whether it does.

        Its parent is read. Where it exists all the same, nothing is written: the step ends in CorruptDataError where
        snapshots show one moment, else as one that meets conflicts until its deadline.
        """

    def set(self, path: str, data: bytes) -> None:
        """Replace the data of a znode that this view has read, or will read now."""

    def set_blind(self, path: str, data: bytes) -> None:
        """Replace the data of an existing znode without reading it: never conflicts. The order is the store's."""

    def delete(self, path: str) -> None:
        """Delete a znode without children."""


@runtime_checkable
class ZnodeStore(ZnodeReader, Protocol):
    """A ZooKeeper-like store. Safe to use from many processes; a forked child opens its own connection lazily.

    A backend provides all of this but `transact`, which comes with the base class `znodes.transact.Transacting`.
    """

    @property
    def reads_are_atomic(self) -> bool:
        """Whether a `snapshot` shows one moment. If not, even a step that only reads has its checks committed."""

    @property
    def timing(self) -> Timing:
        """What `transact` asks for time."""

    def snapshot(self) -> AbstractContextManager[ZnodeReader]:
        """Reads within are in order of time; one consistent snapshot where the backend has that (memory, SQLite)."""

    def multi(self, ops: Sequence[Op], *, is_fresh: Callable[[], bool] = ...) -> None:
        """Apply all operations atomically, or none. Operations see the effects of earlier ones; one zxid.

        Args:
            ops: refused where `znodes.rules.ensure_acceptable` refuses them.
            is_fresh: asked where no other write can come before this one: under the store's lock, if it has one.
                The default is that it is fresh.

        Raises:
            MultiFailedError: an operation's condition does not hold (`znodes/errors.py`); nothing was applied.
            StaleStepError: `is_fresh` said no; nothing was applied.
            OutcomeUnknownError: the answer was lost. StoreUnavailableError: not applied.
        """

    def transact(self, step: Callable[[ZnodeView], T], *, deadline_ms: int = ...) -> T:
        """Run `step` on a view and commit its read set and writes as one multi; run it again on conflict.

        `step` must be free of side effects. What it returns or raises is believed only after its checks held. The
        only way to write znodes.

        Raises:
            TransactConflictError: conflicts until the deadline. OutcomeUnknownError: run the same step again.
        """

    def sync(self) -> None:
        """Make the following reads of this process see every write that was acknowledged before the call."""

    def close(self) -> None: ...


class OutputFile(Protocol):
    """A new file under its final random name. It counts only after `finish`."""

    @property
    def position(self) -> int:
        """Bytes written so far."""

    def write(self, data: bytes | memoryview) -> None: ...

    def finish(self) -> None:
        """Make the file durable (fsync of file and folder, or an acknowledged put) and close it (invariant I12)."""

    def discard(self) -> None:
        """Close and remove the unfinished file; safe to call twice and after `finish`."""


@runtime_checkable
class FileStore(Protocol):
    """Immutable files under one root. Names are relative, with ``/``. Picklable: tasks in other processes use it."""

    def create(self, name: str) -> OutputFile: ...

    def read(self, name: str, position: int, length: int) -> bytes:
        """Exactly `length` bytes, or fewer at the end of the file. Raises FileNotFoundError."""

    def size(self, name: str) -> int:
        """Bytes of the file. Raises FileNotFoundError."""

    def names(self, folder: str) -> Iterable[tuple[str, int, int]]:
        """(name, size, mtime_ms) of each file below `folder`. For collection and verification, not for correctness."""

    def delete(self, name: str) -> None:
        """Remove a file; no error when it is gone."""
