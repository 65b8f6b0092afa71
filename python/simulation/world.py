"""The world of one run: time, randomness, znodes, disk, faults, its clients' history, and a trace of every step."""

from __future__ import annotations

import hashlib
import logging
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from oncelog import randomness
from oncelog.ports import Check, Create, Op, Set
from oncelog.runtime import Log
from oncelog.testing.history import Event, Recorder
from oncelog.znodes import paths
from simulation.bucket import SharedBucket
from simulation.command_log import SharedLog
from simulation.errors import LawBrokenError
from simulation.faults import Fault, Faults, NoFaults, Operation
from simulation.files import Disk
from simulation.processes import Process
from simulation.scheduler import Scheduler
from simulation.znodes import SharedZnodes

STARTED_MS = 1_700_000_000_000
"""The store's wall clock at the start of a run."""

DELIVERED_WITHIN_MS = 8_000
"""A delayed request arrives while its session lives (limits.ZOOKEEPER_SESSION_MS), or never."""

NETWORK = "the network"
"""The name in the trace for the delivery of such a request."""

SLOWER = 50
"""How many times longer a slow operation takes."""

_FILE_NAME = re.compile(rb"[a-z]+/\d{8}-[0-9a-f]{32}\.avro")


class _RaisedErrors(logging.Handler):
    """Raises a broken law that upkeep only logs (so as not to fail the call that it follows), which ends the run."""

    def emit(self, record: logging.LogRecord) -> None:
        raise LawBrokenError(f"{record.getMessage()}: {record.exc_info[1] if record.exc_info else ''}")


@dataclass(frozen=True, slots=True)
class Nature:
    """The kind of a world.

    Attributes:
        reads_are_atomic: whether a snapshot shows one moment (SQLite), or reads one znode after another (ZooKeeper).
        is_on_log: whether each process has the product's own store on a command log, whose reads are atomic.
        is_in_bucket: whether that log is one of objects in a bucket.
        latency_max_ms: of one operation.
        slow: the probability that an operation takes much longer.
        pause_max_ms: the longest pause of a process.
        jump_max_ms: how far the wall clock jumps at most.
    """

    reads_are_atomic: bool = True
    is_on_log: bool = False
    is_in_bucket: bool = False
    latency_max_ms: int = 0
    slow: float = 0.0
    pause_max_ms: int = 20_000
    jump_max_ms: int = 10_000


class Step(NamedTuple):
    """One operation of one process, in the trace."""

    time_ms: int
    process: str
    operation: str
    what: str | Sequence[Op]
    fault: Fault | None

    def __str__(self) -> str:
        what = self.what if isinstance(self.what, str) else _described(self.what)
        fault = f"{self.fault}: " if self.fault else ""
        return f"{self.time_ms:>9} {self.process:<16} {self.operation:<11} {fault}{what}"


def _described(ops: Sequence[Op]) -> str:
    return " ".join(f"{type(op).__name__.lower()} {op.path}" for op in ops if not isinstance(op, Check))


