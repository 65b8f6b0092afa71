"""What a command log has to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from oncelog.errors import OncelogError


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


BEGINNING: Final = -1
"""The position before the first entry."""


class TrimmedError(OncelogError):
    """Entries that were to be read are gone: a snapshot says what they did."""


class CommandLog(Protocol):
    """A totally ordered log that keeps what it acknowledged. One process uses it from one thread at a time.

    Attributes:
        foreign: how many records this process found in it that are not oncelog's, and left out.

    Raises:
        StoreUnavailableError: it cannot be reached, and nothing was appended.
        CorruptDataError: it is not the log that was opened.
    """

    @property
    def foreign(self) -> int: ...

    def start(self) -> int:
        """The position after which it has every entry: `BEGINNING` until it is trimmed."""

    def read(self, after: int) -> Sequence[Entry]:
        """The entries after a position, up to the end that the log has when it is asked.

        Every append that was acknowledged before the call is among them.

        Raises:
            TrimmedError: `after` lies before `start()`.
        """

    def append(self, after: int, body: bytes) -> Sequence[Entry] | None:
        """Append an entry, and wait until the log keeps it.

        Args:
            after: the position up to which the caller has every entry.
            body: of the new one.

        Returns:
            the entries after that position, up to the new one, if the log knows them without being asked.

        If no answer comes, it may be appended again: a copy of a batch does nothing, whichever of the two comes first.

        Raises:
            OutcomeUnknownError: it may have been appended, or be appended later.
        """

    def trim(self, position: int) -> None:
        """Remove the entries up to this position, which is one of an entry. What cannot be removed now stays."""

    def close(self) -> None: ...
