"""A log that is a few lists, and clients of it that write a history: what the checker must find nothing in."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from oncelog.testing.history import (
    Call,
    End,
    Ending,
    Event,
    Fetch,
    Fetched,
    Piece,
    Plan,
    Planned,
    Poll,
    Polled,
    Recorder,
    Stage,
    Write,
    Written,
    runs_of,
)
from oncelog.types import IsolationLevel

TOPIC, GROUP, SOURCE = "out", "copiers", ("in", 0)
PARTITIONS = 3
OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"
MARKER = -1


@dataclass
class Owner:
    """A transaction of the log."""

    name: str
    state: str = OPEN
    staged: int | None = None


@dataclass
class Reader:
    """A reader and where it is."""

    name: str
    isolation: str = IsolationLevel.READ_COMMITTED
    is_final: bool = False
    positions: list[int] = field(default_factory=lambda: [0] * PARTITIONS)


class ModelLog:
    """Makes calls one after the other, and writes them down.

    Attributes:
        events: the history so far.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._time = 0
        self._logs: list[list[tuple[int, Owner]]] = [[] for _ in range(PARTITIONS)]
        self._numbers = 0
        self._owners = 0
        self._recorders: dict[str, Recorder] = {}
        self.committed_offset = -1
        self.source_position = 0

    # Writers ----------------------------------------------------------------------------------------------------------

    def begin(self) -> Owner:
        self._owners += 1
        return Owner(f"t{self._owners}")

    def write(self, process: str, owner: Owner, partition: int, count: int, *, is_told: bool = True) -> None:
        numbers = range(self._numbers, self._numbers + count)
        self._numbers += count
        call = Write(
            TOPIC, runs_of(numbers), partition, owner.name, process, is_micro_batch=process.startswith("query")
        )
        recorder, made = self._invoke(process, call)
        offset = self._append(partition, numbers, owner)
        if is_told:
            recorder.ok(made, Written(offset))

    def write_at_once(self, process: str, partition: int, count: int) -> None:
        numbers = range(self._numbers, self._numbers + count)
        self._numbers += count
        recorder, made = self._invoke(process, Write(TOPIC, runs_of(numbers), partition))
        recorder.ok(made, Written(self._append(partition, numbers, Owner(process, COMMITTED))))

    def stage(self, process: str, owner: Owner) -> None:
        self.source_position += 10
        owner.staged = self.source_position
        recorder, made = self._invoke(process, Stage(GROUP, [(*SOURCE, owner.staged)], owner.name))
        recorder.ok(made)

    def commit(self, process: str, owner: Owner, *, is_told: bool = True) -> None:
        recorder, made = self._invoke(process, End(owner.name, Ending.COMMIT))
        self._end(owner, COMMITTED)
        if owner.staged is not None:
            self.committed_offset = owner.staged
        if is_told:
            recorder.ok(made)

    def abort(self, process: str, owner: Owner) -> None:
        recorder, made = self._invoke(process, End(owner.name, Ending.ABORT))
        self._end(owner, ABORTED)
        recorder.ok(made)

    def give_up(self, process: str, owner: Owner, *, is_asked: bool) -> None:
        """The process dies, maybe while it commits, and somebody aborts the transaction."""
        if is_asked:
            recorder, made = self._invoke(process, End(owner.name, Ending.COMMIT))
            recorder.unknown(made)
        self._end(owner, ABORTED)

    # Readers ----------------------------------------------------------------------------------------------------------

    def poll(self, reader: Reader, *, most: int = 1_000_000) -> None:
        recorder, made = self._invoke(reader.name, Poll(reader.name, reader.isolation, reader.is_final))
        ends, pieces, is_whole = self._plan(reader), [], True
        for partition, end in enumerate(ends):
            start = reader.positions[partition]
            stop = min(end, start + most)
            is_whole &= stop == end
            pieces.append(Piece(TOPIC, partition, start, stop, self._visible(reader, partition, start, stop)))
            reader.positions[partition] = stop
        recorder.ok(made, Polled(pieces, is_whole))

    def plan(self, process: str) -> None:
        recorder, made = self._invoke(process, Plan())
        recorder.ok(made, Planned([(TOPIC, partition, end) for partition, end in enumerate(self._stable_ends())]))

    def fetch(self, process: str) -> None:
        recorder, made = self._invoke(process, Fetch(GROUP))
        recorder.ok(made, Fetched([(*SOURCE, self.committed_offset)]))

    def finish(self, owners: Iterable[Owner]) -> None:
        """Commit what is open, and let everybody read to the end."""
        for owner in owners:
            self.commit("last", owner)
        self.poll(Reader("final", is_final=True))
        self.plan("final-planner")
        self.fetch("final-fetcher")

    # The log ----------------------------------------------------------------------------------------------------------

    def _invoke(self, process: str, call: Call) -> tuple[Recorder, int]:
        recorder = self._recorders.setdefault(process, Recorder(process, self.events.append, now_ns=self._now))
        return recorder, recorder.invoke(call)

    def _now(self) -> int:
        self._time += 1
        return self._time

    def _append(self, partition: int, numbers: Iterable[int], owner: Owner) -> int:
        log = self._logs[partition]
        offset = len(log)
        log.extend((number, owner) for number in numbers)
        return offset

    def _end(self, owner: Owner, state: str) -> None:
        owner.state = state
        for log in self._logs:
            if any(of is owner for _, of in log):
                log.append((MARKER, Owner("marker", COMMITTED)))

    def _stable_ends(self) -> list[int]:
        """Cuts that no committed transaction is on both sides of."""
        ends = [next((at for at, (_, of) in enumerate(log) if of.state == OPEN), len(log)) for log in self._logs]
        while True:
            beyond = {id(of) for log, end in zip(self._logs, ends, strict=True) for _, of in log[end:]}
            cut = [
                next((at for at, (_, of) in enumerate(log[:end]) if id(of) in beyond and of.state == COMMITTED), end)
                for log, end in zip(self._logs, ends, strict=True)
            ]
            if cut == ends:
                return ends
            ends = cut

    def _plan(self, reader: Reader) -> list[int]:
        if reader.isolation == IsolationLevel.READ_UNCOMMITTED:
            return [len(log) for log in self._logs]
        return [max(end, at) for end, at in zip(self._stable_ends(), reader.positions, strict=True)]

    def _visible(self, reader: Reader, partition: int, start: int, end: int) -> list[tuple[int, int, int]]:
        """As runs of one record, where the next one does not follow it."""
        shown = {COMMITTED} if reader.isolation == IsolationLevel.READ_COMMITTED else {COMMITTED, ABORTED, OPEN}
        runs: list[tuple[int, int, int]] = []
        for offset in range(start, end):
            number, owner = self._logs[partition][offset]
            if number == MARKER or owner.state not in shown:
                continue
            if runs and runs[-1][0] + runs[-1][2] == offset and runs[-1][1] + runs[-1][2] == number:
                runs[-1] = (runs[-1][0], runs[-1][1], runs[-1][2] + 1)
            else:
                runs.append((offset, number, 1))
        return runs


