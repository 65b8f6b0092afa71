"""Simulated places: the storage that all processes share, with the faults of a network at each call.

They do what `batches/committables.py` assumes, and no more: a piece that `write` returned stays until it is shown or
discarded. Pieces are written by tasks, which may go on after their job, their driver and their attempt have ended. What
comes late stays where it is, unless the place refuses it.

    Folder    pieces are moved to where readers look, one after the other, as files are
    Database  a batch becomes visible at one moment, once; it may refuse rows before the decision
    Lake      the same, but it remembers only the newest batch, as the log of a table does
    OwnStore  what two functions of the user's write to
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from oncelog.batches.rules import BatchRequest
from oncelog.errors import FileUnavailableError, InvalidRecordError, OncelogError
from simulation.faults import Fault, Operation
from simulation.processes import Process
from simulation.world import World

T = TypeVar("T")

AWAY_MS = (50, 1_000, 8_000)
"""How long a place is away."""

COMMITS_TRIED = 3
"""How often a lake's commit is tried if others come first."""


class Names(NamedTuple):
    """What a ledger's record names of a decided batch: the pieces of the tasks that won."""

    attempt: str
    app_id: str
    batch_id: int
    pieces: tuple[str, ...]

    def to_texts(self) -> tuple[str, ...]:
        """As they are in the ledger; none if the batch has no rows."""
        return (self.attempt, self.app_id, str(self.batch_id), *self.pieces) if self.pieces else ()

    @classmethod
    def of(cls, texts: Sequence[str]) -> Names:
        attempt, app_id, batch_id, *pieces = texts
        return cls(attempt, app_id, int(batch_id), tuple(pieces))


@dataclass(slots=True)
class Piece:
    """What one attempt of a task wrote; rows by their position, so that a request that comes twice changes nothing."""

    rows: dict[int, int] = field(default_factory=dict)
    is_finished: bool = False
    changed_at: int = 0


class Judge(Protocol):
    """Who is told what becomes of pieces; see books.py."""

    def break_law(self, what: str) -> None: ...
    def showing(self, place: SharedPlace, attempt: str, pieces: Sequence[str]) -> None: ...
    def discarding(self, place: SharedPlace, attempt: str) -> None: ...


