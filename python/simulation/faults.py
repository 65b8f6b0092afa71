"""What can go wrong, and when: by chance at given rates, or at chosen operations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum
from random import Random
from typing import Protocol


class Operation(StrEnum):
    """The kinds of operations that faults distinguish."""

    ZNODE_READ = "znode read"
    ZNODE_WRITE = "znode write"
    FILE_CREATE = "file create"
    FILE_WRITE = "file write"
    FILE_FINISH = "file finish"
    FILE_READ = "file read"
    FILE_LIST = "file list"
    FILE_DELETE = "file delete"
    BROKER_READ = "broker read"
    BROKER_WRITE = "broker write"
    PLACE_READ = "place read"
    PLACE_WRITE = "place write"


class Fault(StrEnum):
    """What happens to an operation, or to its process."""

    CRASH_BEFORE = "crash before"
    """The process dies, and the operation was not done."""
    CRASH_AFTER = "crash after"
    """The process dies, and the operation was done."""
    LOST_REPLY = "lost reply"
    """The operation was done, and the caller is told that the outcome is unknown."""
    LOST_REQUEST = "lost request"
    """The operation was not done, and the caller is told that the outcome is unknown."""
    DELAYED_REQUEST = "delayed request"
    """The caller is told that the outcome is unknown; the operation is done, or refused, some time later."""
    REPEATED_REQUEST = "repeated request"
    """The operation was done, and its request arrives a second time later."""
    UNAVAILABLE = "unavailable"
    """The operation was not done, and the caller is told so."""
    CONFLICT = "conflict"
    """The operation was refused, and its step has to read again."""
    STALE_READ = "stale read"
    """The answering server does not have the newest writes yet."""
    PAUSE = "pause"
    """The process is paused for a long time, then continues as if nothing had happened."""
    CLOCK_JUMP = "clock jump"
    """The store's wall clock is set forward or back."""
    FAILED_FILE = "failed file"
    """The file system reports an error."""


OF_OPERATION: Mapping[Operation, tuple[Fault, ...]] = {
    Operation.ZNODE_READ: (Fault.CRASH_BEFORE, Fault.PAUSE, Fault.UNAVAILABLE, Fault.STALE_READ, Fault.CLOCK_JUMP),
    Operation.ZNODE_WRITE: (
        Fault.CRASH_BEFORE,
        Fault.CRASH_AFTER,
        Fault.LOST_REPLY,
        Fault.LOST_REQUEST,
        Fault.DELAYED_REQUEST,
        Fault.REPEATED_REQUEST,
        Fault.UNAVAILABLE,
        Fault.CONFLICT,
        Fault.PAUSE,
        Fault.CLOCK_JUMP,
    ),
    Operation.FILE_CREATE: (Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.FAILED_FILE, Fault.PAUSE),
    Operation.FILE_WRITE: (Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.FAILED_FILE, Fault.PAUSE),
    Operation.FILE_FINISH: (Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.FAILED_FILE, Fault.PAUSE),
    Operation.FILE_READ: (Fault.CRASH_BEFORE, Fault.FAILED_FILE, Fault.PAUSE),
    Operation.FILE_LIST: (Fault.CRASH_BEFORE, Fault.PAUSE),
    Operation.FILE_DELETE: (Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.FAILED_FILE, Fault.PAUSE),
    Operation.BROKER_READ: (
        Fault.CRASH_BEFORE,
        Fault.UNAVAILABLE,
        Fault.PAUSE,
        Fault.STALE_READ,
        Fault.CLOCK_JUMP,
    ),
    Operation.BROKER_WRITE: (
        Fault.CRASH_BEFORE,
        Fault.CRASH_AFTER,
        Fault.LOST_REPLY,
        Fault.LOST_REQUEST,
        Fault.DELAYED_REQUEST,
        Fault.UNAVAILABLE,
        Fault.PAUSE,
        Fault.CLOCK_JUMP,
    ),
    Operation.PLACE_READ: (Fault.CRASH_BEFORE, Fault.UNAVAILABLE, Fault.PAUSE),
    Operation.PLACE_WRITE: (
        Fault.CRASH_BEFORE,
        Fault.CRASH_AFTER,
        Fault.LOST_REPLY,
        Fault.LOST_REQUEST,
        Fault.DELAYED_REQUEST,
        Fault.REPEATED_REQUEST,
        Fault.UNAVAILABLE,
        Fault.PAUSE,
    ),
}
"""The faults that each kind of operation can have."""


class Faults(Protocol):
    """Decides which operation gets which fault."""

    def of(self, operation: Operation) -> Fault | None:
        """The fault of the next operation, if any."""


class NoFaults:
    """Nothing goes wrong."""

    def of(self, operation: Operation) -> Fault | None:
        return None


class RandomFaults:
    """Faults by chance.

    Args:
        chance: the source of randomness.
        rates: the probability of each fault at each operation that can have it; faults that are left out never happen.

    Attributes:
        counts: how often each fault happened.
        kinds: the faults that can happen.
    """

    def __init__(self, chance: Random, rates: Mapping[Fault, float]) -> None:
        self._chance = chance
        self.counts: Counter[Fault] = Counter()
        self.kinds = frozenset(rates)
        self._bounds: dict[Operation, tuple[tuple[float, Fault], ...]] = {}
        for operation, faults in OF_OPERATION.items():
            total, bounds = 0.0, []
            for fault in faults:
                if fault in rates:
                    total += rates[fault]
                    bounds.append((total, fault))
            self._bounds[operation] = tuple(bounds)

    def of(self, operation: Operation) -> Fault | None:
        bounds = self._bounds[operation]
        if not bounds:
            return None
        drawn = self._chance.random()
        if drawn >= bounds[-1][0]:
            return None
        fault = next(fault for bound, fault in bounds if drawn < bound)
        self.counts[fault] += 1
        return fault


READS = frozenset(
    {Operation.ZNODE_READ, Operation.FILE_READ, Operation.FILE_LIST, Operation.BROKER_READ, Operation.PLACE_READ}
)

CHANGES = frozenset(Operation) - READS
"""The operations that change something. A crash before any other one is the same as before the next of these."""


class CrashesAt:
    """Crashes right before chosen operations; right after one is right before the next.

    Args:
        numbers: of the operations, counting only those that change something: the first from the beginning, each
            further one from the previous crash.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self._left = list(numbers)
        self._count = 0
        self.struck = 0

    def of(self, operation: Operation) -> Fault | None:
        if operation not in CHANGES or not self._left:
            return None
        self._count += 1
        if self._count <= self._left[0]:
            return None
        self._left.pop(0)
        self._count = 0
        self.struck += 1
        return Fault.CRASH_BEFORE


class StrikesAt:
    """Chosen faults at chosen operations.

    Args:
        strikes: faults, each with the number of its operation, counting only operations that can have the fault. The
            first is counted from the beginning, each further one from the previous fault.

    Attributes:
        struck: how many of the faults happened.
        met: how many operations so far could have had the next fault.
    """

    def __init__(self, strikes: Sequence[tuple[Fault, int]]) -> None:
        self._left = list(strikes)
        self.struck = 0
        self.met = 0

    def of(self, operation: Operation) -> Fault | None:
        if not self._left or self._left[0][0] not in OF_OPERATION[operation]:
            return None
        fault, number = self._left[0]
        self.met += 1
        if self.met <= number:
            return None
        self._left.pop(0)
        self.met = 0
        self.struck += 1
        return fault
