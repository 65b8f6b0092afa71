"""Programs that tests run beside Spark's session, and kill. None of them, and nothing they start, outlives its test.

Each runs in a session of its own. A session is what a program and its descendants share, even where one of them makes
its own process group (Spark's Python workers do) or loses its parent (the JVM of a killed driver does).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.spark import spark_home

PATIENCE_S = 300
LAST_LINES = 40


class Program:
    """A running program; as a context manager it is killed at the end of the block, with all that it started.

    Args:
        command: that starts it.
        folder: where it runs, and its output goes.
        name: of the file of its output.
        environment: its variables; by default those of this process, and what leads to Spark.
    """

    def __init__(
        self, command: Sequence[str], folder: Path, name: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self.output = folder / f"{name}.out"
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment or {**os.environ, **spark_home.environment()},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def check_runs(self) -> None:
        """Raise with the end of its output when the program has ended."""
        assert self.is_running, f"ended with {self._process.returncode}:\n{self.last_lines()}"

    def wait(self) -> int:
        """Wait for its end; returns the exit status, negative for the signal that killed it."""
        return self._process.wait(PATIENCE_S)

    def wait_killed(self) -> None:
        """Wait until it is killed, and until nothing of it is left."""
        status = self.wait()
        self.kill()
        assert status == -signal.SIGKILL, f"ended with {status}:\n{self.last_lines()}"

    def send(self, what: signal.Signals) -> None:
        self._process.send_signal(what)

    def kill(self) -> None:
        """Kill it and what it started; returns when all of it is gone."""
        self._process.kill()
        self._process.wait()
        while members := list(_members(self._process.pid)):
            for member in members:
                with suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)
            time.sleep(0.01)

    def last_lines(self) -> str:
        return "\n".join(self.output.read_text(errors="replace").splitlines()[-LAST_LINES:])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def start_program(
    module: str, settings: Mapping[str, Any], folder: Path, name: str, variables: Mapping[str, str] | None = None
) -> Program:
    """Start a module with settings that JSON can carry, in a file, as secrets are; its output goes into `folder`.

    Args:
        module: by its full name.
        settings: its only argument is the file that holds them.
        folder: of its files.
        name: of its files.
        variables: of its environment, in place of those it has by default.
    """
    file = folder / f"{name}.json"
    file.write_text(json.dumps(settings))
    environment = {**os.environ, **spark_home.environment(), **variables} if variables else None
    return Program([sys.executable, "-m", module, str(file)], folder, name, environment)


def start_job(
    module: str, settings: Mapping[str, Any], folder: Path, name: str, variables: Mapping[str, str] | None = None
) -> Program:
    """The same for a module of `tests.support.spark.jobs`."""
    return start_program(f"tests.support.spark.jobs.{module}", settings, folder, name, variables)


def _members(session: int) -> Iterator[int]:
    """Living processes of a session. Where there is no /proc (macOS), those of the leader's group are killed."""
    if not Path("/proc").is_dir():
        with suppress(ProcessLookupError):
            os.killpg(session, signal.SIGKILL)
        return
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):  # it has ended meanwhile
                state, _, _, found, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(found) == session and state not in "ZX":
                    yield int(entry.name)
