"""The znode store on a command log.

Reads replay the log to its end first, so that they see every write that was acknowledged before. Multis that wait
together share one append. If requests are slow, a step first runs on what was replayed already (`recent`).

`is_fresh` is asked right before a command is given to the log, hence not where no other write could come
before it: a log has no lock to ask it under. What delays an append after that is the log's time-out of a request, and
a process that is stopped in between; limits.TOMBSTONE_MS is a day.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from oncelog import randomness
from oncelog.errors import (
    CorruptDataError,
    IllegalStateTransitionError,
    OncelogError,
    OutcomeUnknownError,
    RetriableError,
    ensure,
)
from oncelog.limits import LOOK_MS, MULTI_MAX_BYTES
from oncelog.ports import Check, Op, Timing, Watch, Znode
from oncelog.znodes.clock import SYSTEM_TIMING, both_clocks
from oncelog.znodes.errors import StaleStepError
from oncelog.znodes.replicated.command import Batch, decode, encode
from oncelog.znodes.replicated.port import CommandLog, Entry, TrimmedError
from oncelog.znodes.replicated.snapshot import load, parts
from oncelog.znodes.rules import ensure_acceptable, size_of
from oncelog.znodes.transact import IsFresh, Transacting, always_fresh, ensure_fresh
from oncelog.znodes.tree import Tree
from oncelog.znodes.watching import Looks

SAVED_EVERY: Final = 5_000
"""Entries between two snapshots: what somebody who opens the store has to replay at most, twice over."""

SAVED_AGAIN: Final = 10
"""After a snapshot that failed, the next try comes after this part of SAVED_EVERY: each costs as much as a snapshot."""

_log = logging.getLogger(__name__)


Locks = Callable[[], AbstractContextManager[object]]


@dataclass(eq=False, slots=True)
class _Waiting:
    """A multi on its way into the log."""

    ops: Sequence[Op]
    is_fresh: IsFresh
    is_over: bool = False
    problem: OncelogError | None = None

    def is_still_fresh(self) -> bool:
        try:
            ensure_fresh(self.is_fresh)
        except StaleStepError as stale:
            self.problem = stale
            return False
        return True


class _Group:
    """Multis that go into the log together: those that came while others were appended.

    Args:
        turn: whoever takes it first appends them all; the others wait for it to hear what came of theirs.
    """

    def __init__(self, turn: AbstractContextManager[object]) -> None:
        self.turn = turn
        self.members: list[_Waiting] = []

    def next(self) -> list[_Waiting]:
        """Those that are not over, as many as fit into an entry. They stay: whoever takes them may be interrupted."""
        found: list[_Waiting] = []
        room = MULTI_MAX_BYTES
        for one in self.members:
            if one.is_over:
                continue
            room -= sum(map(size_of, one.ops))
            if found and room < 0:
                break
            found.append(one)
        return found


class ReplicatedZnodeStore(Transacting):
    """`ports.ZnodeStore` on a command log.

    Threads may share it, also over a fork: each process opens a connection of its own at its first use.

    Args:
        connect: opens the log. Picklable, if the store is to be.
        timing: of `transact`; the times of znodes are the log's.
        lock: makes the locks between threads.
        saved_every: entries between two snapshots; None for `SAVED_EVERY`.
        recent_ms: how old reads are at most for `recent`, and whether steps are joined; 0 for neither.
        look_ms: how often who waits for others looks for their entries.
    """

    reads_are_atomic = True

    def __init__(
        self,
        connect: Callable[[], CommandLog],
        timing: Timing = SYSTEM_TIMING,
        lock: Locks = threading.Lock,
        saved_every: int | None = None,
        recent_ms: int = 0,
        look_ms: int = LOOK_MS,
    ) -> None:
        self.timing = timing
        self._connect = connect
        self._lock = lock
        self._saved_every = saved_every
        self._recent_ms = recent_ms
        self._look_ms = look_ms
        self._is_closed = False
        self._connection = self._connected()

    @property
    def joins_steps(self) -> bool:  # type: ignore[override]
        return self._recent_ms > 0

    def get(self, path: str) -> Znode | None:
        with self.snapshot() as tree:
            return tree.get(path)

    def get_many(self, paths: Iterable[str]) -> list[Znode | None]:
        with self.snapshot() as tree:
            return tree.get_many(paths)

    def children(self, path: str) -> list[str]:
        with self.snapshot() as tree:
            return tree.children(path)

    def children_data(self, path: str) -> list[tuple[str, Znode]]:
        with self.snapshot() as tree:
            return tree.children_data(path)

    @contextmanager
    def snapshot(self) -> Iterator[Tree]:
        connection = self._open()
        with _reading(connection, connection.begin_reading()) as tree:
            yield tree

    def recent(self) -> AbstractContextManager[Tree] | None:
        connection = self._open()
        tree = connection.begin_recent(self._recent_ms)
        return None if tree is None else _reading(connection, tree)

    def watch(self) -> AbstractContextManager[Watch]:
        return nullcontext(Looks(self.timing.clock, self._look_ms))

    def multi(self, ops: Sequence[Op], *, is_fresh: IsFresh = always_fresh) -> None:
        ensure_acceptable(ops)
        connection = self._open()
        if any(not isinstance(op, Check) for op in ops):
            connection.carry_out(_Waiting(ops, is_fresh))
            return
        with self.snapshot() as tree:
            ensure_fresh(is_fresh)
            tree.apply(ops, 0)  # changes nothing, and raises what a multi of checks raises

    def sync(self) -> None:
        with self.snapshot():
            pass

    @property
    def foreign(self) -> int:
        """See `CommandLog`."""
        return self._open().foreign

    @property
    def is_broken(self) -> bool:
        """Whether its log was found to be corrupt or another one; once that is repaired, it can be opened again."""
        return self._connection.is_broken

    def close(self) -> None:
        self._is_closed = True
        if self._connection.is_of_this_process:
            self._connection.close()

    def __reduce__(self) -> tuple[Any, ...]:
        opened = partial(ReplicatedZnodeStore, saved_every=self._saved_every, recent_ms=self._recent_ms)
        return opened, (self._connect, self.timing)

    def _open(self) -> _Connection:
        if self._is_closed:
            raise IllegalStateTransitionError("the znode store is closed")
        if not self._connection.is_of_this_process:
            self._connection = self._connected()
        return self._connection

    def _connected(self) -> _Connection:
        return _Connection(self._connect(), self.timing, self._lock, self._saved_every)


@contextmanager
def _reading(connection: _Connection, tree: Tree) -> Iterator[Tree]:
    try:
        yield tree
    finally:
        connection.end_reading(tree)


class _Connection:
    """What one process has of the log: a connection, and the replica that it makes.

    Nothing of it survives a fork: its locks may be held by threads that the child does not have.

    Attributes:
        is_broken: the log was found to be corrupt, or to be another one.
    """

    def __init__(self, log: CommandLog, timing: Timing, lock: Locks, saved_every: int | None) -> None:
        self._log = log
        self._timing = timing
        self._saved_every = saved_every
        self.is_broken = False
        self._save_again_at = 0
        """So many unsaved entries must there be before the next try, after one that failed."""
        self._read_at: tuple[int, int] | None = both_clocks(timing)
        """The replica was at the end of the log at this time, or later; None behind an append of unknown outcome."""
        try:
            self._replica = load(log)
        except BaseException:
            log.close()
            raise
        self._pid = os.getpid()
        self._sender = randomness.random_id()
        self._number = 0
        self._lock = lock
        self._group: _Group | None = None
        self._joining = lock()  # the group
        self._appending = lock()
        self._using = lock()  # the log and the replica

    @property
    def is_of_this_process(self) -> bool:
        return self._pid == os.getpid()

    @property
    def foreign(self) -> int:
        return self._log.foreign

    def begin_reading(self) -> Tree:
        """The tree at the end of the log. It stays as it is until `end_reading`."""
        with self._using:
            self._replay()
            return self._held()

    def begin_recent(self, recent_ms: int) -> Tree | None:
        """The tree as it was replayed, if that is not too long ago by either clock. It stays so until `end_reading`."""
        with self._using:
            if self._read_at is None:
                return None
            ages_ms = [now - then for now, then in zip(both_clocks(self._timing), self._read_at, strict=True)]
            return self._held() if all(0 <= age_ms < recent_ms for age_ms in ages_ms) else None

    def _held(self) -> Tree:
        tree = self._replica.tree
        tree.readers += 1
        return tree

    def end_reading(self, tree: Tree) -> None:
        with self._using:
            tree.readers -= 1

    def carry_out(self, waiting: _Waiting) -> None:
        """Have a multi appended, by this thread or by another of its group, and raise what came of it."""
        group = self._joined(waiting)
        with group.turn:
            if not waiting.is_over:
                with self._appending:
                    self._close_to_others(group)
                    while some := group.next():
                        self._append_some(some)
                        self._save_now_and_then()
        if waiting.problem is not None:
            raise waiting.problem

    def _joined(self, waiting: _Waiting) -> _Group:
        with self._joining:
            if self._group is None:
                self._group = _Group(self._lock())
            self._group.members.append(waiting)
            return self._group

    def _close_to_others(self, group: _Group) -> None:
        with self._joining:
            if self._group is group:
                self._group = None

    def close(self) -> None:
        with self._using:
            self._log.close()

    def _append_some(self, some: Sequence[_Waiting]) -> None:
        """Append multis in one entry, and tell each how it went."""
        with self._using:
            try:
                self._append([one for one in some if one.is_still_fresh()])
            finally:  # after an interrupt, too, nobody is left waiting
                for one in some:
                    one.is_over = True

    def _append(self, sent: Sequence[_Waiting]) -> None:
        if not sent:
            return
        for one in sent:
            one.problem = OutcomeUnknownError("the append was interrupted: run the same step again")
        try:
            problems = self._appended([one.ops for one in sent])
        except OncelogError as problem:
            problems = [problem] * len(sent)
        for one, said in zip(sent, problems, strict=True):
            one.problem = said

    def _appended(self, multis: Sequence[Sequence[Op]]) -> Sequence[OncelogError | None]:
        """Append multis, and learn how each went."""
        self._number += 1
        replica = self._replica
        body = encode(Batch(self._sender, self._number, replica.position, replica.chain, multis))
        asked_at, self._read_at = both_clocks(self._timing), None
        try:
            known = self._log.append(replica.position, body)
        except CorruptDataError:
            self.is_broken = True
            raise
        try:
            self._replay(known)
            self._read_at = asked_at  # the entry came right behind what was replayed, so that it was the end
        except RetriableError as problem:
            raise OutcomeUnknownError(
                "the command log was written to, and cannot be read: run the same step again", reason=str(problem)
            ) from problem
        last = self._replica.senders.get(self._sender)
        if last is None:
            raise OutcomeUnknownError(
                "this process was suspended until the command log forgot how its write went: run the same step again"
            )
        if last.number != self._number:
            raise CorruptDataError(
                "the command log lost an entry that it had acknowledged: restore it from a backup",
                position=self._replica.position,
            )
        return last.problems()

    def _save_now_and_then(self) -> None:
        """Keep the log short. What fails here is reported and tried again: the steps before it were carried out."""
        with self._using:
            every = self._saved_every or SAVED_EVERY
            if self._replica.unsaved < max(every, self._save_again_at):
                return
            self._save_again_at = 0
            try:
                for part in parts(self._replica, self._sender):
                    self._replay(self._log.append(self._replica.position, encode(part)))
                if len(self._replica.snapshots) > 1:
                    self._log.trim(self._replica.snapshots[-2])
            except OncelogError as problem:
                self._save_again_at = self._replica.unsaved + max(1, every // SAVED_AGAIN)
                _log.warning("the metadata's log was not shortened, and grows until that works: %s", problem)

    def _replay(self, known: Sequence[Entry] | None = None) -> None:
        """Apply the entries that are known to come next, or read the log to its end."""
        asked_at = both_clocks(self._timing)
        try:
            for entry in self._log.read(self._replica.position) if known is None else known:
                self._replica.apply(entry, decode(entry))
        except CorruptDataError:
            self.is_broken = True
            raise
        except TrimmedError:  # beyond what was replayed: read it from a snapshot on
            found = load(self._log)
            ensure(found.position >= self._replica.position, "a replica never goes back", position=found.position)
            self._replica = found
        if known is None:
            self._read_at = asked_at
