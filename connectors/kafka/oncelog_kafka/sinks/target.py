"""Kafka as a target of sinks: each task leaves a transaction open, the ledger decides, then all are committed.

Crash points:

    plan      the round is open, its lease recorded, the previous round aborted  → a restart aborts it and starts over
    fence     what older leases left open is being aborted                       → the same
    write     tasks have prepared transactions                                   → a restart fences them
    decide    the round names its participants: the batch will be committed      → a restart sends the commits
    end       some participants are committed, others not yet                    → the same
    complete  nothing is left to do                                              → a restart skips the batch

Assumptions: one multi is atomic, and every step compares the ledger and the round that it was derived from. A
transaction that nobody ends stays open until its time-out. An id is used by one lease only, and a lease is recorded
before its ids are used. Hence only participants that a decision names are ever committed, and all of them are, unless
the brokers abort one first. Whatever a superseded driver or a task left open can only be aborted.

An id whose outcome is not recorded is never initialised, because that would abort a prepared transaction. So recovery
finishes decided rounds before it fences, and fencing leaves out what decided rounds name.

Executors keep producers for the next batch of a lease. A task goes on with one only by a *handover*: the driver saw the
commit of that very transaction answered, and passes on whom the coordinator named in its answer (ProducerCache.java).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property

from oncelog.batches.attempt import Batch, BatchReport
from oncelog.batches.steps import OpenRound
from oncelog.batches.transaction import Step, run_steps
from oncelog.crash_points import reach
from oncelog.errors import (
    InvalidTransactionTimeoutError,
    NotPreparedError,
    RoundAbortedError,
    UnknownTopicError,
    ensure,
)
from oncelog.limits import MAX_TRANSACTION_TIMEOUT_MS
from oncelog.ports import ZnodeStore
from oncelog_kafka.crash_points import KafkaCrashPoint
from oncelog_kafka.errors import ParticipantLostError
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS, Ledger
from oncelog_kafka.options.sink_options import OnTimedOut, SinkOptions, with_batch_size
from oncelog_kafka.protocol.kafka_rounds import KafkaRound
from oncelog_kafka.protocol.participants import (
    ONGOING,
    Handover,
    Instant,
    Listed,
    Participant,
    Transaction,
    find_losers,
    find_old,
    token_group_prefix,
)
from oncelog_kafka.protocol.ports import Brokers
from oncelog_kafka.protocol.tokens import TokenText
from oncelog_kafka.sinks import history
from oncelog_kafka.sinks.data_topics import DataTopics
from oncelog_kafka.sinks.finishing import DecidedRound, finish
from oncelog_kafka.sinks.group_check import check_group
from oncelog_kafka.sinks.jobs import Job, TaskSettings, Written
from oncelog_kafka.sinks.participant_check import ParticipantCheck
from oncelog_kafka.sinks.source_offsets import by_topic


@dataclass(frozen=True, slots=True)
class Lease:
    """What a batch leaves to the next one of its run.

    Attributes:
        number: in the participants' ids.
        handovers: by partition of the batch, for producers that executors kept.
    """

    number: int
    handovers: Mapping[int, Handover] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LostPart:
    """Participants of a decided round that the brokers aborted, and what the tasks need that write them again.

    Attributes:
        lease: under which they are written.
        settings, buckets: see `Job.run`.
    """

    decided: DecidedRound
    participants: tuple[Participant, ...]
    lease: int
    settings: TaskSettings
    buckets: int


class KafkaTarget:
    """A cluster that batches are written to, and the store of their ledger.

    Attributes:
        timeout_ms: of the batches' transactions.
        producer: settings of the tasks' producers.
        data_topics: that rows may be written to.
    """

    ledgers = KAFKA_LEDGERS

    def __init__(self, store: ZnodeStore, brokers: Brokers, options: SinkOptions) -> None:
        self.store = store
        self.brokers = brokers
        self.options = options
        self.clock = brokers.clock
        self.timeout_ms = _transaction_timeout_ms(brokers, options)
        self._lease: tuple[str, Lease] | None = None  # with its run id
        self._cluster_id: str | None = None
        self.producer = with_batch_size(options.producer, self.check_topic())
        self.data_topics = DataTopics(brokers)
        if options.topic is not None:
            self.data_topics.check(options.topic)

    def attempt(self, batch: Batch[Job]) -> KafkaAttempt:
        return KafkaAttempt(self, batch)

    def take_lease(self, run_id: str) -> Lease | None:
        """The lease of the run's last batch, if that called `keep_lease`; None to take a new lease."""
        held, self._lease = self._lease, None
        return held[1] if held is not None and held[0] == run_id else None

    def keep_lease(self, run_id: str, lease: Lease) -> None:
        """Let the run's next batch use the lease of this one."""
        self._lease = run_id, lease

    def check_topic(self) -> int | None:
        """The number of partitions of the sink's topic; None if each row names its own.

        Raises:
            UnknownTopicError: it does not exist.
        """
        topic = self.options.topic
        partitions = None if topic is None else self.brokers.partitions_of(topic)
        if topic is not None and partitions is None:
            raise UnknownTopicError("the sink's topic does not exist; create it first", topic=topic)
        return partitions

    def cluster_id(self) -> str:
        """The id of the cluster that batches are written to."""
        if self._cluster_id is None:
            self._cluster_id = self.brokers.cluster_id()
        return self._cluster_id

    def now(self) -> Instant:
        """The current time, by this process's clocks."""
        return Instant(self.clock.now_ms(), self.clock.monotonic_ms())


