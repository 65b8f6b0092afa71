"""Processes of the soak. None of them, and nothing that they start, outlives it; only their own ids are signalled.

Each program is a session of its own, which its descendants share even where one makes a process group of its own
(Spark's Python workers do) or loses its parent (the JVM of a killed driver does).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROC = Path("/proc")
LAST_LINES = 25
ENDED_WITHIN_S = 20
NICER = 5
"""Forked programs leave the processors to Spark, which starts slowest."""


class Fork:
    """A forked process, as far as `subprocess.Popen` is needed here. The process that forks has no threads."""

    def __init__(self, main: Callable[[], object], output: Path) -> None:
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            try:
                _become_a_program(output)
                main()
            except BaseException:  # noqa: BLE001 - whatever it is, this process ends here
                traceback.print_exc()
                os._exit(1)
            os._exit(0)

    def poll(self) -> int | None:
        """Its exit status, if it has ended."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode

    def kill(self) -> None:
        """Kill it, if it was not waited for."""
        if self.returncode is None:
            send(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Wait for its end."""
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode


def _become_a_program(output: Path) -> None:
    """Leave what belongs to the process that forked this one."""
    os.setsid()
    os.nice(NICER)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, now in ((0, nothing), (1, file), (2, file)):
        os.dup2(now, descriptor)
    os.closerange(3, 1024)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)


class Program:
    """A running program with its session.

    Attributes:
        output: what it prints.
        is_over: whether it was killed.
    """

    def __init__(self, process: subprocess.Popen[bytes] | Fork, output: Path) -> None:
        self.output = output
        self._process = process
        self.is_over = False

    @classmethod
    def start(cls, command: Sequence[str], output: Path, environment: Mapping[str, str]) -> Program:
        """Start Python with a command line."""
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        with output.open("ab") as file:
            process = subprocess.Popen(
                [sys.executable, *command],
                cwd=output.parent,
                env={**os.environ, "PYTHONPATH": path, **environment},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return cls(process, output)

    @classmethod
    def fork(cls, main: Callable[[], object], output: Path) -> Program:
        """Run a function in a process of its own, which need not import what is imported here: it starts at once."""
        return cls(Fork(main, output), output)

    @property
    def status(self) -> int | None:
        """Its exit status, negative for the signal that killed it; None while it runs."""
        return self._process.poll()

    def members(self, word: str = "") -> list[int]:
        """The living processes of its session that have a word in their command line."""
        if self.is_over:
            return []
        return [one for one, _ in session_members(self._process.pid) if word in command_of(one)]

    def children_of(self, word: str) -> list[int]:
        """Those of them whose parent has the word in its command line too: workers that a daemon forked."""
        found = {one: parent for one, parent in session_members(self._process.pid) if word in command_of(one)}
        return [one for one, parent in found.items() if parent in found]

    def kill(self) -> None:
        """Kill it and all that it started; returns when all of it is gone. Repeating it is harmless."""
        if self.is_over:  # the system may have given its id to somebody else
            return
        if self._process.returncode is None:
            self._process.kill()
            self._process.wait()
        deadline_s = time.monotonic() + ENDED_WITHIN_S
        while members := list(session_members(self._process.pid)):
            for member, _ in members:
                send(member, signal.SIGKILL)
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"processes that cannot be killed: {members}")
            time.sleep(0.01)
        self.is_over = True

    def last_lines(self) -> str:
        """The end of what it printed."""
        return "\n".join(self.output.read_text(errors="replace").splitlines()[-LAST_LINES:])


def send(process: int, number: signal.Signals) -> None:
    """Send a signal to a process that may have ended meanwhile."""
    with suppress(ProcessLookupError):
        os.kill(process, number)


def session_members(session: int) -> Iterator[tuple[int, int]]:
    """The living processes of a session, with their parents."""
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):  # it has ended meanwhile
                state, parent, _, found, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(found) == session and state not in "ZX":
                    yield int(entry.name), int(parent)


def command_of(process: int) -> str:
    """The command line of a process; empty if it has ended."""
    try:
        return (PROC / str(process) / "cmdline").read_text(errors="replace")
    except OSError:
        return ""
