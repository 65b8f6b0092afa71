"""A command log of numbered objects in a bucket, each of which is put only if there is none of its name.

    entries/<position>   the time of the append, and the entry
    floors/<position>    the log was trimmed up to this entry

A writer appends an entry by putting an object at the first free position. If the position is taken, it reads forward
and retries at the next one. Trying each position in turn would be too slow: others append meanwhile, and a writer that
was once far behind would never catch up.

A process that was suspended may find a position free because the entry there was removed. Nobody reads what it puts
there, so it must not count as appended. Hence a floor is put an hour before any entry up to it is removed. If a process
last read the log more than a minute before a response arrived, it reads the floor, which tells what the response means.
A floor is an object of its own, so that two concurrent trims cannot move it back.

An entry contains the store's time, which its writer knows from earlier responses. The object's own modification time
would have to be read after each put, and changes when a bucket is copied.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import takewhile
from typing import Final, NamedTuple, Protocol

from oncelog.errors import (
    CorruptDataError,
    OncelogError,
    OutcomeUnknownError,
    StoreAccessError,
    StoreUnavailableError,
)
from oncelog.ports import Clock
from oncelog.randomness import random_id
from oncelog.znodes.clock import SYSTEM_CLOCK
from oncelog.znodes.replicated.port import BEGINNING, Entry, TrimmedError

LOOK_MS: Final = 60_000
"""How long a look at the log tells what is free because it was never put."""

REMOVED_AFTER_MS: Final = 3_600_000
"""How long entries stay after a floor was put above them: far longer than LOOK_MS, and than any listing takes."""

PATIENCE_MS: Final = 30_000
"""How long an append is tried. What a multi had read when it was found fresh is that much older at most."""

PAUSE_MS: Final = 20
LONGEST_PAUSE_MS: Final = 1_000

AT_ONCE: Final = 16
"""Entries that are asked for at once, at most, where it is not known whether they are there."""

SAVED_EVERY: Final = 500
"""Entries between two snapshots. Each is a request to who opens the store, so there are fewer than in a topic."""

PROBES: Final = 5
PROBING: Final = 4
"""Objects of a probe, and threads that put each of them at once."""

ENTRIES: Final = "entries"
FLOORS: Final = "floors"
_TIME = struct.Struct(">Q")


class NoAnswerError(OncelogError):
    """The bucket did not answer, or asks to be asked again: what it was asked may be done or not, or be done later."""


class Listed(NamedTuple):
    """An object of a folder.

    Attributes:
        name: in its folder.
        time_ms: when it was put, by the bucket's clock.
    """

    name: str
    time_ms: int


class Bucket(Protocol):
    """What a command log needs of a bucket. What was acknowledged is seen by everyone who asks afterwards.

    Raises:
        NoAnswerError. StoreAccessError: this process may not do it, or there is no such bucket.
    """

    def get(self, names: Sequence[str]) -> Sequence[bytes | None]:
        """The objects' bytes; None for one that does not exist."""

    def put_new(self, name: str, data: bytes) -> bool:
        """Create an object; False if it exists, perhaps by an earlier try of this very call."""

    def names(self, folder: str, after: str = "") -> Iterator[Listed]:
        """The objects of a folder, or of all, in the order of their names, from the one after a name on."""

    def delete(self, names: Sequence[str]) -> None:
        """Remove objects, unless they are gone."""

    def now_ms(self) -> int:
        """The bucket's time, as its earlier answers tell it."""

    def close(self) -> None: ...


