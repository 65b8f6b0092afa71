"""A znode store that fails at a chosen multi, as processes, disks and networks do.

Reads and writes go to a real store. A dead store answers nothing any more: what a process does after its own death,
such as the cleaning up in its `finally` blocks, reaches nobody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, auto

from oncelog.errors import OutcomeUnknownError, StoreUnavailableError
from oncelog.ports import Op, ZnodeStore
from oncelog.znodes.transact import IsFresh, always_fresh
from tests.support.log.wrapped import WrappedStore


class Fault(Enum):
    """What happens at the chosen multi."""

    CRASH_BEFORE = auto()
    """The process dies; nothing was written."""
    CRASH_AFTER = auto()
    """The process dies; everything of the multi was written."""
    LOST_REPLY = auto()
    """It was written, but its caller is not told so."""
    LOST_REQUEST = auto()
    """It was not written, and its caller is not told so."""
    UNAVAILABLE = auto()
    """It was not written, and its caller is told so."""


HICCUPS = (Fault.LOST_REPLY, Fault.LOST_REQUEST, Fault.UNAVAILABLE)


class Crashed(BaseException):
    """The process is dead. Nothing catches it but the test."""


class FaultyStore(WrappedStore):
    """`ports.ZnodeStore` that fails for a time.

    Args:
        store: the real one.
        fault: what happens, once.
        at: at which multi, counted from 0; None for never.
    """

    def __init__(self, store: ZnodeStore, fault: Fault = Fault.CRASH_BEFORE, at: int | None = None) -> None:
        super().__init__(store)
        self._faults: deque[Fault | None] = deque()
        self.has_struck = False
        self._is_dead = False
        if at is not None:
            self.fail_next(*[None] * at, fault)

    def fail_next(self, *faults: Fault | None) -> None:
        """What happens at the next multis, one by one; None for nothing. All go well behind them."""
        self._faults = deque(faults)
        self.has_struck = False

    def multi(self, ops: Sequence[Op], *, is_fresh: IsFresh = always_fresh) -> None:
        store = self.inner()
        fault = self._faults.popleft() if self._faults else None
        if fault is not None:
            self.has_struck = True
        if fault in (None, Fault.CRASH_AFTER, Fault.LOST_REPLY):
            store.multi(ops, is_fresh=is_fresh)
        if fault in (Fault.CRASH_BEFORE, Fault.CRASH_AFTER):
            self._is_dead = True
            raise Crashed
        if fault is Fault.UNAVAILABLE:
            raise StoreUnavailableError("the test's store is away")
        if fault is not None:
            raise OutcomeUnknownError("the test's store lost the answer")

    def close(self) -> None:
        """The real store is its opener's to close."""

    def inner(self) -> ZnodeStore:
        if self._is_dead:
            raise Crashed
        return self._store


class InterruptedStore(FaultyStore):
    """Somebody else acts between the reads and the write of a step: right before a chosen multi, once.

    Args:
        store: the real one.
        rival: what the other one does, by a store of its own.
    """

    def __init__(self, store: ZnodeStore, rival: Callable[[], object]) -> None:
        super().__init__(store)
        self._countdown: int | None = None
        self._rival = rival

    def interrupt(self, at: int = 0) -> None:
        """Let the rival act before the multi that is the `at`-th from now, counted from 0."""
        self.has_struck, self._countdown = False, at

    def multi(self, ops: Sequence[Op], *, is_fresh: IsFresh = always_fresh) -> None:
        if self._countdown == 0:
            self.has_struck, self._countdown = True, None
            self._rival()
        elif self._countdown is not None:
            self._countdown -= 1
        super().multi(ops, is_fresh=is_fresh)


class RivalledStore(FaultyStore):
    """Somebody else acts at a moment that a subclass knows, once.

    Attributes:
        rival: what the other does; None once it is done.
    """

    rival: Callable[[], object] | None = None

    def is_overtaken(self) -> bool:
        """Let the rival act, unless it has; whether it did."""
        rival, self.rival = self.rival, None
        if rival is None:
            return False
        rival()
        return True


class OvertakenStore(FaultyStore):
    """Somebody else acts while the lost answer of a multi is waited for.

    Args:
        store: the real one.
        rival: what the other one does, by a store of its own.
    """

    def __init__(self, store: ZnodeStore, rival: Callable[[], object]) -> None:
        super().__init__(store)
        self._rival = rival

    def multi(self, ops: Sequence[Op], *, is_fresh: IsFresh = always_fresh) -> None:
        try:
            super().multi(ops, is_fresh=is_fresh)
        except OutcomeUnknownError:
            self._rival()
            raise
