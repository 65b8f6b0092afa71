"""The embedded log as a target of sinks. A batch is one round, whose data becomes visible with its decision."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import Any, TypeVar

from oncelog import limits
from oncelog.batches.attempt import Batch, BatchReport
from oncelog.batches.ledger import EMBEDDED
from oncelog.batches.steps import BatchSteps
from oncelog.batches.transaction import Step
from oncelog.clients.sender import Sender
from oncelog.clients.upkeep import Upkeep
from oncelog.coordinator import rounds
from oncelog.coordinator.rounds import Round
from oncelog.errors import (
    OncelogError,
    OutcomeUnknownError,
    PartitionPinnedError,
    RetriableError,
    UnknownPartitionError,
    UnknownTopicError,
    ensure,
)
from oncelog.log import generations, topics
from oncelog.ports import ZnodeReader, ZnodeStore
from oncelog.randomness import random_id
from oncelog.runtime import Log
from oncelog.spark.options import SinkOptions
from oncelog.spark.writing import WriteTask, Written
from oncelog.types import Block, TopicIdPartition
from oncelog.znodes.payloads import OwnerRecord
from oncelog.znodes.transact import recently

T = TypeVar("T")

RENEWALS_PER_TIMEOUT = 3

SETTLED_EVERY = 4
"""Batches between two settlings on a high-latency store."""

Job = Callable[[WriteTask], Iterable[Written]]
"""Runs the tasks of a batch and returns what they wrote, in the order of the rows."""


class LogTarget:
    """A log that batches are written to; see `Target`."""

    ledgers = EMBEDDED

    def __init__(self, log: Log, options: SinkOptions) -> None:
        self.log = log
        self.options = options
        self.store = log.services.store
        self.clock = log.services.clock
        self.services = log.services.new_round_services()
        self.upkeep = Upkeep(log.services)

        self._written: set[TopicIdPartition] = set()
        self._batches = SETTLED_EVERY  # since the last settling; the first one is due at once
        self._settles_with_decisions = False

    def attempt(self, batch: Batch[Job]) -> LogAttempt:
        return LogAttempt(self, batch)

    def decide(self, round_: Round) -> Step[OwnerRecord]:
        """The step that decides a round; on a high-latency store, it also settles those of every few batches."""
        self._settles_with_decisions = round_.is_one_step
        is_due = round_.is_one_step and self._batches >= SETTLED_EVERY
        settling = self.upkeep.settling(self._written) if is_due else None
        step = round_.decide(None if settling is None else settling.run)

        def take(record: OwnerRecord) -> None:
            step.take(record)
            if settling is not None:
                self.upkeep.has_settled(settling)
            if is_due:
                self._has_settled()

        def recover(problem: Exception) -> bool:
            if settling is not None and self.upkeep.is_to_blame(problem):
                self._has_settled()  # a later batch tries again
                return True
            return step.recover(problem)

        return Step(step.run, take, recover)

    def after_batch(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Settle owners if that is due; on a high-latency store, those of a few batches together."""
        self._written.update(partitions)
        self._batches += 1
        if self._settles_with_decisions or (self._batches < SETTLED_EVERY and self.store.joins_steps):
            return
        self.upkeep.after_writing(self._written)
        self._has_settled()

    def _has_settled(self) -> None:
        self._written.clear()
        self._batches = 0