class World:
    """One run.

    Args:
        chance: the only source of randomness.
        steps_kept: how many of the last operations the trace keeps; all by default, which costs a tenth of a run.

    Attributes:
        faults: what goes wrong; can be set during a run.
        trace: every operation, or the last ones.
        history: what the clients asked for and were answered.
        counts: how often things happened.
        operations: how many so far.
        on_write: called with the operations of every multi right after it was applied; an exception ends the run.
        leaving, gone: topics whose deletion has begun, and those whose deletion was answered.
    """

    def __init__(self, chance: Random, nature: Nature, *, steps_kept: int | None = None) -> None:
        self.chance = chance
        self.nature = nature
        self.faults: Faults = NoFaults()
        self.scheduler = Scheduler()
        self.disk = Disk()
        self.trace: deque[Step] = deque(maxlen=steps_kept)
        self.history: list[Event] = []
        self.counts: Counter[str] = Counter()
        self.operations = 0
        self.on_write: Callable[[Sequence[Op]], None] = self.check_named_files
        self.leaving: set[str] = set()
        self.gone: set[str] = set()
        self._wall_offset_ms = self._latest_wall_ms = STARTED_MS
        self._processes: list[Process] = []
        self._recorders: dict[str, Recorder] = {}
        self._numbers: Counter[str] = Counter()
        self.znodes = self._new_znodes()

    def _new_znodes(self) -> SharedZnodes | SharedLog:
        if self.nature.is_in_bucket:
            return SharedBucket(self)
        return SharedLog(self) if self.nature.is_on_log else SharedZnodes(self)

    # Processes

    def process(self, name: str) -> Process:
        """A new process, with a unique name in the trace and in the history."""
        process = Process(self, f"{name}.{len(self._processes) + 1}")
        self._processes.append(process)
        return process

    def end(self) -> None:
        """End the run: nothing that a remaining strand still does has an effect."""
        for process in self._processes:
            process.is_dead = True

    def open(self, name: str) -> tuple[Process, Log]:
        """A new process with the log open."""
        process = self.process(name)
        return process, process.open()

    def recorder(self, process: Process) -> Recorder:
        """The recorder for the calls of a process."""
        if process.name not in self._recorders:
            self._recorders[process.name] = Recorder(process.name, self.history.append, now_ns=self._history_ns)
        return self._recorders[process.name]

    def _history_ns(self) -> int:
        """Virtual time, different for each event."""
        return self.scheduler.now_ms * 1_000_000 + len(self.history)

    def numbers(self, topic: str, count: int) -> int:
        """Reserve `count` consecutive record numbers of a topic, and return the first."""
        first = self._numbers[topic]
        self._numbers[topic] += count
        return first

    # Time and chance

    def wall_ms(self) -> int:
        """The store's wall clock."""
        return self._wall_offset_ms + self.scheduler.now_ms

    def latency_ms(self) -> int:
        """How long an operation takes."""
        nature = self.nature
        if not nature.latency_max_ms:
            return 0
        drawn = self.chance.random()
        latency_ms = int(drawn * 1000 % 1 * (nature.latency_max_ms + 1))
        return latency_ms * SLOWER if drawn < nature.slow else latency_ms

    def pause_ms(self) -> int:
        """How long a process is paused: mostly short, sometimes as long as possible."""
        longest = self.nature.pause_max_ms
        return self.chance.choice((longest // 100, longest // 10, longest))

    def jump(self) -> None:
        """Set the wall clock."""
        self._latest_wall_ms = max(self._latest_wall_ms, self.wall_ms())
        self._wall_offset_ms += self.chance.randint(-self.nature.jump_max_ms, self.nature.jump_max_ms)

    def set_clock_right(self) -> None:
        """Set the wall clock to at least the latest time that it ever showed."""
        self._wall_offset_ms += max(0, self._latest_wall_ms - self.wall_ms())

    @contextmanager
    def entered(self) -> Iterator[None]:
        """During the block, the product's random names come from this world, and errors are raised, not only logged."""
        logger, errors = logging.getLogger("oncelog"), _RaisedErrors(logging.ERROR)
        logger.addHandler(errors)
        try:
            with randomness.drawn_from(self.chance.randbytes):
                yield
        finally:
            logger.removeHandler(errors)

    # What happens

    def note(self, process: str, operation: str, what: str | Sequence[Op] = "", fault: Fault | None = None) -> None:
        """Add a step to the trace."""
        self.trace.append(Step(self.scheduler.now_ms, process, operation, what, fault))

    def trace_hash(self) -> str:
        """A hash of every step, every znode and every file; equal only for equal runs."""
        digest = hashlib.sha256()
        for step in self.trace:
            digest.update(str(step).encode())
        for name, data in sorted(self.disk.contents.items()):
            digest.update(name.encode() + data)
        return digest.hexdigest()

    def deliver_later(
        self, what: str, deliver: Callable[[], None], operation: Operation = Operation.ZNODE_WRITE
    ) -> None:
        """Let a request to write arrive some time later; nobody learns its outcome."""

        def arrive() -> None:
            self.note(NETWORK, operation, what)
            deliver()

        self.scheduler.start(arrive, self.chance.randrange(DELIVERED_WITHIN_MS))

    def check_named_files(self, ops: Sequence[Op]) -> None:
        """Invariant I12: every file that a partition's znode names is complete by then.

        Raises:
            LawBrokenError: a file is not.
        """
        for op in ops:
            if isinstance(op, (Create, Set)) and b".avro" in op.data and op.path.startswith(paths.TOPICS):
                for name in _FILE_NAME.findall(op.data):
                    if name.decode() not in self.disk.durable:
                        raise LawBrokenError(f"I12: {op.path} names {name.decode()}, which is not durable")
