"""Programs that the example starts. None of them, and nothing that they start, outlives it.

Each runs in a session of its own. A session is what a program and its descendants share, even when one of them makes
its own process group (Spark's Python workers do) or loses its parent (the JVM of a killed driver does): hence ending
every member of the session ends all of it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

PROC = Path("/proc")
LAST_LINES = 15


class ProgramFailedError(RuntimeError):
    """A program ended, or did not do what it was waited for. The text shows the end of what it printed."""


class Program:
    """A running program. Made by `Programs.start`."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log
        self._is_over = False

    @property
    def status(self) -> int | None:
        """Its exit status, negative for the signal that killed it; None while it runs."""
        return self._process.poll()

    @property
    def was_killed(self) -> bool:
        return self.status == -signal.SIGKILL

    def failed(self, problem: str) -> ProgramFailedError:
        """An error about this program."""
        last = self._log.read_text(errors="replace").splitlines()[-LAST_LINES:]
        return ProgramFailedError("\n".join([f"{self.name} {problem}; the end of {self._log}:", *last]))

    def printed(self, pattern: str) -> str | None:
        """The first group of a pattern in what it printed so far."""
        found = re.search(pattern, self._log.read_text(errors="replace"))
        return found[1] if found else None

    def processes(self, word: str) -> list[int]:
        """Living processes of its session whose command line has this word; none where there is no /proc."""
        return [member for member in _session_members(self._process.pid) if word in _words(member)]

    def ask_to_stop(self) -> None:
        """Send it SIGTERM, and leave the rest to it."""
        self._process.terminate()

    def end_session(self) -> None:
        """Kill the program and everything it started; returns when all of it is gone. Repeating it is harmless."""
        if self._is_over:  # the system may have given its id to somebody else's session
            return
        if self._process.returncode is None:
            self._process.kill()
            self._process.wait()
        if not PROC.is_dir():  # macOS
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        while members := list(_session_members(self._process.pid)):
            for member in members:
                with suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)
            time.sleep(0.005)
        self._is_over = True


class Programs:
    """Everything that is running; ends it on the way out, however one gets there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started: list[Program] = []

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str], log: Path) -> Program:
        """Start a program in the folder; what it prints goes to `log`."""
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=self._folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        program = Program(name, process, log)
        self._started.append(program)
        return program

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for program in self._started:
            program.end_session()


def _session_members(session: int) -> Iterator[int]:
    """Living processes of a session; none where there is no /proc."""
    if not PROC.is_dir():
        return
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):  # it has ended meanwhile
                state, _, _, found, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(found) == session and state not in "ZX":
                    yield int(entry.name)


def _words(process: int) -> list[str]:
    """The command line of a process."""
    try:
        return (PROC / str(process) / "cmdline").read_text(errors="replace").split("\0")
    except OSError:  # it has ended meanwhile
        return []
