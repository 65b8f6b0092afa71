"""Histories: a record of what the clients of a log asked for, and what they were answered.

This module owns the events and their format on disk; `oncelog.testing.checker` judges them. An event is the invocation
of a call, or its completion: ``ok`` (it happened), ``fail`` (it certainly did not) or ``unknown`` (an error that leaves
it open). A call without a completion, because its process died, counts as ``unknown``. The invocation is written before
the call, and the completion after its answer. Hence a history that stops at any point is incomplete, but never wrong.

A record is identified by a number, unique in its topic and below `NUMBERS`. Consecutive numbers are stored as one
*run*, so a history of millions of records is small. A retry may write the same numbers again, in another transaction.

    with writing(folder / f"copier-{os.getpid()}.jsonl") as keep:
        history = Recorder(f"copier-{os.getpid()}", keep)
        call = history.invoke(Write("out", runs=((0, 1000),), partition=0, transaction="copier-1"))
        ...
        history.ok(call, Written(offset=5000))

Each run of a process has its own file and its own name. All times are by one clock: that of one machine
(`time.monotonic_ns`), or a simulation's.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from oncelog.types import IsolationLevel

if TYPE_CHECKING:
    from oncelog.clients.consumer import Consumer

NUMBERS = 2**48
"""Record numbers and offsets are below this, so that each fits into 64 bits together with a topic or partition."""

Run = tuple[int, int]
"""Records with consecutive numbers: the first number, and how many."""

PlacedRun = tuple[int, int, int]
"""The same at consecutive offsets: the first offset, the first number, and how many."""

PartitionOffset = tuple[str, int, int]
"""A topic, a partition of it, and an offset there."""


class Kind(StrEnum):
    """What an event says about its call."""

    INVOKE = "invoke"
    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"


class Ending(StrEnum):
    """How a transaction is asked to end."""

    COMMIT = "commit"
    ABORT = "abort"


# Calls ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Write:
    """Records are sent to one partition, in this order.

    Attributes:
        topic: the topic that they are sent to.
        runs: their numbers.
        partition: None if the writer does not know it.
        transaction: a name that is unique in the history; None if they are committed as they are written.
        producer: whose records must stay in order; the process if not given.
        is_micro_batch: whether the transaction is a micro-batch of Spark.
    """

    op: ClassVar = "write"
    topic: str
    runs: Sequence[Run]
    partition: int | None = None
    transaction: str | None = None
    producer: str | None = None
    is_micro_batch: bool = False


@dataclass(frozen=True, slots=True)
class Stage:
    """Offsets are sent to a transaction; without one, they are committed at once."""

    op: ClassVar = "stage"
    group: str
    offsets: Sequence[PartitionOffset]
    transaction: str | None = None


@dataclass(frozen=True, slots=True)
class End:
    """A transaction is asked to commit or abort. Its records must never be visible if nobody asks to commit it."""

    op: ClassVar = "end"
    transaction: str
    ending: Ending


@dataclass(frozen=True, slots=True)
class Poll:
    """A reader asks for records.

    Attributes:
        reader: one pass of a reader, between seeks; it only reads forward.
        isolation: of the reader.
        is_final: whether it reads everything from the log's start, after all writers have finished.
    """

    op: ClassVar = "poll"
    reader: str
    isolation: str = IsolationLevel.READ_COMMITTED
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """A client asks for the stable ends of some partitions, together."""

    op: ClassVar = "plan"


@dataclass(frozen=True, slots=True)
class Fetch:
    """A client asks for the committed offsets of a group."""

    op: ClassVar = "fetch"
    group: str


Call = Write | Stage | End | Poll | Plan | Fetch

# Answers --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Written:
    """The answer to a `Write`: the offset of its first record; the others follow without a gap."""

    offset: int


@dataclass(frozen=True, slots=True)
class Polled:
    """The answer to a `Poll`.

    Attributes:
        pieces: one for each assigned partition, even without records.
        is_whole: whether the reader has now been given everything that it planned.
    """

    pieces: Sequence[Piece]
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class Piece:
    """What a poll returned for one partition: the records in ``[start, end)`` that the reader may see."""

    topic: str
    partition: int
    start: int
    end: int
    runs: Sequence[PlacedRun] = ()


@dataclass(frozen=True, slots=True)
class Planned:
    """The answer to a `Plan`: the last stable offset of each partition."""

    ends: Sequence[PartitionOffset]


@dataclass(frozen=True, slots=True)
class Fetched:
    """The answer to a `Fetch`: the offsets; -1 for a partition without one."""

    offsets: Sequence[PartitionOffset]


Answer = Written | Polled | Planned | Fetched

_CALLS: dict[str, type[Call]] = {call.op: call for call in (Write, Stage, End, Poll, Plan, Fetch)}
_ANSWERS: dict[str, type[Answer]] = {"write": Written, "poll": Polled, "plan": Planned, "fetch": Fetched}

# Events ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a history.

    Attributes:
        process: one run of a process.
        number: of the call in that process; its completion has the same number.
        kind: whether this is the invocation, or how the call ended.
        time_ns: by one clock for the whole history.
        call: of an invocation.
        answer: of a completion, if it has one.
    """

    process: str
    number: int
    kind: Kind
    time_ns: int
    call: Call | None = None
    answer: Answer | None = None

    @property
    def name(self) -> str:
        """The process and the call, for messages."""
        return f"{self.process}#{self.number}"

    def to_json(self) -> str:
        """One line of text, without its end."""
        written: dict[str, Any] = {
            "process": self.process,
            "call": self.number,
            "kind": self.kind,
            "time_ns": self.time_ns,
        }
        if self.call is not None:
            written |= {"op": self.call.op, **_fields(self.call)}
        if self.answer is not None:
            of = next(op for op, kind in _ANSWERS.items() if isinstance(self.answer, kind))
            written |= {"of": of, "answer": _fields(self.answer)}
        return json.dumps(written, separators=(",", ":"))

    @classmethod
    def from_json(cls, line: str) -> Event:
        """Read what `to_json` wrote.

        Raises:
            ValueError, KeyError, TypeError: it is not a complete event.
        """
        read = json.loads(line)
        if not isinstance(read, dict):
            raise TypeError("an event is an object")
        common = (read.pop("process"), read.pop("call"), Kind(read.pop("kind")), read.pop("time_ns"))
        op = read.pop("op", None)
        if op is not None:
            return cls(*common, call=_CALLS[op](**read))
        if "of" not in read:
            return cls(*common)
        answer = read["answer"]
        if read["of"] == "poll":
            answer["pieces"] = [Piece(**piece) for piece in answer["pieces"]]
        return cls(*common, answer=_ANSWERS[read["of"]](**answer))