class SharedPlace(ABC):
    """One place.

    Args:
        judge: who is told what happens here.

    Attributes:
        name: for the trace.
        visible: the rows that readers see, by attempt and piece, in the order in which they became visible.
    """

    def __init__(self, world: World, name: str, judge: Judge) -> None:
        self.name = name
        self.visible: dict[str, dict[str, list[int]]] = {}
        self._world = world
        self._judge = judge
        self._staged: dict[str, dict[str, Piece]] = {}
        self._emptied_at: dict[str, int] = {}
        self._moment = 0
        self._away_until_ms = 0

    # Calls

    def look(self, process: Process, what: str) -> None:
        """Reach the place, for a call that changes nothing."""
        self._reach(process, Operation.PLACE_READ, what)

    def ask(self, process: Process, what: str, do: Callable[[], T]) -> T:
        """Have the place do something, at one moment.

        Raises:
            FileUnavailableError: it is away, or it did not answer, whatever became of the request.
        """
        fault = self._reach(process, Operation.PLACE_WRITE, what)
        if fault in (Fault.DELAYED_REQUEST, Fault.LOST_REQUEST):
            if fault is Fault.DELAYED_REQUEST:
                self._do_later(what, do)
            raise self._no_answer()
        result = do()
        if fault is Fault.CRASH_AFTER:
            process.die_after()
        if fault is Fault.REPEATED_REQUEST:
            self._do_later(what, do)
        if fault is Fault.LOST_REPLY:
            raise self._no_answer()
        return result

    def _reach(self, process: Process, operation: Operation, what: str) -> Fault | None:
        fault = process.ask(operation, f"{self.name}: {what}")
        now_ms = self._world.scheduler.now_ms
        if fault is Fault.UNAVAILABLE:
            self._away_until_ms = now_ms + self._world.chance.choice(AWAY_MS)
        if now_ms < self._away_until_ms:
            raise FileUnavailableError("the place is away", place=self.name)
        return fault

    def _do_later(self, what: str, do: Callable[[], object]) -> None:
        def deliver() -> None:
            with suppress(OncelogError):  # nobody hears of it
                do()

        self._world.deliver_later(f"{self.name}: {what}", deliver, Operation.PLACE_WRITE)

    def _no_answer(self) -> FileUnavailableError:
        return FileUnavailableError("the place did not answer", place=self.name)

    # What is staged

    def begin(self, process: Process, attempt: str) -> None:  # noqa: B027 - most need no room
        """Make room for the pieces of an attempt."""

    def stage(self, process: Process, attempt: str, rows: Sequence[int]) -> str:
        """Write a piece, row by row. Returns its name."""
        piece = process.name
        for at, number in enumerate(rows):
            self.ask(process, f"put {attempt}/{piece}", partial(self._put, attempt, piece, at, number))
        self.ask(process, f"finish {attempt}/{piece}", partial(self._finish, attempt, piece, len(rows)))
        return piece

    def prepare(self, process: Process, names: Names) -> None:  # noqa: B027 - most take all rows
        """See whether the place takes the rows.

        Raises:
            InvalidRecordError: it refuses one.
        """

    def discard(self, process: Process, attempt: str) -> None:
        """Remove what an attempt staged, one piece after the other. What is staged meanwhile stays."""
        self._judge.discarding(self, attempt)
        self._empty(process, attempt)

    def _empty(self, process: Process, attempt: str) -> None:
        self.look(process, f"list {attempt}")
        listed, began_at = sorted(self._staged.get(attempt, {})), self._tick()
        for piece in listed:
            self.ask(process, f"remove {attempt}/{piece}", partial(self._remove, attempt, piece))
        self._emptied_at[attempt] = began_at

    def left(self) -> Iterator[str]:
        """What should have been removed: all that is staged, but for what was staged while or after its removal."""
        for attempt, pieces in self._staged.items():
            for name, piece in pieces.items():
                if piece.changed_at <= self._emptied_at.get(attempt, self._moment):
                    yield f"{self.name}: {attempt}/{name} is left"

    def _put(self, attempt: str, piece: str, at: int, number: int) -> None:
        self._piece(attempt, piece).rows[at] = number

    def _finish(self, attempt: str, piece: str, count: int) -> None:
        found = self._piece(attempt, piece)
        found.is_finished = len(found.rows) == count

    def _piece(self, attempt: str, piece: str) -> Piece:
        found = self._staged.setdefault(attempt, {}).setdefault(piece, Piece())
        found.changed_at = self._tick()
        return found

    def _remove(self, attempt: str, piece: str) -> None:
        self._staged.get(attempt, {}).pop(piece, None)

    def _tick(self) -> int:
        self._moment += 1
        return self._moment

    # What is visible

    @abstractmethod
    def show(self, process: Process, names: Names) -> None:
        """Make the pieces of a decided batch visible, unless they are."""

    def has_history(self, process: Process, asked: BatchRequest) -> bool:
        """See `Committer.has_history`."""
        self.look(process, "batches")
        return self.knows(asked)

    def knows(self, asked: BatchRequest) -> bool:
        """Whether it shows that the query has a history."""
        return False

    def is_shown(self, names: Names) -> bool:
        """Whether all of a batch is visible."""
        return set(names.pieces) <= self.visible.get(names.attempt, {}).keys()

    def _show(self, attempt: str, pieces: Sequence[str]) -> None:
        self._judge.showing(self, attempt, pieces)
        for piece in pieces:
            found = self._staged.get(attempt, {}).get(piece)
            if found is None or not found.is_finished:
                self._judge.break_law(f"{self.name}: {attempt}/{piece} is to be shown, and is not there")
                return
            self.visible.setdefault(attempt, {})[piece] = [found.rows[at] for at in sorted(found.rows)]


class Folder(SharedPlace):
    """Pieces are moved, one after the other."""

    def show(self, process: Process, names: Names) -> None:
        for piece in names.pieces:
            self.ask(process, f"move {names.attempt}/{piece}", partial(self._move, names.attempt, piece))
        self._empty(process, names.attempt)

    def _move(self, attempt: str, piece: str) -> None:
        if piece not in self.visible.get(attempt, {}):
            self._show(attempt, [piece])
            self._remove(attempt, piece)


