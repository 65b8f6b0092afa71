"""A sink's driver side: one micro-batch, from the ledger's verdict to the decision. Used by both doors of the sink."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass

from oncelog import limits
from oncelog.clients.sender import Sender
from oncelog.clients.upkeep import Upkeep
from oncelog.coordinator import rounds
from oncelog.coordinator.rounds import BatchOffsets, Round
from oncelog.crash_points import CrashPoint, reach
from oncelog.errors import (
    OncelogError,
    OutcomeUnknownError,
    PartitionPinnedError,
    RetriableError,
    RoundAbortedError,
    UnknownPartitionError,
)
from oncelog.log import generations, topics
from oncelog.protocol.batch_ledger import BatchRequest
from oncelog.randomness import random_id
from oncelog.runtime import Log
from oncelog.spark.context import BatchContext
from oncelog.spark.offsets import fingerprint
from oncelog.spark.options import SinkOptions
from oncelog.spark.writing import WriteTask, Written
from oncelog.types import Block, TopicIdPartition

RENEWALS_PER_TIMEOUT = 3


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What a sink did with a batch.

    Attributes:
        batch_id: of the micro-batch.
        is_replay: the log held the batch already; nothing was written.
        rows, size_bytes: written; bytes are compressed.
        write_ms, append_ms, decide_ms: how long the tasks' job, the appends and the decision took.
    """

    batch_id: int
    is_replay: bool = False
    rows: int = 0
    size_bytes: int = 0
    write_ms: int = 0
    append_ms: int = 0
    decide_ms: int = 0


def write_task(log: Log, options: SinkOptions) -> WriteTask:
    """What the tasks of a batch need to know.

    Raises:
        UnknownTopicError: the topic of the options does not exist.
    """
    store = log.services.store
    with store.snapshot() as reader:
        if options.topic is None:
            partitions = {name: topic.partitions for name, topic in topics.states(reader).items()}
        else:
            partitions = {options.topic: len(topics.partitions_of(reader, options.topic))}
        generation = generations.current(reader)
    return WriteTask(log.path, generation, options.codec, partitions, options.topic)


def batch_request(options: SinkOptions, batch: BatchContext, run_id: str) -> BatchRequest:
    """What a sink asks of the ledger for a batch.

    Args:
        options: of the sink; a `sinkName` gives it a history of its own below the prefix.
        batch: as Spark's checkpoint has it.
        run_id: of the query's run.
    """
    prefix = options.transactional_id_prefix or batch.query_id
    return BatchRequest(
        prefix=f"{prefix}.{options.sink_name}" if options.sink_name else prefix,
        query_id=batch.query_id,
        sink_name=options.sink_name or options.topic or "",
        run_id=run_id,
        batch_id=batch.batch_id,
        fingerprint=fingerprint(batch.start_offsets, batch.end_offsets),
        group_id=options.group_id,
        takeover=options.takeover,
    )


