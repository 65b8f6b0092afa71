"""What the programs need of a log, for oncelog's own and for Kafka's: transactions, a committed reader, group offsets.

An error says what may be done next: `TryAgain` the same call, `GiveUp` the transaction. Every other one ends the
program, and another life of it goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from oncelog.testing.history import Piece

Partition = tuple[str, int]


class TryAgain(Exception):  # noqa: N818 - it says what to do
    """The same call may be made again."""


class GiveUp(Exception):  # noqa: N818
    """The transaction must be aborted."""


@dataclass(frozen=True, slots=True)
class Polled:
    """What a poll brought: a piece of each partition, and whether all that was planned is handed out."""

    pieces: Sequence[Piece]
    is_whole: bool

    @property
    def count(self) -> int:
        return sum(count for piece in self.pieces for _, _, count in piece.runs)


class Writer(Protocol):
    """A transactional producer."""

    def begin(self) -> None: ...

    def write(self, topic: str, partition: int, numbers: Any) -> Callable[[], int | None]:
        """Send records; returns what tells their first offset once it is known."""
        ...

    def stage(self, group: str, offsets: Mapping[Partition, int]) -> None: ...

    def flush(self) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...


class Reader(Protocol):
    """A read_committed consumer of some topics, from the log's start or end or from a group's offsets on."""

    def poll(self, most: int) -> Polled: ...

    def is_at_end(self) -> bool:
        """Whether there was nothing more when it polled last."""
        ...

    def stable_ends(self) -> dict[Partition, int]:
        """Of each partition alone; empty where they cannot be told."""
        ...


class Client(Protocol):
    """A connection to a log."""

    def writer(self, transactional_id: str) -> Writer: ...

    def reader(self, topics: Sequence[str], group: str | None = None, *, is_from_end: bool = False) -> Reader: ...

    def committed(self, group: str, topic: str) -> dict[Partition, int]: ...