class Database(SharedPlace):
    """Rows are staged in a table for each attempt, and inserted by one transaction.

    Attributes:
        refused: rows that break a constraint.
    """

    def __init__(self, world: World, name: str, judge: Judge) -> None:
        super().__init__(world, name, judge)
        self.refused: set[int] = set()
        self._queries: set[str] = set()

    def begin(self, process: Process, attempt: str) -> None:
        self.ask(process, f"create {attempt}", lambda: self._staged.setdefault(attempt, {}))

    def prepare(self, process: Process, names: Names) -> None:
        self.look(process, f"insert {names.attempt}")
        staged = self._staged.get(names.attempt, {})
        rows = {number for piece in names.pieces if piece in staged for number in staged[piece].rows.values()}
        if rows & self.refused:
            raise InvalidRecordError("a row breaks a constraint", rows=sorted(rows & self.refused))

    def show(self, process: Process, names: Names) -> None:
        self.ask(process, f"commit {names.attempt}", partial(self._commit, names))
        self._empty(process, names.attempt)

    def knows(self, asked: BatchRequest) -> bool:
        has_prefix = any(query.startswith(f"{asked.prefix}/") for query in self._queries)
        return (asked.batch_id > 0 and has_prefix) or f"{asked.prefix}/{asked.query_id}" in self._queries

    def _commit(self, names: Names) -> None:
        if names.attempt not in self.visible:
            self._show(names.attempt, names.pieces)
            self._queries.add(names.app_id)

    def _empty(self, process: Process, attempt: str) -> None:
        self.ask(process, f"drop {attempt}", partial(self._drop, attempt))

    def _drop(self, attempt: str) -> None:
        self._staged.pop(attempt, None)
        self._emptied_at[attempt] = self._tick()

    def _piece(self, attempt: str, piece: str) -> Piece:
        if attempt not in self._staged:
            raise FileUnavailableError("there is no such table", table=attempt)
        return super()._piece(attempt, piece)


class Lake(SharedPlace):
    """Pieces stay where they are, and are added to a table by one entry of its log, with the number of their batch."""

    def __init__(self, world: World, name: str, judge: Judge) -> None:
        super().__init__(world, name, judge)
        self._version = 0
        self._newest: dict[str, int] = {}

    def show(self, process: Process, names: Names) -> None:
        for _ in range(COMMITS_TRIED):
            self.look(process, "log")
            if self._newest.get(names.app_id, -1) >= names.batch_id:
                return
            add = partial(self._add, names, self._version)
            if self.ask(process, f"add {names.attempt}", add):
                return
        raise FileUnavailableError("others commit all the time", place=self.name)

    def knows(self, asked: BatchRequest) -> bool:
        return f"{asked.prefix}/{asked.query_id}" in self._newest

    def left(self) -> Iterator[str]:
        """What losers wrote beside a batch stays, as it does in a table's folder."""
        return (text for text in super().left() if not any(f" {attempt}/" in text for attempt in self.visible))

    def _add(self, names: Names, version: int) -> bool:
        if version != self._version:
            return False
        self._show(names.attempt, names.pieces)
        self._version += 1
        self._newest[names.app_id] = names.batch_id
        return True


class OwnStore(SharedPlace):
    """Rows that were written together with a token, under a unique key."""

    def show(self, process: Process, names: Names) -> None:
        raise NotImplementedError("the functions write")

    def write(self, process: Process, rows: Sequence[int], token: str) -> None:
        """Write the rows and the token, or nothing.

        Raises:
            FileUnavailableError: not now, or the token is there.
        """
        self.ask(process, f"insert {token}", partial(self._insert, list(rows), token))

    def was_written(self, process: Process, token: str) -> bool:
        self.look(process, f"token {token}")
        return token.rpartition(".")[2] in self.visible

    def is_shown(self, names: Names) -> bool:
        return names.attempt in self.visible

    def _insert(self, rows: list[int], token: str) -> None:
        attempt = token.rpartition(".")[2]
        if attempt in self.visible:
            raise FileUnavailableError("the token is there already", token=token)
        self._judge.showing(self, attempt, [token])
        self.visible[attempt] = {token: rows}
