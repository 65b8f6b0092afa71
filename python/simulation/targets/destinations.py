"""What a simulated query writes to: the product's targets, over simulated places and a simulated log."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from oncelog.batches.attempt import Target
from oncelog.batches.committables import CommittableRound, CommitterTarget, committable_ledgers
from oncelog.batches.committer import Committable, Committer
from oncelog.batches.ledger import EMBEDDED, LedgerKind, RoundRecord
from oncelog.batches.offsets import GroupProgress
from oncelog.batches.rules import BatchRequest
from oncelog.batches.two_functions import ONCE_LEDGERS, OnceTarget
from oncelog.errors import InvalidRecordError, OncelogError
from oncelog.ports import ZnodeStore
from oncelog.spark.kit.options import HistoryOptions
from oncelog.spark.log_target import LogTarget
from oncelog.spark.writing import WriteTask, Written, write_all
from simulation.clients import value_of
from simulation.processes import Process
from simulation.sinks import Told, sink_options, sink_rows
from simulation.targets.places import Database, Names, OwnStore, SharedPlace
from simulation.tasks import Task

if TYPE_CHECKING:
    from simulation.targets.queries import TargetQuery

PREFIX = "größe/a.b\"c'd`e%41 f"
"""A name that stores escape, each in its own way."""

Rows = Sequence[Sequence[int]]
"""The rows of a batch, by Spark's partition."""


class Destination(ABC):
    """One target of a query.

    Args:
        name: of the target, and of its history.
        is_choosy: whether it gets only the even ones of the rows.
        speculative: see `Task`.

    Attributes:
        kind: of its ledger.
        options: of its sink.
        place: where the rows go; None for a log.
    """

    kind: LedgerKind[Any]
    place: SharedPlace | None = None

    def __init__(self, name: str, *, is_choosy: bool, speculative: float) -> None:
        self.name = name
        self.options = HistoryOptions(transactional_id_prefix=PREFIX, sink_name=name)
        self._is_choosy = is_choosy
        self._speculative = speculative

    @property
    def prefix(self) -> str:
        """Of its ledger."""
        return f"{PREFIX}.{self.options.sink_name}"

    def chosen(self, rows: Rows) -> list[list[int]]:
        """What it gets of a batch."""
        return [[number for number in some if not (self._is_choosy and number % 2)] for some in rows]

    @abstractmethod
    def opened(self, process: Process, store: ZnodeStore) -> Target[Any]:
        """The product's target, with its ledger in this store."""

    @abstractmethod
    def job(self, process: Process, request: BatchRequest, rows: Rows, told: Told) -> Any:
        """What the target takes as a job."""

    def progress(self, start: int | None, end: int) -> GroupProgress[Any] | None:
        """What the target's group learns of a batch, if it has one.

        Args:
            start, end: the batch's offsets in the source; without a start at the query's first batch.
        """
        return None

    def mend(self, query: TargetQuery, process: Process, error: OncelogError) -> bool:
        """Do what an error asks the operator for. Returns whether there is something to do."""
        return False

    def given_up(self) -> set[int]:
        """Rows that may be missing, because an error of the target said so."""
        return set()

    @abstractmethod
    def shows(self, record: RoundRecord) -> bool:
        """Whether all of a decided batch is visible."""

    @abstractmethod
    def seen(self, in_log: Sequence[tuple[int, int]]) -> list[list[int]]:
        """What readers see, one list for each order in which they see it.

        Args:
            in_log: partition and number of each record of the log's topic, in order.
        """

    @abstractmethod
    def left(self, end: int) -> Iterator[str]:
        """What is not as it should be after the last batch.

        Args:
            end: of the source.
        """

    def _run(self, process: Process, work: Callable[..., Any], rows: Rows) -> list[Any]:
        """What the tasks that won returned, one for each partition with rows.

        Args:
            work: takes the process of an attempt, and `rows`.
        """
        tasks = [partial(work, rows=some) for some in rows if some]
        name = f"{self.name}-task"
        return [Task(process, name, task, speculative=self._speculative).run() for task in tasks]


# Places ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlaceJob:
    """A job for a place.

    Attributes:
        app_id, batch_id: of the batch, as a place may keep them.
        rows: how many there are.
        run: runs the tasks of an attempt, and returns the pieces of those that won.
    """

    app_id: str
    batch_id: int
    rows: int
    run: Callable[[str], tuple[str, ...]]


class PlaceCommitter(Committer[PlaceJob]):
    """A driver's committer for an attempt at a batch."""

    def __init__(self, process: Process, shared: SharedPlace, request: BatchRequest) -> None:
        self._process = process
        self._shared = shared
        self._request = request

    def stage(self, job: PlaceJob, attempt: str) -> Committable:
        pieces: tuple[str, ...] = ()
        if job.rows:
            self._shared.begin(self._process, attempt)
            pieces = job.run(attempt)
        return Committable(Names(attempt, job.app_id, job.batch_id, pieces).to_texts(), job.rows)

    def validate(self, staged: Committable) -> None:
        if staged.parts:
            self._shared.prepare(self._process, Names.of(staged.parts))

    def commit(self, parts: Sequence[str]) -> None:
        if parts:
            self._shared.show(self._process, Names.of(parts))

    def discard(self, attempt: str) -> None:
        self._shared.discard(self._process, attempt)

    def has_history(self) -> bool:
        return self._shared.has_history(self._process, self._request)


