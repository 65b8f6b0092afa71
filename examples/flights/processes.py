"""Programs that the example starts. None of them, and nothing that they start, outlives it.

Each runs in a session of its own. A session is what a program and its descendants share, even when one of them makes
its own process group (Spark's Python workers do) or loses its parent (the JVM of a killed driver does): hence ending
every member of the session ends all of it.
"""

from __future__ import annotations

import os
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

    def ask_to_stop(self) -> None:
        """Send it SIGTERM, and leave the rest to it."""
        self._process.terminate()

    def end_session(self) -> None:
        """Kill the program and everything it started; returns when all of it is gone."""
        if self._process.returncode is None:
            self._process.kill()
            self._process.wait()
        while members := list(_session_members(self._process.pid)):
            for member in members:
                with suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)
            time.sleep(0.005)


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
    """Living processes of a session. Where there is no /proc (macOS), the members of the leader's group."""
    if not PROC.is_dir():
        with suppress(ProcessLookupError):
            os.killpg(session, signal.SIGKILL)
        return
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):  # it has ended meanwhile
                state, _, _, found, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(found) == session and state not in "ZX":
                    yield int(entry.name)