class ObjectLog:
    """`port.CommandLog` in a bucket. An object that is not oncelog's has another name, and is never read.

    Args:
        bucket: which the log closes.
        clock: by which the bucket is waited for.
    """

    foreign: Final = 0

    def __init__(self, bucket: Bucket, clock: Clock = SYSTEM_CLOCK) -> None:
        self._bucket = bucket
        self._clock = clock
        self._position = BEGINNING
        """Up to here the log was read."""
        self._known: dict[int, Entry] = {}
        """The entries right behind, which `append` came to know."""
        self._looked_ms: int | None = None
        """At this time of the bucket's, or later, no entry behind them was trimmed."""

    def start(self) -> int:
        with _unavailable():
            return self._floor()

    def is_new(self) -> bool:
        """Whether nobody ever appended anything."""
        with _unavailable():
            return self._floor() == BEGINNING == self._last(BEGINNING)

    def read(self, after: int) -> Sequence[Entry]:
        if after != self._position:
            self._stand_at(after, None)
        asked_ms = self._bucket.now_ms()
        with _unavailable():
            found = self._following(after) if self._looked_lately() else self._listed(after)
            if not self._looked_lately() and after < self._floor():
                raise TrimmedError("entries of the command log are gone", after=after)
        entries = [entry for entry in found if entry is not None]
        if len(entries) < len(found):
            raise CorruptDataError(
                "objects of the command log are gone that oncelog did not remove: does a lifecycle rule of the bucket?",
                missing=entry_name(after + 1 + found.index(None)),
            )
        self._stand_at(after + len(entries), asked_ms)
        return entries

    def append(self, after: int, body: bytes) -> Sequence[Entry] | None:
        if after != self._position:
            self._stand_at(after, None)
        data = data_of(Entry(BEGINNING, self._bucket.now_ms(), body))
        deadline_ms = self._clock.monotonic_ms() + PATIENCE_MS
        pause_ms = PAUSE_MS
        reason = None
        while self._clock.monotonic_ms() < deadline_ms:
            try:
                if self._is_put(data):
                    return self._known_after(after)
            except StoreAccessError as problem:
                if reason is None:
                    raise
                reason = str(problem)
                break
            except NoAnswerError as problem:
                reason = str(problem)
                self._clock.sleep_ms(pause_ms)
                pause_ms = min(2 * pause_ms, LONGEST_PAUSE_MS)
        raise OutcomeUnknownError(
            "the bucket did not acknowledge an entry of the command log: run the same step again",
            reason=reason or "other writers came first each time, or this process was suspended",
        )

    def trim(self, position: int) -> None:
        with suppress(NoAnswerError, StoreAccessError):
            floors = list(self._numbered(FLOORS))
            if position > max((floor for floor, _ in floors), default=BEGINNING):
                self._bucket.put_new(_floor_name(position), b"")
            since_ms = self._bucket.now_ms() - REMOVED_AFTER_MS
            old = max((floor for floor, time_ms in floors if time_ms <= since_ms), default=BEGINNING)
            gone = takewhile(lambda found: found[0] <= old, self._numbered(ENTRIES))
            self._bucket.delete([entry_name(number) for number, _ in gone])
            self._bucket.delete([_floor_name(floor) for floor, _ in floors if floor < old])

    def close(self) -> None:
        self._bucket.close()

    def _is_put(self, data: bytes) -> bool:
        """Try to put an entry at the first position that is not known to be taken."""
        position = self._position + len(self._known) + 1
        asked_ms = self._bucket.now_ms()
        is_new = self._bucket.put_new(entry_name(position), data)
        found = [data] if is_new else self._unbroken(position, at_once=2)
        if not self._looked_lately() and position <= (floor := self._floor()):
            self._stand_at(self._last(floor), asked_ms)
            return False
        if not found:
            raise NoAnswerError("an object is there, and cannot be read", name=entry_name(position))
        self._known |= {taken: entry_of(taken, one) for taken, one in enumerate(found, position)}
        if is_new:  # at the end of the log, so that nothing behind it was trimmed
            self._looked_ms = asked_ms
        return data in found

    def _known_after(self, after: int) -> Sequence[Entry] | None:
        """What is known of the log behind a position; None where it was trimmed meanwhile."""
        if self._position != after:
            return None
        known = list(self._known.values())
        self._stand_at(after + len(known), self._looked_ms)
        return known

    def _stand_at(self, position: int, looked_ms: int | None) -> None:
        self._position, self._looked_ms = position, looked_ms
        self._known.clear()

    def _looked_lately(self) -> bool:
        """Called after a response arrived, because this process may have been suspended before it.

        The response has the bucket's time. The machine's own clock stops while the machine is suspended.
        """
        return self._looked_ms is not None and 0 <= self._bucket.now_ms() - self._looked_ms < LOOK_MS

    def _following(self, after: int) -> list[Entry | None]:
        """The entries after a position: mostly there is none."""
        known: list[Entry | None] = list(self._known.values())
        first = after + 1 + len(known)
        return known + [entry_of(position, one) for position, one in enumerate(self._unbroken(first), first)]

    def _listed(self, after: int) -> list[Entry | None]:
        """The entries up to the last that is listed. A listing may leave out one that is put meanwhile."""
        positions = range(after + 1, self._last(after) + 1)
        return [
            None if data is None else entry_of(position, data)
            for position, data in zip(positions, self._get(positions), strict=True)
        ]

    def _unbroken(self, first: int, at_once: int = 1) -> list[bytes]:
        """The objects from a position up to the first that is missing. Who is far behind asks for many at once."""
        found: list[bytes] = []
        while True:
            for one in self._get(range(first + len(found), first + len(found) + at_once)):
                if one is None:
                    return found
                found.append(one)
            at_once = min(2 * at_once, AT_ONCE)

    def _get(self, positions: Iterable[int]) -> Sequence[bytes | None]:
        return self._bucket.get([entry_name(position) for position in positions])

    def _last(self, after: int) -> int:
        """The last position that is taken, or `after` if none is behind it."""
        return max((position for position, _ in self._numbered(ENTRIES, after)), default=after)

    def _floor(self) -> int:
        return max((position for position, _ in self._numbered(FLOORS)), default=BEGINNING)

    def _numbered(self, folder: str, after: int = BEGINNING) -> Iterator[tuple[int, int]]:
        """Positions and times of a folder's objects, from the one after a position on."""
        for listed in self._bucket.names(folder, "" if after == BEGINNING else _digits(after)):
            if listed.name.isdigit():  # else somebody else's
                yield int(listed.name), listed.time_ms


