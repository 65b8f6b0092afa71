"""A simulated process, with its own open log; it may crash at any operation.

Processes share only the znodes and the disk. All operations of a process go through `Process.ask`, where it waits for
its turn and where faults happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from oncelog import runtime
from oncelog.ports import EndsWithProcess, Op
from oncelog.runtime import Log
from simulation.faults import Fault, Operation
from simulation.files import ProcessFiles
from simulation.scheduler import StrandLock

if TYPE_CHECKING:
    from simulation.command_log import JudgedStore
    from simulation.world import World
    from simulation.znodes import ProcessStore


class Crashed(BaseException):
    """The process is dead. Only the simulator catches this."""


class Process:
    """One process.

    Attributes:
        name: for the trace.
        world: what it shares with the others.
        is_dead: whether it crashed; then nothing that it still does has an effect.
        unknown_outcomes: how many of its writes were not answered so far.
        faults: how many of its operations had one so far.
        files: its access to the disk.
        on_pause: called when the process is about to be paused.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.is_dead = False
        self.unknown_outcomes = 0
        self.faults = 0
        self.on_pause: Callable[[], None] = lambda: None
        self._stopped_until_ms = 0
        self.files = ProcessFiles(self, world.disk)
        self._store: ProcessStore | JudgedStore | None = None

    def open(self) -> Log:
        """Open the log in this process."""
        return runtime.open_with("/simulated", "memory", self.store(), self.files, self, background=self)

    def store(self) -> ProcessStore | JudgedStore:
        """This process's znodes."""
        if self._store is None:
            self._store = self.world.znodes.opened_by(self)
        return self._store

    def start(self, body: Callable[[], None], delay_ms: int = 0) -> None:
        """Run `body` as a strand of this process. A crash of the process does not fail the run."""

        def run() -> None:
            try:
                self._go_on()
                body()
            except Crashed:
                return

        self.world.scheduler.start(run, delay_ms)

    def crash(self) -> None:
        """Crash: every strand of the process ends where it is, and unfinished files are torn."""
        self.is_dead = True
        self.world.note(self.name, "dies")
        self.world.disk.abandon(self, self.world.chance)

    def pause(self, duration_ms: int) -> None:
        """Pause all strands of the process from now on, then continue as if nothing had happened."""
        self._stopped_until_ms = max(self._stopped_until_ms, self.world.scheduler.now_ms + duration_ms)

    # Operations

    def ask(self, operation: Operation, what: str | Sequence[Op]) -> Fault | None:
        """Wait for the turn of an operation. Returns a fault that the caller has to simulate, if there is one.

        Raises:
            Crashed: the process has crashed.
        """
        if self.is_dead:
            raise Crashed
        world = self.world
        world.operations += 1
        self.wait(world.latency_ms())
        fault = world.faults.of(operation)
        world.note(self.name, operation, what, fault)
        if fault is None:
            return None
        self.faults += 1
        if fault is Fault.CRASH_BEFORE:
            self.crash()
            raise Crashed
        if fault is Fault.PAUSE:
            duration_ms = world.pause_ms()
            self.pause(duration_ms)
            self.on_pause()
            self.wait(duration_ms)
            return None
        if fault is Fault.CLOCK_JUMP:
            world.jump()
            return None
        return fault

    def die_after(self) -> None:
        """Simulate `Fault.CRASH_AFTER`, after the operation was done."""
        self.crash()
        raise Crashed

    def wait(self, duration_ms: int) -> None:
        """Let the others run."""
        self.world.scheduler.wait(duration_ms)
        self._go_on()

    def _go_on(self) -> None:
        while not self.is_dead and self.world.scheduler.now_ms < self._stopped_until_ms:
            self.world.scheduler.wait(self._stopped_until_ms - self.world.scheduler.now_ms)
        if self.is_dead:
            raise Crashed

    # `ports.Clock` and `ports.Background`

    def now_ms(self) -> int:
        return self.world.wall_ms()

    def monotonic_ms(self) -> int:
        return self.world.scheduler.now_ms

    def sleep_ms(self, duration_ms: int) -> None:
        if self.is_dead:
            raise Crashed
        self.wait(duration_ms)

    @contextmanager
    def every_ms(self, pause_ms: int, action: Callable[[], bool], *, name: str) -> Iterator[None]:
        is_over = False

        def run() -> None:
            while True:
                self.wait(pause_ms)
                if is_over or not action():
                    return

        self.start(run)
        try:
            yield
        finally:
            is_over = True

    def later(self, delay_ms: int, action: Callable[[], int | None], *, name: str) -> None:
        def run() -> None:
            pause_ms: int | None = delay_ms
            while pause_ms is not None:
                self.wait(pause_ms)
                pause_ms = action()

        self.start(run)

    def lock(self) -> StrandLock:
        return StrandLock(self.sleep_ms)

    def at_exit(self, client: EndsWithProcess) -> None:
        """Do nothing: a simulated process only ends without closing its clients if it was killed."""
