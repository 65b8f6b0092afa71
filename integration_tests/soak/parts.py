"""What takes part in a copy and can be killed or paused: programs, what Spark started, and servers.

A part has *recovered* from its kill when it worked again: committed a transaction or batch, read a
record, served, or was replaced.
"""

from __future__ import annotations

import json
import random
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from integration_tests.soak import checkpoints, program
from integration_tests.soak.programs import Program, send
from integration_tests.soak.stacks import Server

EXECUTOR = "CoarseGrainedExecutorBackend"
DAEMON = "pyspark.daemon"
LOOKS_EVERY_S = 0.3
BEGINS_EVERY_S = 1.0
"""A program that ends by itself, as while its disk is full, is started again so often."""


@dataclass
class Tally:
    """What happened to a part.

    Attributes:
        kills, pauses: by us.
        own_ends: how often it ended by itself, with an error.
        recoveries_s: how long each kill kept it from working.
    """

    kills: int = 0
    pauses: int = 0
    own_ends: int = 0
    recoveries_s: list[float] = field(default_factory=list)


class Part(ABC):
    """Something that can be killed and paused.

    Args:
        name: for people.
        weight: how often it is chosen, beside others.
        rest_s: it is left alone for so long after it recovered.
    """

    def __init__(self, name: str, weight: float, rest_s: float) -> None:
        self.name = name
        self.weight = weight
        self.tally = Tally()
        self._rest_s = rest_s
        self._made_s = time.monotonic()
        self._killed_s: float | None = None
        self._worked_s: float | None = None
        self._is_paused = False
        self._looked_s = 0.0

    @property
    def is_ready(self) -> bool:
        """Whether something may be done to it now."""
        return self._worked_s is not None and not self._is_paused and time.monotonic() > self._worked_s + self._rest_s

    @property
    def waiting_s(self) -> float:
        """For how long it has not worked since it was made or killed."""
        if self._worked_s is not None or self._is_paused:
            return 0.0
        return time.monotonic() - (self._killed_s or self._made_s)

    def kill(self, chance: random.Random) -> bool:
        """Kill it without any warning; returns whether there was anything to kill."""
        if not self._kill(chance):
            return False
        self.tally.kills += 1
        self._killed_s, self._worked_s = time.monotonic(), None
        return True

    def pause(self) -> bool:
        """Stop it where it is."""
        if not self._pause():
            return False
        self.tally.pauses += 1
        self._is_paused = True
        return True

    def resume(self) -> None:
        """Let it go on."""
        self._resume()
        self._is_paused = False

    def tend(self) -> None:
        """Look how it is, and start it again if it has ended."""
        self._tend()
        if self._worked_s is None and not self._is_paused and time.monotonic() > self._looked_s + LOOKS_EVERY_S:
            self._looked_s = time.monotonic()
            if self._has_worked():
                self._worked_s = time.monotonic()
                if self._killed_s is not None:
                    self.tally.recoveries_s.append(self._worked_s - self._killed_s)
                self._killed_s = None

    def _tend(self) -> None:  # noqa: B027 - most parts have nothing to do
        """Start it again, if that is due."""

    @abstractmethod
    def _has_worked(self) -> bool: ...

    @abstractmethod
    def _kill(self, chance: random.Random) -> bool: ...

    @abstractmethod
    def _pause(self) -> bool: ...

    @abstractmethod
    def _resume(self) -> None: ...


