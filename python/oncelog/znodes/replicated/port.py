"""What a command log has to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class Entry(NamedTuple):
    """One append, as everyone reads it.

    Attributes:
        position: grows from entry to entry, from 0; numbers may be left out.
        time_ms: of the append, by the log's clock if it has one; it may go backwards.
        body: what was appended.
    """

    position: int
    time_ms: int
    body: bytes


class CommandLog(Protocol):
    """A totally ordered log that keeps what it acknowledged. One process uses it from one thread at a time.

    Raises:
        StoreUnavailableError: it cannot be reached, and nothing was appended.
        CorruptDataError: it is not the log that was opened, or its oldest entries are gone.
    """

    def read(self, after: int) -> Sequence[Entry]:
        """The entries after a position, up to the end that the log has when it is asked: every append that was
        acknowledged before the call is among them. -1 asks for all."""

    def append(self, body: bytes) -> None:
        """Append an entry, and wait until the log keeps it. Where no answer comes it is appended again: a copy of a
        command does nothing, whichever of the two comes first.

        Raises:
            OutcomeUnknownError: it may have been appended, or be appended later.
        """

    def close(self) -> None: ...
