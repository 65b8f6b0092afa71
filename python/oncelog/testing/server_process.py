"""What the servers of `oncelog.testing` have in common: each is one process, which listens on 127.0.0.1."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from oncelog.errors import UsageError
from oncelog.habits import Guided
from oncelog.signatures import checked

STARTED_WITHIN_S = 60

_PAUSE_S = 0.02
_LAST_CHARACTERS = 3000


class ServerFailedError(RuntimeError):
    """A server ended by itself, or does not do what it should. The message contains the end of its output."""


class ServerProcess(Guided):
    """A server process. Ctrl-C in the terminal does not end it; call `stop`.

    Args:
        folder: for its configuration, data and output.
    """

    kind = "server"
    """What messages call it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Id of the running process."""
        return self._running().pid

    def start(self) -> None:
        """Start the process without waiting until it answers."""
        raise NotImplementedError

    def is_serving(self) -> bool:
        """Whether the server answers clients."""
        raise NotImplementedError

    def wait_until_serving(self) -> None:
        """Wait until the server answers clients."""
        deadline_s = time.monotonic() + STARTED_WITHIN_S
        while not self.is_serving():
            self.check_runs()
            if time.monotonic() > deadline_s:
                raise self._problem(f"the {self.kind} does not serve")
            time.sleep(_PAUSE_S)

    def check_runs(self) -> None:
        """Raise ServerFailedError with the end of the output if the process has ended."""
        if self._running().poll() is not None:
            raise self._problem(f"the {self.kind} ended by itself")

    def pause(self) -> None:
        """Pause the process (SIGSTOP); all of its threads have stopped when this returns."""
        self._running().send_signal(signal.SIGSTOP)
        os.waitpid(self._running().pid, os.WUNTRACED)

    def resume(self) -> None:
        """Continue a paused process."""
        self._running().send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Kill the process without warning, and wait for its end; does nothing if it is not running."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        """Kill the process, start it again with its data, and wait until it answers."""
        self.stop()
        self.start()
        self.wait_until_serving()

    @contextmanager
    def running(self) -> Iterator[Self]:
        """The server, which runs and serves during the block."""
        try:
            self.start()
            self.wait_until_serving()
            yield self
        finally:
            self.stop()

    def _launch(self, command: Sequence[str], **options: Any) -> None:
        """Start the process; `options` are further ones of `subprocess.Popen`."""
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **{"cwd": self.folder, **options},
            )

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise self._problem(f"the {self.kind} was not started, or was stopped")
        return self._process

    @property
    def _output(self) -> Path:
        return self.folder / "server.out"

    def _problem(self, what: str) -> ServerFailedError:
        last = self._output.read_text(errors="replace")[-_LAST_CHARACTERS:] if self._output.exists() else ""
        return ServerFailedError(f"{what}; the end of {self._output}:\n{last}")


@checked
def free_ports(count: int) -> list[int]:
    """Ports that are free now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listening.getsockname()[1] for listening in sockets]
    for listening in sockets:
        listening.close()
    return ports


def java_for(what: str) -> str:
    """The Java that runs a server.

    Raises:
        UsageError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(Path(home, "bin", "java") if home else "java")
    if found is None:
        raise UsageError(f"{what} needs Java: install a JRE of version 17 or newer, or set JAVA_HOME to one")
    return str(found)