class ProgramPart(Part):
    """A program that is started again whenever it ends.

    Args:
        name, weight, rest_s: of the part.
        role: of `integration_tests.soak.program`, or None for the Spark driver.
        settings: of the program.
        folder: of the run.
        lives: numbers for lives.
    """

    def __init__(
        self,
        name: str,
        weight: float,
        rest_s: float,
        *,
        role: str | None,
        settings: Mapping[str, Any],
        folder: Path,
        lives: Iterator[int],
        environment: Mapping[str, str],
    ) -> None:
        super().__init__(name, weight, rest_s)
        self._role = role
        self._settings = dict(settings)
        self._folder = folder
        self._lives = lives
        self._environment = environment
        self._stopped: list[int] = []
        self._begun_with = 0
        self.records_before = 0
        self.stop_file = folder / f"{name}.stop"
        self.start()

    def start(self) -> None:
        """Begin another life."""
        life = next(self._lives)
        self.progress = self._folder / f"{self.name}.{life}.progress"
        settings = {
            **self._settings,
            "name": self.name,
            "life": life,
            "folder": str(self._folder),
            "progress": str(self.progress),
            "stop": str(self.stop_file),
            "history": str(self._folder / "history" / f"{self.name}.{life}.jsonl"),
        }
        self._begun_with, self._begun_s = self.batches, time.monotonic()
        output, role = self._folder / f"{self.name}.out", self._role
        module = ["program", role] if role else ["queries"]
        if role and not self._environment:
            self.program = Program.fork(lambda: program.main(role, settings), output)
        else:
            command = ["-m", f"integration_tests.soak.{module[0]}", *module[1:], json.dumps(settings)]
            self.program = Program.start(command, output, self._environment)

    @property
    def batches(self) -> int:
        """How many batches the driver's queries have committed; 0 for other programs."""
        return sum(checkpoints.progress(path)[1] for path in self.checkpoints.values())

    @property
    def checkpoints(self) -> dict[str, Path]:
        """Of the driver's queries."""
        return {query: self._folder / "checkpoints" / query for query in self._settings.get("queries", [])}

    @property
    def records(self) -> int:
        """How many records its lives have worked on."""
        return self.records_before + _number_in(self.progress)

    @property
    def is_done(self) -> bool:
        """Whether it ended as it was asked to."""
        return self.stop_file.exists() and self.program.status == 0

    def end(self) -> None:
        """Kill it, and do not start it again."""
        self.program.kill()

    def _tend(self) -> None:
        if self.program.status is None or self.is_done:
            return
        if not self.program.is_over:  # nobody killed it
            if time.monotonic() < self._begun_s + BEGINS_EVERY_S:
                return
            self.tally.own_ends += 1
            self._killed_s, self._worked_s = self._killed_s or time.monotonic(), None
        self.program.kill()
        self.records_before = self.records
        self.start()

    def _has_worked(self) -> bool:
        return self.progress.exists() if self._role else self.batches > self._begun_with

    def _kill(self, chance: random.Random) -> bool:
        self.program.kill()
        return True

    def _pause(self) -> bool:
        self._stopped = self.program.members()
        for process in self._stopped:
            send(process, signal.SIGSTOP)
        return bool(self._stopped)

    def _resume(self) -> None:
        for process in self._stopped:
            send(process, signal.SIGCONT)


class MemberPart(Part):
    """One of the processes that the Spark driver started: an executor or a Python worker.

    Args:
        name, weight, rest_s: of the part.
        driver: that started it.
        find: the processes of this kind.
    """

    def __init__(
        self, name: str, weight: float, rest_s: float, driver: ProgramPart, find: Callable[[Program], Sequence[int]]
    ) -> None:
        super().__init__(name, weight, rest_s)
        self._driver = driver
        self._find = find
        self._known: set[int] = set()
        self._stopped = 0

    def _has_worked(self) -> bool:
        """Whether another one does its work; what Spark makes of the loss shows in the driver."""
        return bool(set(self._find(self._driver.program)) - self._known)

    def _kill(self, chance: random.Random) -> bool:
        found = self._find(self._driver.program)
        if found:
            self._known = set(found)
            send(chance.choice(found), signal.SIGKILL)
        return bool(found)

    def _pause(self) -> bool:
        found = self._find(self._driver.program)
        if found:
            self._stopped = found[-1]
            send(self._stopped, signal.SIGSTOP)
        return bool(found)

    def _resume(self) -> None:
        if self._stopped in self._driver.program.members():  # the id may be another process's by now
            send(self._stopped, signal.SIGCONT)


def executors(program: Program) -> Sequence[int]:
    """Spark's executors."""
    return program.members(EXECUTOR)


def workers(program: Program) -> Sequence[int]:
    """Spark's Python workers, and their daemon now and then: it is one of those found."""
    return program.members(DAEMON)


class ServerPart(Part):
    """A server that is started again after a moment.

    Args:
        name, weight, rest_s: of the part.
        server: it is.
        serves: whether it serves.
        others: servers of which it is one; only one of them is away at a time.
    """

    AWAY_S = 0.5

    def __init__(
        self,
        name: str,
        weight: float,
        rest_s: float,
        server: Server,
        serves: Callable[[Server], bool],
        others: list[ServerPart],
    ) -> None:
        super().__init__(name, weight, rest_s)
        self._server = server
        self._serves = serves
        self._others = others
        self._is_started = True
        others.append(self)

    @property
    def is_ready(self) -> bool:
        return super().is_ready and all(other._worked_s is not None and not other._is_paused for other in self._others)

    def _has_worked(self) -> bool:
        return self._is_started and self._serves(self._server)

    def _kill(self, chance: random.Random) -> bool:
        self._server.stop()
        self._is_started = False
        return True

    def _pause(self) -> bool:
        self._server.pause()
        return True

    def _resume(self) -> None:
        self._server.resume()

    def _tend(self) -> None:
        if not self._is_started and self._killed_s is not None and time.monotonic() > self._killed_s + self.AWAY_S:
            self._server.start()
            self._is_started = True


def _number_in(path: Path) -> int:
    """What a program last told; 0 where it told nothing."""
    try:
        return int(path.read_text())
    except FileNotFoundError:
        return 0