def random_history(seed: int, steps: int = 60) -> list[Event]:
    """A history of a log that is correct: writers, readers, faults, unknown outcomes, and a final reader."""
    chance = random.Random(seed)
    log = ModelLog()
    writers = {name: log.begin() for name in ("copier", "query", "loader")}
    readers = [Reader("reader"), Reader("slow"), Reader("dirty", IsolationLevel.READ_UNCOMMITTED)]
    for _ in range(steps):
        name = chance.choice(list(writers))
        owner = writers[name]
        match chance.choice(["write"] * 4 + ["end"] * 3 + ["poll"] * 3 + ["plan", "fetch", "at once"]):
            case "write":
                for partition in chance.sample(range(PARTITIONS), 2):
                    log.write(name, owner, partition, chance.randint(1, 9), is_told=chance.random() < 0.7)
            case "end":
                _end_somehow(log, chance, name, owner)
                writers[name] = log.begin()
            case "poll":
                reader = chance.choice(readers)
                log.poll(reader, most=3 if reader.name == "slow" else 1_000_000)
            case "plan":
                log.plan("planner")
            case "fetch":
                log.fetch("fetcher")
            case "at once":
                log.write_at_once("plain", chance.randrange(PARTITIONS), chance.randint(1, 5))
    log.finish(writers.values())
    return log.events


def _end_somehow(log: ModelLog, chance: random.Random, name: str, owner: Owner) -> None:
    if name == "copier":  # the only one, so that the offsets are in the order of its transactions
        log.stage(name, owner)
    match chance.choice(["commit"] * 4 + ["commit untold", "abort", "die", "die committing"]):
        case "commit":
            log.commit(name, owner)
        case "commit untold":
            log.commit(name, owner, is_told=False)
        case "abort":
            log.abort(name, owner)
        case "die":
            log.give_up(name, owner, is_asked=False)
        case "die committing":
            log.give_up(name, owner, is_asked=True)