class KafkaAttempt:
    """One round of the ledger; see `Attempt`."""

    def __init__(self, target: KafkaTarget, batch: Batch[Job]) -> None:
        self._target = target
        self._brokers = target.brokers
        self._options = target.options
        self._ledger = Ledger(target.store, batch.request)
        self._batch = batch
        self._request = batch.request
        self._progress = batch.progress if batch.progress is not None and batch.progress.end else None
        self._opened: OpenRound[KafkaRound] | None = None
        self._began = target.now()
        self._written = Written((), is_retried=False)
        self._decided: DecidedRound | None = None
        self._lease: Lease | None = None  # that of the batch before, if this one goes on with it
        self._handovers: Mapping[int, Handover] = {}  # to the next batch
        self._may_have_zombies = True
        self._check = ParticipantCheck(target.brokers, target.now, target.timeout_ms, batch.request)

    # The phases

    @property
    def is_open(self) -> bool:
        return self._opened is not None

    def plan(self) -> Step[OpenRound[KafkaRound] | None]:
        lease = self._last_lease
        if lease is None:
            history.check(self._brokers, self._target.store, self._request)

        def take(opened: OpenRound[KafkaRound] | None) -> None:
            self._opened = opened
            if opened is not None and lease is not None and opened.record.lease == lease.number:
                self._lease = lease

        number = None if lease is None else lease.number
        return self._ledger.plan(lease=number, buckets=self.buckets(), take=take)

    @cached_property
    def _last_lease(self) -> Lease | None:
        return self._target.take_lease(self._request.run_id)

    def kept_alive(self) -> AbstractContextManager[None]:
        """Nothing to do: the brokers time transactions out, whatever the driver does."""
        return nullcontext()

    def write(self, report: BatchReport) -> None:
        settings = self.prepare_tasks()
        with self._or_superseded():
            written = self._batch.job.run(settings, self.buckets())
        self.wrote(written, report)

    def prepare_tasks(self) -> TaskSettings:
        """Do everything that comes before the tasks, and return what they need to know."""
        opened, record = self._round, self._round.record
        self._target.check_topic()  # a producer would look for it for as long as delivery.timeout.ms
        if self._lease is None:
            self._recover(record.lease)
        if self._progress is not None:
            check_group(self._brokers, self._ledger, self._progress)
        self._began = self._target.now()
        return self._settings(opened.number, record.lease, record.nonce, is_hashed=self.buckets() is not None)

    def wrote(self, written: Written, report: BatchReport) -> None:
        """Take what the tasks prepared."""
        self._written = written
        reach(KafkaCrashPoint.WRITTEN)
        self._target.data_topics.check_written(written.extents)
        report.rows = sum(participant.rows for participant in self._written.participants)
        report.participants = len(self._written.participants)

    def prepare(self, report: BatchReport) -> None:
        """Abort and fence what Spark's retries and speculative copies left open."""
        losers = find_losers(
            self._request.prefix, self._round.record.lease, self._written.participants, self._open_transactions()
        )
        self._fence(losers)
        report.aborted = len(losers)

    def decide(self, report: BatchReport) -> Step[KafkaRound]:
        opened, written = self._round, self._written

        def take(record: KafkaRound) -> None:
            self._decided = DecidedRound(self._request.prefix, opened.number, record)

        with self._or_superseded():
            self._check.run(written, self._began)
        return self._ledger.decide(opened, written.participants, written.extents, self._check, take)

    def commit(self, report: BatchReport) -> None:
        lost = self.end()
        if lost is not None:
            self._write_again(lost)
            report.rewritten = len(lost.participants)
        if self._decided is not None:
            were_there = self._written.is_retried or report.aborted or report.rewritten
            self._may_have_zombies = bool(were_there or self._batch.job.speculates())

    def end(self) -> LostPart | None:
        """Send the commits of what is decided. Returns what the tasks must write again before the batch is complete."""
        if self._decided is not None:
            found = self._check.found if self._check.is_recent() else None
            return self._end(self._decided, found)
        lost = None
        for one in self._unfinished():  # a replay
            if self._is_at_hand(one):
                lost = self._end(one)
            else:  # of a later batch: if it lost something, its own replay writes that again, or reports it
                finish(self._brokers, self._target.store, one)
        return lost

    def abort(self) -> None:
        """Abort the round and what its tasks left open; do nothing if it was decided."""
        if self._ledger.abort(self._round):
            self._fence(find_losers(self._request.prefix, self._round.record.lease, (), self._open_transactions()))

    def finish(self) -> None:
        if self._opened is not None:
            self._ledger.forget_old_rounds()
            self._ledger.merge_old_extents(self._opened.number)
            if not self._may_have_zombies:
                self._target.keep_lease(self._request.run_id, Lease(self._opened.record.lease, self._handovers))

    def close(self) -> None:
        """Nothing to do: the connections belong to the target."""

    # In two steps (stepwise.py): the tasks run between them, and another process may take the second step

    def held(self) -> tuple[int, str]:
        """What `resume` needs: the number of the round, and its nonce."""
        return self._round.number, self._round.record.nonce

    def resume(self, number: int, nonce: str, job_ms: int) -> None:
        """Continue an attempt that another object began, after its job.

        Args:
            number, nonce: of its round.
            job_ms: how long ago its job began.

        Raises:
            RoundAbortedError: the round is over; another one may be under way.
        """
        self._began = self._began.earlier(job_ms)
        self._opened = self._ledger.reopened(number, nonce)

    def rewrote(self, number: int, lease: int, written: Written, job_ms: int) -> None:
        """Put the rewritten participants of a decided round into the decision.

        Args:
            number: of the round.
            lease: that they were written under.
            written: what the tasks prepared.
            job_ms: how long ago their job began.
        """
        with self._or_superseded():
            self._replace_lost(number, lease, written, self._began.earlier(job_ms))

    # Within the phases

    @property
    def _round(self) -> OpenRound[KafkaRound]:
        ensure(self._opened is not None, "the round has begun")
        return self._opened  # type: ignore[return-value]

    @contextmanager
    def _or_superseded(self) -> Iterator[None]:
        """If a newer driver took over and fenced this one's tasks, raise that instead of NotPreparedError."""
        try:
            yield
        except NotPreparedError:
            self._ledger.check_live()
            raise

    def buckets(self) -> int | None:
        """The number of content-hash participants; None if Spark's partitions are the participants."""
        if self._options.on_timed_out is not OnTimedOut.REWRITE:
            return None
        return self._options.participants or self._batch.job.parallelism()

    def _is_at_hand(self, decided: DecidedRound) -> bool:
        """Whether this batch has the rows of that round, because Spark replays it."""
        named = (decided.record.batch_id, decided.record.fingerprint)
        return named == (self._request.batch_id, self._request.fingerprint)

    def _recover(self, lease: int) -> None:
        """After a new lease is recorded: finish what was decided, then fence what was not."""
        for decided in self._unfinished():
            ends = finish(self._brokers, self._target.store, decided)
            if ends.lost:
                raise self._lost(decided, ends.lost)
        reach(KafkaCrashPoint.FENCE)
        self._fence_old(lease)

    def _unfinished(self) -> list[DecidedRound]:
        prefix = self._request.prefix
        return [DecidedRound(prefix, number, record) for number, record in self._ledger.unfinished().items()]

    def _end(self, decided: DecidedRound, found: Mapping[str, Transaction] | None = None) -> LostPart | None:
        """Send a decided round's commits. If some participants are lost, prepare the tasks that write them again."""
        ends = finish(self._brokers, self._target.store, decided, found)
        self._handovers = ends.handovers
        if not ends.lost:
            return None
        number, record, buckets = decided.number, decided.record, decided.record.buckets
        if self._options.on_timed_out is not OnTimedOut.REWRITE or buckets is None:
            raise self._lost(decided, ends.lost)
        lease = self._ledger.record_lost(number, [participant.transactional_id for participant in ends.lost])
        reach(KafkaCrashPoint.LOST)
        self._fence_old(lease)
        only = tuple(sorted(participant.partition for participant in ends.lost))
        settings = self._settings(number, lease, record.nonce, is_hashed=True, only=only)
        return LostPart(decided, tuple(ends.lost), lease, settings, buckets)

    def _write_again(self, lost: LostPart) -> None:
        """Write lost participants again, from Spark's replay, put them into the decision, and send their commits."""
        decided, began = lost.decided, self._target.now()
        try:
            written = self._batch.job.run(lost.settings, lost.buckets)
            rewritten = replace(decided, record=self._replace_lost(decided.number, lost.lease, written, began))
        except (NotPreparedError, RoundAbortedError) as problem:
            self._ledger.check_live()  # if a newer driver fenced the tasks, raise that
            raise self._lost(decided, lost.participants) from problem
        lost_again = finish(self._brokers, self._target.store, rewritten).lost
        if lost_again:
            raise self._lost(rewritten, lost_again)

    def _replace_lost(self, number: int, lease: int, written: Written, began: Instant) -> KafkaRound:
        reach(KafkaCrashPoint.REWRITTEN)
        self._fence(find_losers(self._request.prefix, lease, written.participants, self._open_transactions()))

        def derive() -> Step[KafkaRound]:
            self._check.run(written, began)
            return self._ledger.replace_lost(number, lease, written.participants, written.extents, self._check)

        (replaced,) = run_steps(self._target.store, [derive])
        reach(KafkaCrashPoint.REPLACED)
        return replaced  # type: ignore[no-any-return]

    def _lost(self, decided: DecidedRound, lost: Sequence[Participant]) -> ParticipantLostError:
        if decided.record.buckets is None or not self._is_at_hand(decided):
            remedy = (
                "write them by hand, then mark the batch as complete with `oncelog kafka batch complete`; if "
                "onTimedOutParticipant=rewrite is set from the start, the sink writes them itself"
            )
        elif self._options.on_timed_out is OnTimedOut.REWRITE:
            remedy = "restart the query, which writes and verifies them again"
        else:
            remedy = "start the query with onTimedOutParticipant=rewrite, which writes and verifies them again"
        return ParticipantLostError(
            "the brokers aborted a part of a decided batch before its commit arrived: these rows are missing, while "
            f"the rest of the batch is there; {remedy}",
            prefix=decided.prefix,
            batch_id=decided.record.batch_id,
            round=decided.number,
            missing_rows={participant.transactional_id: participant.rows for participant in lost},
            topics=sorted({participant.token_topic for participant in lost}),
        )

    def _settings(
        self, number: int, lease: int, nonce: str, *, is_hashed: bool, only: tuple[int, ...] | None = None
    ) -> TaskSettings:
        """What the tasks need to know.

        Args:
            number, lease, nonce: of the participants' round.
            is_hashed: whether to hash the participants' content.
            only: the participants to write; None for all.
        """
        request, progress = self._request, self._progress
        return {
            "transactionalIdPrefix": request.prefix,
            "lease": lease,
            "producer": {**self._target.producer, "transaction.timeout.ms": str(self._target.timeout_ms)},
            "topic": self._options.topic,
            "ledgerTopics": sorted(self._options.ledger_topics),
            "tokenGroupPrefix": token_group_prefix(request.prefix),
            "token": str(TokenText(request.query_id, request.batch_id, number, nonce)),
            "batchId": request.batch_id,
            "sourceGroup": None if progress is None else progress.group_id,
            "sourceOffsets": None if progress is None else by_topic(progress.end),
            "only": only,
            "isHashed": is_hashed,
            "handovers": self._lease.handovers if self._lease is not None and self._lease.number == lease else {},
        }

    # Fencing

    def _fence_old(self, lease: int) -> None:
        self._fence(find_old(self._request.prefix, lease, self._brokers.list_ids()))

    def _open_transactions(self) -> list[Listed]:
        return self._brokers.list_ids([ONGOING])

    def _fence(self, transactional_ids: Sequence[str]) -> None:
        """Abort and fence these ids, except those that an unfinished decision names."""
        if not transactional_ids:
            return
        decided = {
            participant.transactional_id
            for unfinished in self._unfinished()
            for participant in unfinished.record.participants
            if not participant.is_lost
        }
        self._brokers.fence([name for name in transactional_ids if name not in decided], self._target.timeout_ms)


def _transaction_timeout_ms(brokers: Brokers, options: SinkOptions) -> int:
    """The time-out of the transactions: the option, or else the brokers' maximum."""
    wanted = options.transaction_timeout_ms
    maximum = brokers.broker_setting("transaction.max.timeout.ms")
    if wanted is not None and maximum is not None and wanted > maximum:
        raise InvalidTransactionTimeoutError(
            "transactionTimeoutMs is above what the brokers allow; lower it, or raise their transaction.max.timeout.ms",
            transactionTimeoutMs=wanted,
            maximum_ms=maximum,
        )
    return wanted or maximum or MAX_TRANSACTION_TIMEOUT_MS
