"""The command line as its users have it: in this process, in one of its own, and on a terminal."""

from __future__ import annotations

import errno
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from oncelog.cli import main

ANSI = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Shell:
    """The command in this process, on the log of one folder."""

    folder: Path

    def __call__(self, *arguments: str, **environment: str | None) -> Result:
        """Run a command; whatever happens, no traceback is shown and JSON stands alone."""
        done = CliRunner().invoke(main, ["--path", str(self.folder), *arguments], env=environment)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        assert "Traceback" not in done.output
        return done

    def json(self, *arguments: str, exit_code: int = 0) -> dict[str, Any]:
        done = self(*arguments, "--json")
        assert (done.exit_code, done.stderr) == (exit_code, "")
        document = json.loads(done.stdout)
        assert isinstance(document, dict)
        return document

    def lines(self, *arguments: str, exit_code: int = 0) -> list[str]:
        done = self(*arguments)
        assert (done.exit_code, done.stderr) == (exit_code, "")
        return done.stdout.splitlines()

    def refused(self, *arguments: str, exit_code: int, **environment: str | None) -> str:
        """The one line on stderr of a command that fails."""
        done = self(*arguments, **environment)
        assert (done.exit_code, done.stdout) == (exit_code, "")
        (line,) = done.stderr.splitlines()
        assert line.startswith("oncelog: ")
        return line


COMMAND = ("-m", "oncelog")
"""What Python runs as the command."""


def started_command(*arguments: str | Path, program: Sequence[str] = COMMAND, **settings: Any) -> subprocess.Popen[str]:
    """The command, or another program of Python's, in a process of its own."""
    command = [sys.executable, *program, *map(str, arguments)]
    return subprocess.Popen(command, text=True, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **settings})


@contextmanager
def serving(*arguments: str | Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A command that serves, and the URL that it says; killed at the end of the block."""
    process = started_command(*arguments)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("serving http"), (line, process.stderr.read() if process.stderr else "")
        yield process, line.removeprefix("serving ").strip()
    finally:
        process.kill()
        process.communicate(timeout=60)


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    stdout, stderr = process.communicate(timeout=60)
    return process.returncode, stdout, stderr


def on_terminal(*arguments: str | Path, program: Sequence[str] = COMMAND, stream: str = "stdout") -> tuple[str, str]:
    """What a command shows on a terminal of 80 columns, and what it writes to its other stream."""
    controller, terminal = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm-256color"}
    process = started_command(*arguments, program=program, env=environment, **{stream: terminal})
    os.close(terminal)
    shown = b""
    try:
        while chunk := os.read(controller, 65536):
            shown += chunk
    except OSError as error:
        if error.errno != errno.EIO:  # how Linux says that the other side is closed
            raise
    os.close(controller)
    _, stdout, stderr = finished(process)
    return shown.decode().replace("\r\n", "\n"), stderr or stdout or ""