class LogAttempt:
    """One round of the log; see `Attempt`."""

    def __init__(self, target: LogTarget, batch: Batch[Job]) -> None:
        self._target = target
        self._log = target.log
        self._batch = batch
        self._steps = BatchSteps(EMBEDDED, target.store, batch.request)
        self._opened: Round | None = None
        self._has_unblocked = False
        self._blocks: dict[TopicIdPartition, list[Block]] = {}

    @property
    def _round(self) -> Round:
        ensure(self._opened is not None, "the round has begun")
        return self._opened  # type: ignore[return-value]

    @property
    def is_open(self) -> bool:
        return self._opened is not None

    def plan(self) -> Step[Any] | None:
        def take(opened: Round | None) -> None:
            self._opened = opened

        timeout_ms, is_alone = self._target.options.round_timeout_ms, self._batch.shared is None
        return rounds.plan(self._target.services, self._steps, take, timeout_ms=timeout_ms, is_alone=is_alone)

    def kept_alive(self) -> AbstractContextManager[None]:
        opened = self._round

        def renew() -> bool:
            try:
                opened.renew()
            except (RetriableError, OutcomeUnknownError):
                return True
            except OncelogError:
                return False  # the round is over; the batch's next step raises the error
            return True

        pause_ms = self._target.options.round_timeout_ms // RENEWALS_PER_TIMEOUT
        if self._target.store.joins_steps:
            pause_ms = min(pause_ms, limits.ROUND_OPENED_AFTER_MS)
        return self._log.services.background.every_ms(pause_ms, renew, name=f"oncelog-renew-{opened.number}")

    def write(self, report: BatchReport) -> None:
        written = list(self._batch.job(write_task(self._log, self._target.options)))
        report.rows = sum(piece.block.count for piece in written)
        report.size_bytes = sum(piece.block.length for piece in written)
        self._blocks = _found(self._log.services.store, lambda reader: by_partition(reader, written))
        report.participants = len({partition.partition for partition in self._blocks})

    def prepare(self, report: BatchReport) -> None:
        """Append the blocks under the round."""
        try:
            self._round.write(self._blocks)
        except PartitionPinnedError:
            self._target.upkeep.unblock(self._blocks)
            self._round.write(self._blocks)
        if self._batch.progress is not None:
            self._round.stage_offsets(self._batch.progress)

    def decide(self, report: BatchReport) -> Step[OwnerRecord]:
        step = self._target.decide(self._round)
        return replace(step, recover=lambda problem: self._unblock(problem) or step.recover(problem))

    def _unblock(self, problem: Exception) -> bool:
        """If a partition lists too many owners, settle some; on a high-latency store, the step that decides appends."""
        if not isinstance(problem, PartitionPinnedError) or self._has_unblocked:
            return False
        self._has_unblocked = True
        self._target.upkeep.unblock(self._blocks)
        return True

    def commit(self, report: BatchReport) -> None:
        """Nothing to do: the decision made the data visible."""

    def abort(self) -> None:
        self._round.abort()

    def finish(self) -> None:
        """Settle owners if upkeep is due. A failure is ignored: the next batch tries again."""
        self._target.after_batch(() if self._opened is None else self._opened.partitions)
        with suppress(RetriableError, OutcomeUnknownError):
            rounds.forget_old_rounds(self._log.services.store, self._batch.request.prefix)

    def close(self) -> None:
        """Nothing to do: the log stays open."""


def write_task(log: Log, options: SinkOptions) -> WriteTask:
    """What the tasks of a batch need to know.

    The caller wrote to `log` (a round, a hold) since the batch began, or else since the one before it was decided. So a
    topic that was created meanwhile is looked for.

    Raises:
        UnknownTopicError: the option `topic` names one that does not exist.
    """
    store = log.services.store
    with recently(store) if options.topic is not None else store.snapshot() as reader:
        if options.topic is None:
            partitions = {name: topic.partitions for name, topic in topics.states(reader).items()}
        else:
            partitions = {options.topic: len(topics.partitions_of(reader, options.topic))}
        generation = generations.current(reader)
    return WriteTask(log.path, generation, options.codec, partitions, options.topic)


def _found(store: ZnodeStore, find: Callable[[ZnodeReader], T]) -> T:
    """What is found as of a moment that has passed, or else now: others may know of younger topics."""
    try:
        with recently(store) as reader:
            return find(reader)
    except (UnknownTopicError, UnknownPartitionError):
        with store.snapshot() as reader:
            return find(reader)


def by_partition(reader: ZnodeReader, written: Iterable[Written]) -> dict[TopicIdPartition, list[Block]]:
    """Blocks by log partition, in the order of the rows.

    Raises:
        UnknownTopicError, UnknownPartitionError: while the tasks ran, a topic was deleted, or created again with fewer
            partitions.
    """
    identified: dict[str, list[TopicIdPartition]] = {}
    found: dict[TopicIdPartition, list[Block]] = {}
    for piece in written:
        if piece.topic not in identified:
            identified[piece.topic] = topics.partitions_of(reader, piece.topic)
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
    """Commit what the tasks of a batch write wrote, in one transaction with a new transactional id."""
    with log.services.store.snapshot() as reader:
        blocks = by_partition(reader, written)
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