Keep = Callable[[Event], object]
"""Stores an event: `list.append` in memory, or the function from `writing`."""


class Recorder:
    """Records the calls of one run of one process.

    Args:
        process: a name that is unique to this run of this process.
        keep: stores the events.
        now_ns: the clock that all recorders of the history share.
    """

    def __init__(self, process: str, keep: Keep, *, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self.process = process
        self._keep = keep
        self._now_ns = now_ns
        self._calls = 0

    def invoke(self, call: Call) -> int:
        """Record that `call` is about to be made, and return its number for the completion."""
        self._calls += 1
        self._keep(Event(self.process, self._calls, Kind.INVOKE, self._now_ns(), call=call))
        return self._calls

    def ok(self, number: int, answer: Answer | None = None) -> None:
        """Record that the call succeeded, and its answer."""
        self._keep(Event(self.process, number, Kind.OK, self._now_ns(), answer=answer))

    def fail(self, number: int) -> None:
        """Record that the call certainly had no effect, and never will."""
        self._keep(Event(self.process, number, Kind.FAIL, self._now_ns()))

    def unknown(self, number: int) -> None:
        """Record that the caller gave up without knowing the outcome."""
        self._keep(Event(self.process, number, Kind.UNKNOWN, self._now_ns()))


@contextmanager
def writing(path: Path | str) -> Iterator[Keep]:
    """Append events to a file during the block, each with one write of one line.

    What was written survives a kill of the process. If the file ends with half a line, because a disk was full, that
    line is ended first.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    with Path(path).open("a+b", buffering=0) as file:
        if file.seek(0, os.SEEK_END) > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")

        def keep(event: Event) -> None:
            line = event.to_json().encode() + b"\n"
            if file.write(line) != len(line):
                raise OSError(errno.ENOSPC, "an event of the history was only written in part", str(path))

        yield keep


def read(paths: Iterable[Path | str]) -> Iterator[Event]:
    """The events in some files, one file after the other.

    A line that is not a complete event is skipped: its call was never made, or its answer is unknown.
    """
    for path in paths:
        with Path(path).open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    yield Event.from_json(line)
                except (ValueError, KeyError, TypeError):
                    continue


def is_whole(consumer: Consumer) -> bool:
    """Whether a consumer has now returned everything that it planned: see `Polled`.

    An error behind the first block ends a poll early, and nothing public tells: the rest is still planned then.
    """
    return all(assigned.plan_end is None for assigned in consumer._assigned.values())


def runs_of(numbers: Iterable[int]) -> list[Run]:
    """Numbers as runs, in the given order.

    Example:
        >>> runs_of([4, 5, 6, 2])
        [(4, 3), (2, 1)]
    """
    found = np.fromiter(numbers, np.int64)
    if not len(found):
        return []
    firsts = np.flatnonzero(np.diff(found, prepend=found[0] - 2) != 1)
    counts = np.diff(firsts, append=len(found))
    return list(zip(found[firsts].tolist(), counts.tolist(), strict=True))


def placed_runs_of(placed: Iterable[tuple[int, int]]) -> list[PlacedRun]:
    """Records as runs in which both offsets and numbers are consecutive.

    Args:
        placed: offset and number of each record, in order.
    """
    runs: list[PlacedRun] = []
    first_offset = first_number = count = 0
    for offset, number in placed:
        if count and offset == first_offset + count and number == first_number + count:
            count += 1
            continue
        if count:
            runs.append((first_offset, first_number, count))
        first_offset, first_number, count = offset, number, 1
    if count:
        runs.append((first_offset, first_number, count))
    return runs


def _fields(value: Call | Answer | Piece) -> dict[str, Any]:
    """The fields of a value in JSON's types."""
    found = {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Polled):
        found["pieces"] = [_fields(piece) for piece in value.pieces]
    return found