def probe(bucket: Bucket) -> None:
    """Let threads put the same objects at once, and see that one of them wins.

    A store that mostly keeps the condition may pass. The entries' chain of checksums notices it later, and stops.

    Raises:
        StoreAccessError: several won, or the one that won is not the one whose object there is.
    """
    with ThreadPoolExecutor(PROBING) as threads, _unavailable():
        for _ in range(PROBES):
            name = f"probes/{random_id()}"
            won = list(threads.map(lambda writer, name=name: bucket.put_new(name, b"%d" % writer), range(PROBING)))
            (kept,) = bucket.get([name])
            bucket.delete([name])
            winners = [b"%d" % writer for writer, has_won in enumerate(won) if has_won]
            if len(winners) > 1 or (winners and winners != [kept]):
                raise StoreAccessError(
                    "this object store lets several writers put the same object though each asked that there be none "
                    "(If-None-Match: *), so metadata would be lost: keep it elsewhere, see znodes",
                    winners=len(winners),
                )


@contextmanager
def _unavailable() -> Iterator[None]:
    try:
        yield
    except NoAnswerError as problem:
        raise StoreUnavailableError(
            "the bucket that keeps the metadata cannot be reached, or does not serve", reason=str(problem)
        ) from problem


def _digits(position: int) -> str:
    return f"{position:020}"  # ordered as the numbers are


def entry_name(position: int) -> str:
    """The name of an entry's object."""
    return f"{ENTRIES}/{_digits(position)}"


def _floor_name(position: int) -> str:
    return f"{FLOORS}/{_digits(position)}"


def data_of(entry: Entry) -> bytes:
    """What the object of an entry holds."""
    return _TIME.pack(entry.time_ms) + entry.body


def entry_of(position: int, data: bytes) -> Entry:
    """What an object holds.

    Raises:
        CorruptDataError: it is too short.
    """
    if len(data) < _TIME.size:
        raise CorruptDataError("an object of the command log is damaged", name=entry_name(position))
    return Entry(position, _TIME.unpack_from(data)[0], data[_TIME.size :])
