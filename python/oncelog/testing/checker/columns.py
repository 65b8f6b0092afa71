"""A history as columns, without an object for each record or event.

Topics, partitions, processes and readers become numbers. A record's topic and number are combined into one whole
number, the record's *key*. A partition and an offset are combined into a *place*. Runs of records are ranges of both.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from oncelog.errors import UsageError
from oncelog.testing.history import (
    NUMBERS,
    Answer,
    Call,
    End,
    Ending,
    Event,
    Fetch,
    Fetched,
    Kind,
    PartitionOffset,
    Plan,
    Planned,
    Poll,
    Polled,
    Stage,
    Write,
    Written,
)
from oncelog.types import IsolationLevel

Ints = NDArray[np.int64]

T = TypeVar("T")

NEVER = 2**62
"""Later than every time in a history."""

NOWHERE = -1
"""Stands for an unknown offset, partition or place."""


class Outcome(IntEnum):
    """What the history says about a transaction."""

    ABORTED = 0
    UNKNOWN = 1
    COMMITTED = 2


class Names(Generic[T]):
    """Gives numbers to names, in the order in which they come."""

    def __init__(self) -> None:
        self._numbers: dict[T, int] = {}
        self._names: list[T] = []

    def number(self, name: T) -> int:
        """The number of a name; a new name gets a new number."""
        found = self._numbers.setdefault(name, len(self._names))
        if found == len(self._names):
            self._names.append(name)
        return found

    def __getitem__(self, number: int) -> T:
        return self._names[number]

    def __len__(self) -> int:
        return len(self._names)


class Rows:
    """Rows of whole numbers, stored as columns."""

    def __init__(self, *names: str) -> None:
        self._columns = {name: array("q") for name in names}
        self._appends = [column.append for column in self._columns.values()]
        self._count = 0

    def add(self, *values: int) -> None:
        """Append one row."""
        for append, value in zip(self._appends, values, strict=True):
            append(value)
        self._count += 1

    def change(self, row: int, name: str, value: int) -> None:
        """Set one value."""
        self._columns[name][row] = value

    def __getitem__(self, name: str) -> Ints:
        """A column, without copying it; no rows may be added after this."""
        column = self._columns[name]
        return np.frombuffer(column, np.int64) if column else np.zeros(0, np.int64)

    def value(self, row: int, name: str) -> int:
        """One value."""
        return self._columns[name][row]

    def __len__(self) -> int:
        return self._count


@dataclass(slots=True)
class Transaction:
    """What the history says about one transaction, or about one call that was committed as it was written.

    Attributes:
        name: of the transaction or the call.
        is_batch: whether a part of it is a half batch.
        began_ns: when its first call was made.
        asked_ns: when it was first asked to commit; `NEVER` if it was not.
        ended_ns: when that was first answered; `NEVER` if it was not.
        is_answered: whether anybody was told that it is committed.
        may_commit: whether anybody asked to commit it, and was not told that this failed.
        is_aborted: whether anybody was told that it is aborted.
        calls: the last calls about its end, for messages.
    """

    name: str
    is_batch: bool = False
    began_ns: int = NEVER
    asked_ns: int = NEVER
    ended_ns: int = NEVER
    is_answered: bool = False
    may_commit: bool = False
    is_aborted: bool = False
    calls: list[str] = field(default_factory=list)

    @property
    def outcome(self) -> Outcome:
        """Committed or aborted if somebody was told so; also aborted if nobody asked to commit it."""
        if self.is_answered:
            return Outcome.COMMITTED
        return Outcome.UNKNOWN if self.may_commit and not self.is_aborted else Outcome.ABORTED


@dataclass(frozen=True, slots=True)
class Staged:
    """An offset in a transaction."""

    group: str
    partition: int
    offset: int
    transaction: int
    event: str


@dataclass(frozen=True, slots=True)
class Found:
    """Ends or offsets by partition in an answer, and when they were answered."""

    asked_ns: int
    answered_ns: int
    values: dict[int, int]
    event: str
    group: str = ""


@dataclass(slots=True)
class _Pending:
    """A call without a completion so far; its rows are those of its writes or stages."""

    event: Event
    transaction: int = NOWHERE
    first_row: int = 0
    end_row: int = 0


class Columns:
    """A whole history.

    Attributes:
        writes: a row for each run: call, time, transaction, producer, topic, partition, key, count, offset, is_failed.
        polls: a row for each answered poll: call, time, reader, is_committed, is_final, is_whole.
        pieces: a row for each piece of a poll: poll, partition, start, end.
        reads: a row for each run: poll, partition, place, key, count.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        self.topics, self.readers, self.producers, self.calls = Names[str](), Names[str](), Names[str](), Names[str]()
        self.partitions = Names[tuple[str, int]]()
        self.writes = Rows(
            "call", "time", "transaction", "producer", "topic", "partition", "key", "count", "offset", "is_failed"
        )
        self.polls = Rows("call", "time", "reader", "is_committed", "is_final", "is_whole")
        self.pieces = Rows("poll", "partition", "start", "end")
        self.reads = Rows("poll", "partition", "place", "key", "count")
        self.transactions: list[Transaction] = []
        self.stages: list[Staged] = []
        self.plans: list[Found] = []
        self.fetches: list[Found] = []
        self.events = 0
        self._numbers: dict[str, int] = {}
        self._failed_stages: set[int] = set()
        self._pending: dict[tuple[str, int], _Pending] = {}
        for event in events:
            self.events += 1
            if event.call is not None:
                self._invoked(event, event.call)
            else:
                self._completed(event)
        for pending in self._pending.values():
            self._left_open(pending)
        self._pending.clear()
        self.stages = [staged for at, staged in enumerate(self.stages) if at not in self._failed_stages]
        self._check_offsets()

    # Names ------------------------------------------------------------------------------------------------------------

    def key(self, topic: str, number: int) -> int:
        """A record's topic and number as one number."""
        if not 0 <= number < NUMBERS:
            raise UsageError("the number of a record is out of range", number=number, below=NUMBERS)
        return self.topics.number(topic) * NUMBERS + number

    def key_name(self, key: int) -> str:
        """A record, for messages."""
        return f"{self.topics[key // NUMBERS]}:{key % NUMBERS}"

    def place_name(self, place: int) -> str:
        """A place, for messages."""
        return f"{self.partition_name(place // NUMBERS)}@{place % NUMBERS}"

    def partition_name(self, partition: int) -> str:
        """A partition, for messages."""
        return "{}-{}".format(*self.partitions[partition])

    def call_name(self, call: int) -> str:
        """A call, for messages."""
        return self.calls[call]

    # Events -----------------------------------------------------------------------------------------------------------

    def _invoked(self, event: Event, call: Call) -> None:
        pending = _Pending(event)
        if isinstance(call, Write):
            self._write(event, call, pending)
        elif isinstance(call, Stage):
            pending.transaction = self._transaction(event, call.transaction, is_batch=True)
            self._asked_at_once(event, call.transaction, pending)
            pending.first_row = len(self.stages)
            for partition, offset in self._by_partition(call.offsets).items():
                self.stages.append(Staged(call.group, partition, offset, pending.transaction, event.name))
            pending.end_row = len(self.stages)
        elif isinstance(call, End):
            pending.transaction = self._transaction(event, call.transaction)
            transaction = self.transactions[pending.transaction]
            transaction.calls.append(f"{event.name} {call.ending}")
            if call.ending == Ending.COMMIT:
                transaction.asked_ns = min(transaction.asked_ns, event.time_ns)
        earlier = self._pending.pop((event.process, event.number), None)
        if earlier is not None:
            self._left_open(earlier)  # another run of the process, which numbers its calls from the start
        self._pending[event.process, event.number] = pending

    def _write(self, event: Event, call: Write, pending: _Pending) -> None:
        is_batch = call.is_micro_batch or call.transaction is None
        pending.transaction = self._transaction(event, call.transaction, is_batch=is_batch)
        self._asked_at_once(event, call.transaction, pending)
        name, producer = self.calls.number(event.name), self.producers.number(call.producer or event.process)
        topic = self.topics.number(call.topic)
        partition = NOWHERE if call.partition is None else self.partitions.number((call.topic, call.partition))
        pending.first_row = len(self.writes)
        at = (name, event.time_ns, pending.transaction, producer, topic, partition)
        for first, count in call.runs:
            self.writes.add(*at, self.key(call.topic, first), count, NOWHERE, 0)
        pending.end_row = len(self.writes)

    def _transaction(self, event: Event, name: str | None, *, is_batch: bool = False) -> int:
        """The number of a transaction; a call without one counts as its own transaction."""
        name = f"the call {event.name}" if name is None else name
        number = self._numbers.setdefault(name, len(self.transactions))
        if number == len(self.transactions):
            self.transactions.append(Transaction(name, is_batch))
        found = self.transactions[number]
        found.began_ns = min(found.began_ns, event.time_ns)
        return number

    def _asked_at_once(self, event: Event, transaction: str | None, pending: _Pending) -> None:
        if transaction is None:
            self.transactions[pending.transaction].asked_ns = event.time_ns

    def _completed(self, event: Event) -> None:
        pending = self._pending.pop((event.process, event.number), None)
        if pending is None:
            raise UsageError("a call is completed that was not made, or completed before", call=event.name)
        if event.kind == Kind.UNKNOWN:
            self._left_open(pending)
            return
        call = pending.event.call
        if isinstance(call, End):
            self._ended(event, self.transactions[pending.transaction], Ending(call.ending))
        elif isinstance(call, Write | Stage):
            self._wrote(event, call, pending)
        elif event.kind == Kind.OK:
            self._answered(pending.event, event, call, event.answer)

    def _left_open(self, pending: _Pending) -> None:
        call = pending.event.call
        is_commit = isinstance(call, End) and call.ending == Ending.COMMIT
        if is_commit or (isinstance(call, Write | Stage) and call.transaction is None):
            self.transactions[pending.transaction].may_commit = True

    def _ended(self, event: Event, transaction: Transaction, ending: Ending) -> None:
        transaction.calls.append(f"{event.name} {event.kind}")
        if event.kind == Kind.OK and ending == Ending.COMMIT:
            transaction.is_answered = True
            transaction.ended_ns = min(transaction.ended_ns, event.time_ns)
        elif event.kind == Kind.OK:
            transaction.is_aborted = True

    def _wrote(self, event: Event, call: Write | Stage, pending: _Pending) -> None:
        if call.transaction is None and event.kind == Kind.OK:
            self.transactions[pending.transaction].is_answered = True
            self.transactions[pending.transaction].ended_ns = event.time_ns
        if isinstance(call, Stage):
            if call.transaction is not None and event.kind == Kind.FAIL:
                self._failed_stages.update(range(pending.first_row, pending.end_row))
            return
        offset = event.answer.offset if isinstance(event.answer, Written) else NOWHERE
        for row in range(pending.first_row, pending.end_row):
            if event.kind == Kind.FAIL:
                self.writes.change(row, "is_failed", 1)
            elif offset != NOWHERE:
                self.writes.change(row, "offset", offset)
                offset += self.writes.value(row, "count")

    def _answered(self, invoked: Event, event: Event, call: Call | None, answer: Answer | None) -> None:
        times = (invoked.time_ns, event.time_ns)
        if isinstance(call, Poll) and isinstance(answer, Polled):
            self._polled(event, call, answer)
        elif isinstance(call, Plan) and isinstance(answer, Planned):
            self.plans.append(Found(*times, self._by_partition(answer.ends), event.name))
        elif isinstance(call, Fetch) and isinstance(answer, Fetched):
            self.fetches.append(Found(*times, self._by_partition(answer.offsets), event.name, call.group))

    def _polled(self, event: Event, call: Poll, answer: Polled) -> None:
        poll = len(self.polls)
        is_committed = call.isolation == IsolationLevel.READ_COMMITTED
        self.polls.add(
            self.calls.number(event.name),
            event.time_ns,
            self.readers.number(call.reader),
            is_committed,
            is_committed and call.is_final,
            is_committed and answer.is_whole,
        )
        for piece in answer.pieces:
            partition = self.partitions.number((piece.topic, piece.partition))
            self.pieces.add(poll, partition, piece.start, piece.end)
            for offset, first, count in piece.runs:
                place = partition * NUMBERS + offset
                self.reads.add(poll, partition, place, self.key(piece.topic, first), count)

    def _check_offsets(self) -> None:
        """Refuse offsets that are out of range, because they would look like offsets of another partition."""
        is_read_right = self.reads["place"] // NUMBERS == self.reads["partition"]
        is_told_right = (self.writes["offset"] >= NOWHERE) & (self.writes["offset"] < NUMBERS)
        if not (is_read_right.all() and is_told_right.all()):
            raise UsageError("an offset is out of range", below=NUMBERS)

    def _by_partition(self, values: Sequence[PartitionOffset]) -> dict[int, int]:
        return {self.partitions.number((topic, partition)): offset for topic, partition, offset in values}
