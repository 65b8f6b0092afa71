"""One lap: a fresh log on one stack, a copy under faults, then everything comes to its end and is judged."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from integration_tests.soak import checkpoints
from integration_tests.soak.checkpoints import SourceLog
from integration_tests.soak.disks import Disk
from integration_tests.soak.parts import MemberPart, Part, ProgramPart, ServerPart, executors, workers
from integration_tests.soak.records import SOURCE
from integration_tests.soak.stacks import COPIER, STACKS
from oncelog.testing import history
from oncelog.testing.checker import Report, judge

EACH = {"sqlite": 10_000, "zookeeper": 10_000, "kafka": 5_000}
"""Records of one partition in a transaction of the feeder."""

STUCK_S = 240
"""What was killed and did not work again for so long is stuck; so is what does not come to its end."""

BETWEEN_FAULTS_S = (0.1, 0.7)
PAUSED_S = (0.2, 4.0)
PAUSES = 0.15
"""So many of the faults are pauses."""

FAULTS_AT_LEAST_S = 20
DISK_FULL_S = 2.0
DISK_FULL_EVERY_S = 30.0
TICK_S = 0.05
HISTORY_MB = 1e6


class StuckError(Exception):
    """The copy does not go on. The text is the diagnosis."""


@dataclass
class Result:
    """What a lap came to."""

    stack: str
    disk: str
    seconds: float = 0.0
    fed: int = 0
    copied: int = 0
    transactions: int = 0
    aborted: int = 0
    unknown: int = 0
    batches: int = 0
    kills: dict[str, int] = field(default_factory=dict)
    pauses: dict[str, int] = field(default_factory=dict)
    own_ends: dict[str, int] = field(default_factory=dict)
    disk_full: int = 0
    recoveries_s: list[float] = field(default_factory=list)
    faults_s: float = 0.0
    judged_s: float = 0.0
    stuck: str = ""
    report: Report = field(default_factory=Report)

    @property
    def is_good(self) -> bool:
        return not self.stuck and self.report.is_clean and self.copied > 0

    def to_json(self) -> dict[str, Any]:
        found = {
            name: getattr(self, name) for name in self.__dataclass_fields__ if name not in {"recoveries_s", "report"}
        }
        return {**found, **self.recoveries(), "report": self.report.to_json()}

    def recoveries(self) -> dict[str, float]:
        """How long parts took to work again."""
        times = self.recoveries_s or [0.0]
        return {
            "recoveries": len(self.recoveries_s),
            "median_s": round(median(times), 2),
            "max_s": round(max(times), 2),
        }


class Lap:
    """A run on one stack.

    Args:
        stack: its name.
        folder: for all that it leaves; must not exist.
        seconds: how long, the end not included.
        chance: chooses the faults.
        rate: records a second that are fed.
        show: called with what is going on.
    """

    def __init__(
        self, stack: str, folder: Path, seconds: float, chance: random.Random, rate: int, show: Callable[[str], None]
    ) -> None:
        self._name = stack
        self._folder = folder
        self._seconds = seconds
        self._chance = chance
        self._rate = rate
        self._show = show
        self._lives = itertools.count(1)
        self._parts: list[Part] = []
        self._all_parts: list[Part] = []
        self._resumes: list[tuple[float, Part]] = []
        self._disk_freed_s: float | None = None
        self._shown_s = 0.0
        self._programs = ExitStack()

    def run(self) -> Result:
        """Run it; what it started is gone when this returns or raises."""
        began_s = time.monotonic()
        (self._folder / "history").mkdir(parents=True)
        disk = Disk(self._folder / "disk")
        self._result = Result(self._name, disk.kind)
        with ExitStack() as stack:
            stack.callback(disk.close)
            self._show(f"{self._name}: starting")
            self._stack = stack.enter_context(STACKS[self._name](self._folder, disk))
            stack.enter_context(self._programs)
            try:
                self._start()
                self._disturb(began_s + self._seconds)
                self._finish()
            except StuckError as error:
                self._result.stuck = str(error)
            self._count()
        if not self._result.stuck:
            self._judge()
        self._result.seconds = time.monotonic() - began_s
        return self._result

    # Parts ------------------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        copies = self._stack.copies
        asks_groups = self._name != "kafka"  # there a commit is answered before its offsets can be read
        reading = {"topics": [SOURCE, *copies], "groups": copies, "is_final": False, "asks_groups": asks_groups}
        self._feeder = self._program("feeder", 3, 1, "feeder", rate=self._rate, each=EACH[self._name])
        self._copier = self._program(COPIER, 3, 1, "copier")
        self._readers = [self._program("reader", 1, 2, "reader", **reading)]
        driver = {"queries": list(self._stack.queries), "master": self._stack.master}
        self._driver = self._program("driver", 2, 6, None, **driver)
        if self._name != "kafka":  # there tasks run no Python
            self._add(MemberPart("python worker", 3, 2, self._driver, workers))
        if self._name == "zookeeper":
            self._add(MemberPart("executor", 1, 8, self._driver, executors))
        servers: list[ServerPart] = []
        for name, server in self._stack.servers.items():
            weight, rest_s = (1, 2) if len(self._stack.servers) > 1 else (1, 8)
            self._add(ServerPart(name, weight, rest_s, server, self._stack.serves, servers))

    def _program(self, name: str, weight: float, rest_s: float, role: str | None, **more: Any) -> ProgramPart:
        settings = {**self._stack.settings, **more}
        part = ProgramPart(
            name,
            weight,
            rest_s,
            role=role,
            settings=settings,
            folder=self._folder,
            lives=self._lives,
            environment=self._stack.disk.environment,
        )
        self._programs.callback(part.end)
        self._add(part)
        return part

    def _add(self, part: Part) -> None:
        self._parts.append(part)
        self._all_parts.append(part)

    # Faults -----------------------------------------------------------------------------------------------------------

    def _disturb(self, until_s: float) -> None:
        """Choose faults until it is time to end."""
        began_s = time.monotonic()
        until_s = max(until_s, began_s + FAULTS_AT_LEAST_S)
        fault_s, full_s = began_s, began_s + DISK_FULL_EVERY_S / 3
        while time.monotonic() < until_s:
            self._tick()
            if time.monotonic() > full_s and self._disk_freed_s is None:
                full_s = time.monotonic() + DISK_FULL_EVERY_S
                self._stack.disk.fill()
                self._disk_freed_s = time.monotonic() + DISK_FULL_S
                self._result.disk_full += 1
            if time.monotonic() > fault_s:
                self._fault()
                fault_s = time.monotonic() + self._chance.uniform(*BETWEEN_FAULTS_S)
        self._result.faults_s = time.monotonic() - began_s
        for _, part in self._resumes:
            part.resume()
        self._resumes.clear()
        self._free_disk()

    def _fault(self) -> None:
        ready = [part for part in self._parts if part.is_ready]
        if not ready:
            return
        (part,) = self._chance.choices(ready, [part.weight for part in ready])
        if self._chance.random() >= PAUSES:
            part.kill(self._chance)
        elif part.pause():
            self._resumes.append((time.monotonic() + self._chance.uniform(*PAUSED_S), part))

    def _free_disk(self) -> None:
        self._stack.disk.free()
        self._disk_freed_s = None

    def _tick(self) -> None:
        """Look after everything once."""
        now_s = time.monotonic()
        if self._disk_freed_s is not None and now_s > self._disk_freed_s:
            self._free_disk()
        for due in [due for due in self._resumes if due[0] < now_s]:
            due[1].resume()
            self._resumes.remove(due)
        for part in self._parts:
            part.tend()
            if part.waiting_s > STUCK_S:
                raise StuckError(self._diagnosis(f"{part.name} does not work again"))
        if now_s > self._shown_s + 1:
            self._shown_s = now_s
            self._show(self._line())
        time.sleep(TICK_S)

    # The end ----------------------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        """Let everybody come to the end, one after the other, and read everything."""
        self._show(f"{self._name}: the copy comes to its end")
        self._feeder.stop_file.touch()
        self._wait(lambda: self._feeder.is_done, "let the feeder end")
        self._settle()
        self._read_all("final-source", [SOURCE], [])
        source = self._source()
        self._copier.stop_file.touch()
        self._wait(lambda: self._copier.is_done, "let the copier end")
        paths = self._driver.checkpoints.values()
        self._wait(lambda: all(checkpoints.is_done(path, source.ends()) for path in paths), "let the queries catch up")
        self._parts.remove(self._driver)
        self._parts = [part for part in self._parts if not isinstance(part, MemberPart)]
        self._driver.end()
        for reader in self._readers:
            reader.stop_file.touch()
        self._wait(lambda: all(reader.is_done for reader in self._readers), "let the readers end")
        self._settle()
        self._read_all("final", self._stack.copies, self._stack.copies)
        with history.writing(self._folder / "history" / "checkpoints.jsonl") as keep:
            for query, path in self._driver.checkpoints.items():
                self._result.batches += checkpoints.write_history(query, path, source, keep)
        self._result.fed = source.count

    def _settle(self) -> None:
        """Settle, with every server up: the last fault may have killed one."""
        servers = [part for part in self._parts if isinstance(part, ServerPart)]
        self._wait(lambda: not any(server.waiting_s for server in servers), "let the servers serve again")
        self._stack.settle()

    def _read_all(self, name: str, topics: Sequence[str], groups: Sequence[str]) -> None:
        reading = {"topics": list(topics), "groups": list(groups), "is_final": True, "asks_groups": True}
        part = self._program(name, 0, 0, "reader", **reading)
        part.stop_file.touch()
        self._wait(lambda: part.is_done, f"read everything ({name})")
        self._parts.remove(part)

    def _source(self) -> SourceLog:
        return SourceLog(history.read(sorted((self._folder / "history").glob("final-source.*.jsonl"))))

    def _wait(self, is_reached: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + STUCK_S
        while not is_reached():
            if time.monotonic() > deadline_s:
                raise StuckError(self._diagnosis(f"the run does not {what} within {STUCK_S} s"))
            self._tick()

    def _judge(self) -> None:
        self._show(f"{self._name}: judging")
        began_s = time.monotonic()
        files = sorted((self._folder / "history").iterdir())
        report = self._result.report = judge(history.read(files))
        self._result.judged_s = time.monotonic() - began_s
        self._result.transactions = report.counts["committed"]
        self._result.aborted = report.counts["aborted"]
        self._result.unknown = report.counts["of unknown outcome"]
        self._result.copied = report.counts["records in the log"] - self._result.fed

    # Telling ----------------------------------------------------------------------------------------------------------

    def _count(self) -> None:
        for part in self._all_parts:
            kind = "zookeeper" if part.name.startswith("zookeeper") else part.name
            for counts, count in (
                (self._result.kills, part.tally.kills),
                (self._result.pauses, part.tally.pauses),
                (self._result.own_ends, part.tally.own_ends),
            ):
                if count:
                    counts[kind] = counts.get(kind, 0) + count
            self._result.recoveries_s += part.tally.recoveries_s

    def _line(self) -> str:
        kills = sum(part.tally.kills for part in self._all_parts)
        pauses = sum(part.tally.pauses for part in self._all_parts)
        return (
            f"{self._name}: {self._feeder.records:,} fed, {self._copier.records:,} copied by a program, "
            f"{self._driver.batches} batches of queries, {kills} kills, {pauses} pauses, "
            f"{self._result.disk_full} full disks"
        )

    def _diagnosis(self, what: str) -> str:
        lines = [what, self._line()]
        for part in self._parts:
            state = f"{part.name}: {part.tally.kills} kills, {part.tally.own_ends} ends of its own"
            lines.append(f"{state}, has not worked for {part.waiting_s:.0f} s" if part.waiting_s else state)
            if isinstance(part, ProgramPart):
                lines += [f"    {line}" for line in part.program.last_lines().splitlines()]
        return "\n".join(lines)


def laps(minutes: float, stacks: Sequence[str], lap_max_s: float = 300) -> Iterator[tuple[str, float]]:
    """The stacks in turn, each for as long, so often that no lap is too long."""
    share_s = minutes * 60 / len(stacks)
    rounds = max(1, round(share_s / lap_max_s + 0.499))
    for _ in range(rounds):
        for stack in stacks:
            yield stack, share_s / rounds
