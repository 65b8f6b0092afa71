"""What all simulated clients share: lives, retries, and records that are numbers.

A client has several lives, one process each. A life ends when its work is done, with an error that it cannot recover
from, or when its process dies. The next life begins a little later, sometimes while the previous one is only slow: that
one is then a zombie.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from oncelog.errors import AbortableError, FatalError, OutcomeUnknownError, RetriableError, UnknownTopicError
from oncelog.testing.extremes import BYTES, LONG_SIZE
from oncelog.testing.history import Piece, placed_runs_of
from oncelog.types import ConsumerRecord, TopicPartition
from simulation.errors import LawBrokenError
from simulation.processes import Process
from simulation.world import World

T = TypeVar("T")

TRIES = 8
"""How often a call is tried that fails with a retriable error or an unknown outcome."""

PAUSE_MS = 40
"""Pause between two tries."""

ZOMBIES = 0.2
"""The probability that a new life begins while the previous one still runs."""


TAKEN_FOR_DEAD = 0.7
"""The probability that a new life begins because the previous one is paused."""


class GaveUpError(Exception):
    """A client gives up after the last try."""


class Client(ABC):
    """One client, over all its lives.

    Args:
        name: of its processes.
        lives: the most lives that it has.
    """

    def __init__(self, world: World, name: str, lives: int = 3) -> None:
        self.world = world
        self.name = name
        self.is_done = False
        self._lives = lives

    @abstractmethod
    def live(self, process: Process) -> None:
        """One life; it may begin before the previous one has ended."""

    def start(self, delay_ms: int = 0) -> None:
        """Begin a life after a delay, and the next ones when they are due."""
        if self.is_done or self._lives == 0:
            return
        self._lives -= 1
        chance = self.world.chance
        process = self.world.process(self.name)
        succession = _Succession(self)
        if chance.random() < TAKEN_FOR_DEAD:
            process.on_pause = lambda: self.world.scheduler.start(succession, chance.randrange(100))

        def body() -> None:
            if chance.random() < ZOMBIES:
                self.world.scheduler.start(succession, chance.randrange(200))
            try:
                self.live(process)
            except (GaveUpError, RetriableError, OutcomeUnknownError, AbortableError):
                self.world.counts["lives given up"] += 1
            except FatalError as error:
                self._end_by(error)
            except UnknownTopicError as error:
                self._go_on_without(error)
            finally:
                self.world.scheduler.start(succession, chance.randrange(100))

        process.start(body, delay_ms)

    def _end_by(self, error: FatalError) -> None:
        if not self.expects(error):
            raise error
        self.world.counts[f"lives ended by {type(error).__name__}"] += 1

    def expects(self, error: FatalError) -> bool:
        """Whether a correct log may raise this error in such a client."""
        return False

    def _go_on_without(self, error: UnknownTopicError) -> None:
        topic = str(error.fields.get("topic"))
        if topic not in self.world.leaving or not self.leave_out(topic):
            raise error
        self.world.counts["lives ended by UnknownTopicError"] += 1

    def leave_out(self, topic: str) -> bool:
        """Stop using a deleted topic. Returns False from a client that never uses topics that may be deleted."""
        return False

    def _left(self, named: list[T], is_left: Callable[[T], bool]) -> list[T]:
        """What a client still uses without a topic. If that is nothing, it is done, but its zombie may continue."""
        left = list(filter(is_left, named))
        self.is_done = self.is_done or not left
        return left or named


class _Succession:
    """Begins the next life of a client, once for each life."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._is_over = False

    def __call__(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._client.start()


def persevere(process: Process, call: Callable[[], T], tries: int = TRIES) -> T:
    """Repeat a call after retriable errors and unknown outcomes, as the error tree says.

    Raises:
        GaveUpError: the last try failed too.
    """
    last: Exception | None = None
    for _ in range(tries):
        try:
            return call()
        except (RetriableError, OutcomeUnknownError) as error:
            last = error
            process.sleep_ms(PAUSE_MS)
    raise GaveUpError(f"{type(last).__name__}: {last}") from last


def untouched(call: Callable[[], T]) -> T:
    """Run a call that names no topic, and so must not fail because a topic was deleted.

    Raises:
        LawBrokenError: it failed for that reason.
    """
    try:
        return call()
    except UnknownTopicError as error:
        raise LawBrokenError(f"a call that names no topic failed because of a deleted one: {error}") from error


# Records --------------------------------------------------------------------------------------------------------------


_CONTENTS = [data for data in BYTES if len(data) < LONG_SIZE]


def value_of(number: int) -> bytes:
    """The value of the record with this number: each of the extremes is used in turn."""
    return b"%d;%b" % (number, _CONTENTS[number % len(_CONTENTS)])


def number_of(value: bytes | None) -> int:
    """The number of the record with this value.

    Raises:
        LawBrokenError: nobody wrote such a value.
    """
    digits, _, _ = (value or b"").partition(b";")
    if not digits.isdigit() or value_of(int(digits)) != value:
        raise LawBrokenError(f"a value that nobody wrote: {value!r}")
    return int(digits)


def pieces_of(records: Iterable[ConsumerRecord], spans: Iterable[tuple[TopicPartition, int, int]]) -> Iterator[Piece]:
    """What a poll returned, by partition.

    Args:
        records: in the order in which they came.
        spans: for each assigned partition, where the reader was before and after.
    """
    by_partition: dict[tuple[str, int], list[ConsumerRecord]] = {}
    for record in records:
        by_partition.setdefault((record.topic, record.partition), []).append(record)
    for tp, start, end in spans:
        found = by_partition.get((tp.topic, tp.partition), [])
        runs = placed_runs_of((record.offset, number_of(record.value)) for record in found)
        yield Piece(tp.topic, tp.partition, start, end, runs)