class OfPlace(Destination):
    """One with a simulated place."""

    place: SharedPlace

    def mend(self, query: TargetQuery, process: Process, error: OncelogError) -> bool:
        if not (isinstance(error, InvalidRecordError) and isinstance(self.place, Database)):
            return False
        process.world.counts["batches refused by a place"] += 1
        self.place.refused.clear()
        return True

    @abstractmethod
    def names_of(self, record: CommittableRound) -> Names:
        """What the record of a batch with rows names."""

    def shows(self, record: RoundRecord) -> bool:
        is_empty = not isinstance(record, CommittableRound) or not record.names
        return is_empty or self.place.is_shown(self.names_of(record))  # type: ignore[arg-type]

    def seen(self, in_log: Sequence[tuple[int, int]]) -> list[list[int]]:
        return [[number for pieces in self.place.visible.values() for piece in pieces.values() for number in piece]]

    def left(self, end: int) -> Iterator[str]:
        return self.place.left()


class PlaceDestination(OfPlace):
    """A simulated place. Those of one class share the root of their ledgers."""

    def __init__(self, place: SharedPlace, *, is_choosy: bool = False, speculative: float = 0.0) -> None:
        super().__init__(place.name, is_choosy=is_choosy, speculative=speculative)
        self.place = place
        self.kind = committable_ledgers(f"/{type(place).__name__.lower()}s")

    def opened(self, process: Process, store: ZnodeStore) -> Target[Any]:
        found = CommitterTarget(store, self.kind, lambda batch: PlaceCommitter(process, self.place, batch.request))
        found.clock = process
        return found

    def names_of(self, record: CommittableRound) -> Names:
        return Names.of(record.names)

    def job(self, process: Process, request: BatchRequest, rows: Rows, told: Told) -> PlaceJob:
        def run(attempt: str) -> tuple[str, ...]:
            return tuple(self._run(process, partial(self._stage, attempt=attempt), rows))

        app_id = f"{request.prefix}/{request.query_id}"
        return PlaceJob(app_id, request.batch_id, sum(map(len, rows)), run)

    def _stage(self, process: Process, rows: Sequence[int], attempt: str) -> str:
        return self.place.stage(process, attempt, rows)


class OnceDestination(OfPlace):
    """Two functions of the user's."""

    kind = ONCE_LEDGERS
    place: OwnStore

    def __init__(self, place: OwnStore, *, is_choosy: bool = False) -> None:
        super().__init__(place.name, is_choosy=is_choosy, speculative=0.0)
        self.place = place

    def opened(self, process: Process, store: ZnodeStore) -> Target[Any]:
        write, was_written = partial(self.place.write, process), partial(self.place.was_written, process)
        found = OnceTarget(store, write, was_written)
        found.clock = process
        return found

    def job(self, process: Process, request: BatchRequest, rows: Rows, told: Told) -> list[int]:
        return [number for some in rows for number in some]

    def names_of(self, record: CommittableRound) -> Names:
        return Names(record.nonce, "", record.batch_id, (record.names[0],))


# The log --------------------------------------------------------------------------------------------------------------


class LogDestination(Destination):
    """A topic of the log."""

    kind = EMBEDDED

    def __init__(
        self,
        topic: str,
        partitions: int,
        *,
        round_timeout_ms: int = 60_000,
        is_choosy: bool = False,
        speculative: float = 0.0,
    ) -> None:
        super().__init__("log", is_choosy=is_choosy, speculative=speculative)
        self.topic = topic
        self.partitions = partitions
        self.options = sink_options(
            topic=topic,
            transactionalIdPrefix=PREFIX,
            sinkName=self.name,
            roundTimeoutMs=round_timeout_ms,
            codec="null",
        )

    def opened(self, process: Process, store: ZnodeStore) -> Target[Any]:
        return LogTarget(process.open(), self.options)  # type: ignore[arg-type]

    def job(
        self, process: Process, request: BatchRequest, rows: Rows, told: Told
    ) -> Callable[[WriteTask], Iterable[Written]]:
        def run(task: WriteTask) -> list[Written]:
            told.writes(self.topic, [number for some in rows for number in some], self.partitions)
            found = self._run(process, partial(self._write, task=task), rows)
            return [one for written in found for one in written]

        return run

    def shows(self, record: RoundRecord) -> bool:
        return True

    def seen(self, in_log: Sequence[tuple[int, int]]) -> list[list[int]]:
        return [[n for at, n in in_log if at == partition] for partition in range(self.partitions)]

    def left(self, end: int) -> Iterator[str]:
        return iter(())

    def _write(self, process: Process, rows: Sequence[int], task: WriteTask) -> list[Written]:
        table = sink_rows([value_of(number) for number in rows], self.partitions, process.world.wall_ms())
        return write_all(task, iter([table]), process.files)


def continuing(options: HistoryOptions, query_id: str) -> HistoryOptions:
    """The options of a sink that continues the history of another query."""
    return replace(options, takeover=query_id)