class BatchDriver:
    """Runs the rounds of one sink over one log."""

    def __init__(self, log: Log, options: SinkOptions) -> None:
        self.log = log
        self._options = options
        self._services = log.services.new_round_services()
        self._upkeep = Upkeep(log.services)
        self._clock = log.services.clock

    def run(
        self,
        request: BatchRequest,
        offsets: BatchOffsets | None,
        write: Callable[[WriteTask], Iterable[Written]],
        *,
        is_repeatable: bool = False,
    ) -> BatchReport:
        """Write one batch, exactly once.

        Args:
            request: which batch of which query.
            offsets: the source offsets that become the group's with the batch.
            write: runs the tasks and returns what they wrote, in the order of the rows.
            is_repeatable: whether `write` may be called a second time, in a new round, where others aborted the first
                one before its decision (a time-out, an operator), as a restart of the query would do.

        Raises:
            RunSupersededError, BatchRefusedError, RoundAbortedError: see protocol/batch_ledger.py; nothing was written.
            Whatever `write` raises; the round is aborted then.
        """
        try:
            return self._run(request, offsets, write)
        except RoundAbortedError:
            if not is_repeatable:
                raise
            return self._run(request, offsets, write)

    def _run(
        self, request: BatchRequest, offsets: BatchOffsets | None, write: Callable[[WriteTask], Iterable[Written]]
    ) -> BatchReport:
        round_ = rounds.begin(self._services, request, timeout_ms=self._options.round_timeout_ms)
        if round_ is None:
            self._settle(request.prefix, ())
            return BatchReport(request.batch_id, is_replay=True)
        try:
            report = self._write(round_, request, offsets, write)
        except BaseException:
            with suppress(OncelogError):
                round_.abort()
            raise
        self._settle(request.prefix, round_.partitions)
        reach(CrashPoint.SINK_DONE)
        return report

    def _write(
        self,
        round_: Round,
        request: BatchRequest,
        offsets: BatchOffsets | None,
        write: Callable[[WriteTask], Iterable[Written]],
    ) -> BatchReport:
        started_ms = self._clock.monotonic_ms()
        with self._renewed(round_):
            written = list(write(write_task(self.log, self._options)))
            written_ms = self._clock.monotonic_ms()
            self._append(round_, by_partition(self.log, written))
            if offsets is not None:
                round_.stage_offsets(offsets)
            appended_ms = self._clock.monotonic_ms()
        round_.decide()
        return BatchReport(
            request.batch_id,
            rows=sum(piece.block.count for piece in written),
            size_bytes=sum(piece.block.length for piece in written),
            write_ms=written_ms - started_ms,
            append_ms=appended_ms - written_ms,
            decide_ms=self._clock.monotonic_ms() - appended_ms,
        )

    def _append(self, round_: Round, blocks: Mapping[TopicIdPartition, Sequence[Block]]) -> None:
        """Append a batch's blocks; makes room first where a partition lists too many unsettled owners."""
        try:
            round_.write(blocks)
        except PartitionPinnedError:
            self._upkeep.unblock(blocks)
            round_.write(blocks)

    def _renewed(self, round_: Round) -> AbstractContextManager[None]:
        """Tell the others, while a long job runs, that this driver lives."""

        def renew() -> bool:
            try:
                round_.renew()
            except (RetriableError, OutcomeUnknownError):
                return True
            except OncelogError:
                return False  # the round is over: the batch's next step says so
            return True

        pause_ms = self._options.round_timeout_ms // RENEWALS_PER_TIMEOUT
        return self.log.services.background.every_ms(pause_ms, renew, name=f"oncelog-renew-{round_.number}")

    def _settle(self, prefix: str, partitions: Iterable[TopicIdPartition]) -> None:
        """Shorten the lists of the partitions, when it is time. Only upkeep: what fails is left to the next batch."""
        self._upkeep.after_writing(partitions)
        with suppress(RetriableError, OutcomeUnknownError):
            rounds.forget_old_rounds(self.log.services.store, prefix)


def by_partition(log: Log, written: Iterable[Written]) -> dict[TopicIdPartition, list[Block]]:
    """Blocks by log partition, in the order of the rows.

    Raises:
        UnknownTopicError, UnknownPartitionError: a topic was deleted, or created again smaller, while the tasks worked.
    """
    identified: dict[str, list[TopicIdPartition]] = {}
    found: dict[TopicIdPartition, list[Block]] = {}
    for piece in written:
        if piece.topic not in identified:
            identified[piece.topic] = topics.partitions_of(log.services.store, piece.topic)
        places = identified[piece.topic]
        if piece.partition >= len(places):
            raise UnknownPartitionError(
                "the topic was created again with fewer partitions while the tasks wrote to it; run the batch again",
                topic=piece.topic,
                partition=piece.partition,
                partitions=len(places),
            )
        found.setdefault(places[piece.partition], []).append(piece.block)
    return found


def commit_once(log: Log, written: Iterable[Written]) -> None:
    """Commit what the tasks of a batch write wrote, in one transaction of an id of its own."""
    blocks = by_partition(log, written)
    if not blocks:
        return
    transactional_id = f"batch-write.{random_id()}"
    coordinator = log.services.coordinator
    producer = coordinator.init_producer_id(transactional_id, timeout_ms=limits.MAX_TRANSACTION_TIMEOUT_MS).producer
    sender = Sender(log.services, codec=limits.DEFAULT_CODEC, delivery_timeout_ms=limits.MAX_TRANSACTION_TIMEOUT_MS)
    try:
        sender.append_blocks(blocks, producer, transactional_id)
    except BaseException:
        with suppress(OncelogError):
            coordinator.end_txn(transactional_id, producer, commit=False)
        raise
    coordinator.end_txn(transactional_id, producer, commit=True)
