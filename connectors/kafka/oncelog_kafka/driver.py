"""The sink's driver side: one micro-batch, from the ledger's verdict to the last commit.

Crash points:

    plan      the round is open and its lease recorded; the round before is aborted  → a restart aborts it, begins anew
    fence     what older leases left open is being aborted                           → the same
    write     tasks have prepared transactions                                       → a restart fences them
    decide    the round names its participants: the batch will be committed          → a restart sends the commits
    end       some are committed, others not yet                                     → the same
    complete  nothing is left to do                                                  → a restart skips the batch

Assumptions: one multi is atomic, and every step compares the ledger and the round it was derived from; a transaction
that nobody ends stays open until its time-out; ids are used by one lease only, and a lease is recorded before its ids
are used. Hence only participants that a decision names are ever committed, all of them are, and what a superseded
driver or a task left behind can only be aborted.

Never is an id initialised whose outcome is not recorded, as that would abort a prepared transaction: recovery finishes
decided rounds before it fences, and fencing leaves out what decided rounds name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from oncelog.crash_points import CrashPoint, reach
from oncelog.errors import (
    BatchRefusedError,
    InvalidTransactionTimeoutError,
    NotPreparedError,
    OncelogError,
    ParticipantLostError,
    RoundAbortedError,
    UnknownTopicError,
)
from oncelog.limits import MAX_TRANSACTION_TIMEOUT_MS
from oncelog.ports import ZnodeStore
from oncelog.protocol.batch_ledger import BatchRequest
from oncelog.znodes.clock import SYSTEM_CLOCK, wall_ms
from oncelog_kafka import columns, data_plane, source_offsets, tokens
from oncelog_kafka.brokers import Brokers, CommittedOffset, Unstable
from oncelog_kafka.data_plane import Written
from oncelog_kafka.finishing import DecidedRound, finish
from oncelog_kafka.kafka_rounds import KafkaRound
from oncelog_kafka.ledger import Ledger, OpenRound
from oncelog_kafka.options import OnTimedOut, SinkOptions
from oncelog_kafka.participants import (
    LOOKS,
    ONGOING,
    Instant,
    Listed,
    Moment,
    Participant,
    Transaction,
    find_losers,
    find_old,
    find_unprepared,
    look_ms,
    token_group_prefix,
)
from oncelog_kafka.source_offsets import GroupOffsets
from oncelog_kafka.tokens import TokenText

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What the sink did with a batch.

    Attributes:
        batch_id: of the micro-batch.
        is_replay: it was decided before; at most its commits were sent again.
        rows, participants: written.
        rewritten: participants that the brokers had timed out, and that were written again.
        aborted: transactions that lost (retries, speculative copies, older runs).
        write_ms, check_ms, decide_ms, commit_ms: how long the tasks' job, the look at the participants, the decision
            and the commits took.
    """

    batch_id: int
    is_replay: bool = False
    rows: int = 0
    participants: int = 0
    rewritten: int = 0
    aborted: int = 0
    write_ms: int = 0
    check_ms: int = 0
    decide_ms: int = 0
    commit_ms: int = 0


class BatchDriver:
    """Runs the batches of one sink.

    Attributes:
        store, brokers, options: of the sink.
        timeout_ms: of the batches' transactions.
    """

    def __init__(self, store: ZnodeStore, brokers: Brokers, options: SinkOptions) -> None:
        self.store = store
        self.brokers = brokers
        self.options = options
        self.timeout_ms = _transaction_timeout_ms(brokers, options)
        self._run_id: str | None = None
        self._lease: int | None = None
        if options.topic is not None and brokers.partitions_of(options.topic) is None:
            raise UnknownTopicError("the sink's topic does not exist; create it first", topic=options.topic)

    def run(self, request: BatchRequest, rows: DataFrame, offsets: GroupOffsets | None) -> BatchReport:
        """Write one batch, exactly once.

        Args:
            request: which batch of which query.
            rows: in the sink's columns; their plan is run once, or not at all.
            offsets: the source offsets that become the group's with the batch.

        Raises:
            RunSupersededError, BatchRefusedError, RoundAbortedError: see protocol/batch_ledger.py; nothing was written.
            NotPreparedError: nothing was decided; Spark's restart of the query writes the batch again.
            ParticipantLostError: the brokers aborted a part of a decided batch, and the sink may not rewrite it.
            BrokerUnavailableError: the brokers are away. What was decided stays decided.
        """
        lease = self._lease if request.run_id == self._run_id else None
        self._run_id, self._lease = request.run_id, None  # what fails on its way renews the lease
        report, self._lease = _Batch(self, Ledger(self.store, request), rows, offsets).run(lease)
        return report


class _OldLookError(Exception):
    """Too much time went by since the participants were looked at."""


class _Batch:
    """One batch on its way through the driver."""

    def __init__(self, driver: BatchDriver, ledger: Ledger, rows: DataFrame, offsets: GroupOffsets | None) -> None:
        self._brokers = driver.brokers
        self._store = driver.store
        self._options = driver.options
        self._timeout_ms = driver.timeout_ms
        self._ledger = ledger
        self._request = ledger.request
        self._rows = rows
        self._offsets = offsets if offsets is not None and offsets.end else None

    def run(self, lease: int | None) -> tuple[BatchReport, int | None]:
        """Write the batch unless it was decided before.

        Args:
            lease: of the run's batches before this one; None if this one begins a lease.

        Returns:
            what was done, and the lease of the run's next batch; None if that is to begin one.
        """
        reach(CrashPoint.SINK_PLAN)
        opened = self._ledger.begin(lease=lease, buckets=self._buckets())
        reach(CrashPoint.SINK_PLANNED)
        if opened is None:
            return self._finish_replayed(), None
        try:
            if opened.lease != lease:
                self._recover(opened.lease)
            return self._write(opened)
        except BaseException as problem:
            with suppress(OncelogError):
                self._abort(opened)
            if isinstance(problem, NotPreparedError):
                self._ledger.check_live()  # a newer driver fences an older one's tasks: that is the reason, then
            raise

    def _buckets(self) -> int | None:
        """How many content-hash participants the batch has; None if Spark's partitions are the participants."""
        if self._options.on_timed_out is not OnTimedOut.REWRITE:
            return None
        return self._options.participants or self._rows.sparkSession.sparkContext.defaultParallelism

    # A batch that was decided before

    def _finish_replayed(self) -> BatchReport:
        rewritten = sum(self._finish(one, may_rewrite=self._is_at_hand(one)) for one in self._unfinished())
        return BatchReport(self._request.batch_id, is_replay=True, rewritten=rewritten)

    def _is_at_hand(self, decided: DecidedRound) -> bool:
        """Whether the rows are those of that round: Spark replays its batch."""
        named = (decided.record.batch_id, decided.record.fingerprint)
        return named == (self._request.batch_id, self._request.fingerprint)

    def _recover(self, lease: int) -> None:
        """What a lease begins with, once it is recorded: finish what was decided, then fence what was not."""
        for decided in self._unfinished():
            self._finish(decided, may_rewrite=False)
        reach(CrashPoint.KAFKA_FENCE)
        self._fence_old(lease)

    def _unfinished(self) -> list[DecidedRound]:
        prefix = self._request.prefix
        return [DecidedRound(prefix, number, record) for number, record in self._ledger.unfinished().items()]

    def _finish(
        self, decided: DecidedRound, *, may_rewrite: bool, found: Mapping[str, Transaction] | None = None
    ) -> int:
        """Send a decided round's commits; returns how many participants had to be rewritten."""
        lost = finish(self._brokers, self._store, decided, found)
        if not lost:
            return 0
        if not may_rewrite or self._options.on_timed_out is not OnTimedOut.REWRITE or decided.record.buckets is None:
            raise self._lost(decided, lost)
        try:
            rewritten = replace(decided, record=self._rewrite(decided, lost))
        except (NotPreparedError, RoundAbortedError) as problem:
            self._ledger.check_live()  # a newer driver fences an older one's tasks: that is the reason, then
            raise self._lost(decided, lost, "restart the query: it writes them again, verified") from problem
        lost_again = finish(self._brokers, self._store, rewritten)
        if lost_again:
            raise self._lost(rewritten, lost_again)
        return len(lost)

    def _rewrite(self, decided: DecidedRound, lost: Sequence[Participant]) -> KafkaRound:
        """Write the lost participants again, from Spark's replay, and put them into the decision."""
        number, record = decided.number, decided.record
        lease = self._ledger.record_lost(number, [participant.transactional_id for participant in lost])
        reach(CrashPoint.KAFKA_LOST)
        self._fence_old(lease)
        only = tuple(sorted(participant.partition for participant in lost))
        began = _now()
        written = self._run_job(OpenRound(number, lease, record.nonce), record.buckets, only)
        reach(CrashPoint.KAFKA_REWRITTEN)
        self._fence(find_losers(self._request.prefix, lease, written.participants, self._open_transactions()))
        replaced, _ = self._decide_by_look(
            written.participants,
            began,
            lambda check: self._ledger.replace_lost(number, lease, written.participants, check),
        )
        reach(CrashPoint.KAFKA_REPLACED)
        return replaced

    def _lost(
        self, decided: DecidedRound, lost: Sequence[Participant], remedy: str | None = None
    ) -> ParticipantLostError:
        if remedy is None and decided.record.buckets is not None and self._is_at_hand(decided):
            remedy = "start the query with onTimedOutParticipant=rewrite to write them again, verified"
        return ParticipantLostError(
            "the brokers aborted a part of a decided batch before its commit arrived: these rows are missing, while "
            "the rest of the batch is there; "
            + (
                remedy
                or "write them by hand, then mark the batch as complete by `oncelog kafka batch complete`; with "
                "onTimedOutParticipant=rewrite from the start the sink does it"
            ),
            prefix=decided.prefix,
            batch_id=decided.record.batch_id,
            round=decided.number,
            missing_rows={participant.transactional_id: participant.rows for participant in lost},
            topics=sorted({participant.token_topic for participant in lost}),
        )

    # A new round

    def _write(self, opened: OpenRound) -> tuple[BatchReport, int | None]:
        self._check_group()
        began = _now()
        written = self._run_job(opened, self._buckets())
        reach(CrashPoint.KAFKA_WRITTEN)
        prepared = looked = _now()
        losers = find_losers(self._request.prefix, opened.lease, written.participants, self._open_transactions())
        self._fence(losers)

        def decide(check: Callable[[], None]) -> KafkaRound:
            nonlocal looked
            looked = _now()
            reach(CrashPoint.ROUND_DECIDE)
            return self._ledger.decide(opened, written.participants, check)

        record, found = self._decide_by_look(written.participants, began, decide)
        reach(CrashPoint.ROUND_DECIDED)
        committed_from = _now()
        decided = DecidedRound(self._request.prefix, opened.number, record)
        rewritten = self._finish(decided, may_rewrite=True, found=found)
        self._ledger.forget_old_rounds()
        reach(CrashPoint.SINK_DONE)
        report = BatchReport(
            self._request.batch_id,
            rows=sum(participant.rows for participant in written.participants),
            participants=len(written.participants),
            rewritten=rewritten,
            aborted=len(losers),
            write_ms=prepared.running_ms - began.running_ms,
            check_ms=looked.running_ms - prepared.running_ms,
            decide_ms=committed_from.running_ms - looked.running_ms,
            commit_ms=_now().running_ms - committed_from.running_ms,
        )
        may_have_zombies = bool(written.is_retried or losers or rewritten or self._speculates())
        return report, None if may_have_zombies else opened.lease

    def _speculates(self) -> bool:
        """Whether a copy of a task may begin after its batch, with the id of a copy of a task in a later one."""
        return self._rows.sparkSession.sparkContext.getConf().get("spark.speculation", "false") == "true"

    def _run_job(self, opened: OpenRound, buckets: int | None, only: tuple[int, ...] | None = None) -> Written:
        """Run the batch's plan, its tasks preparing participants.

        Args:
            opened: the round and lease they belong to.
            buckets: number of content-hash participants, if those are wanted.
            only: the participants to write; None for all.
        """
        request = self._request
        rows = self._rows if buckets is None else columns.spread_by_content(self._rows, buckets)
        settings = {
            "transactionalIdPrefix": request.prefix,
            "lease": opened.lease,
            "producer": {**self._options.producer, "transaction.timeout.ms": str(self._timeout_ms)},
            "topic": self._options.topic,
            "tokenGroupPrefix": token_group_prefix(request.prefix),
            "token": str(TokenText(request.query_id, request.batch_id, opened.number, opened.nonce)),
            "batchId": request.batch_id,
            "sourceGroup": None if self._offsets is None else self._offsets.group_id,
            "sourceOffsets": None if self._offsets is None else self._offsets.end,
            "only": only,
            "isHashed": buckets is not None,
        }
        return data_plane.write(rows, settings)

    def _decide_by_look(
        self, participants: Sequence[Participant], began: Instant, step: Callable[[Callable[[], None]], KafkaRound]
    ) -> tuple[KafkaRound, dict[str, Transaction]]:
        """Look at every participant, and take the step that decides if they can all be committed.

        Args:
            participants: which.
            began: before their job.
            step: decides; it calls what it is given last before the write.

        Returns:
            what was decided, and what the coordinators said of the participants.

        Raises:
            NotPreparedError: one of them could not be committed any more, or not for long.
        """
        asked = _now()

        def check() -> None:
            if _now().since_ms(asked) > look_ms(self._timeout_ms):
                raise _OldLookError

        for _ in range(LOOKS):
            asked = _now()
            found = self._brokers.describe(participant.transactional_id for participant in participants)
            now = _now()
            moment = Moment(now_ms=now.wall_ms, job_ms=now.running_ms - began.running_ms)
            problems = find_unprepared(participants, found, moment)
            if problems:
                raise self._not_prepared(problems)
            reach(CrashPoint.KAFKA_CHECKED)
            with suppress(_OldLookError):
                return step(check), found
        raise self._not_prepared({"": "each time it was looked at, the look was too old before it could be decided"})

    def _not_prepared(self, problems: Mapping[str, str]) -> NotPreparedError:
        return NotPreparedError(
            "not every part of the batch is ready to be committed, so the batch was not decided; it is aborted, "
            "and the query's restart writes it again; if time ran out, raise transactionTimeoutMs or make batches "
            "smaller",
            prefix=self._request.prefix,
            batch_id=self._request.batch_id,
            problems=dict(problems),
        )

    def _check_group(self) -> None:
        """Refuse a batch that does not start where its group stands.

        A group stays behind where an earlier batch of the query lost the part that carries the offsets, and an operator
        gave it up: this batch brings it along.

        Raises:
            BatchRefusedError: somebody else commits to the group, or the checkpoint was lost.
        """
        if self._offsets is None or self._offsets.start is None:
            return
        start, group_id = self._offsets.start, self._offsets.group_id
        wanted = [(topic, number) for topic, partitions in start.items() for number in partitions]
        for _ in self._brokers.tries("a group's offsets are not stable", group_id=group_id):
            held = self._brokers.offsets({group_id: wanted})[group_id]
            if not any(isinstance(offset, Unstable) for offset in held.values()):
                break
        stable = {
            key: offset.offset
            for key, offset in held.items()
            if not isinstance(offset, Unstable) and not self._is_of_an_earlier_batch(offset)
        }
        elsewhere = source_offsets.moved(start, stable)
        if elsewhere:
            raise BatchRefusedError(
                "the group's committed offsets are not where the batch starts: somebody else commits to it, or the "
                "query starts from a new checkpoint; start it where the group stands (startingOffsets=group), or use "
                "another groupId",
                group_id=group_id,
                held_and_start=elsewhere,
            )

    def _is_of_an_earlier_batch(self, offset: CommittedOffset) -> bool:
        """Whether this query wrote an offset with a batch before the previous one, and nobody since."""
        said = tokens.read(offset.metadata)
        request = self._request
        return said is not None and said.query_id == request.query_id and said.batch_id < request.batch_id - 1

    # Fencing

    def _abort(self, opened: OpenRound) -> None:
        """Abort the round and what its tasks left open; nothing happens if it was decided."""
        if self._ledger.abort(opened):
            self._fence(find_losers(self._request.prefix, opened.lease, (), self._open_transactions()))

    def _fence_old(self, lease: int) -> None:
        self._fence(find_old(self._request.prefix, lease, self._brokers.list_ids()))

    def _open_transactions(self) -> list[Listed]:
        return self._brokers.list_ids([ONGOING])

    def _fence(self, transactional_ids: Sequence[str]) -> None:
        """Abort and fence these ids, but for what a decision names and no commit was answered for."""
        if not transactional_ids:
            return
        decided = {
            participant.transactional_id
            for unfinished in self._unfinished()
            for participant in unfinished.record.participants
            if not participant.is_lost
        }
        self._brokers.fence([name for name in transactional_ids if name not in decided], self._timeout_ms)


def _transaction_timeout_ms(brokers: Brokers, options: SinkOptions) -> int:
    """The time-out of the transactions: as asked for, else the most that the brokers allow."""
    wanted = options.transaction_timeout_ms
    maximum = brokers.broker_setting("transaction.max.timeout.ms")
    if wanted is not None and maximum is not None and wanted > maximum:
        raise InvalidTransactionTimeoutError(
            "transactionTimeoutMs is above what the brokers allow; lower it, or raise transaction.max.timeout.ms there",
            transactionTimeoutMs=wanted,
            maximum_ms=maximum,
        )
    return wanted or maximum or MAX_TRANSACTION_TIMEOUT_MS


def _now() -> Instant:
    return Instant(wall_ms(), SYSTEM_CLOCK.monotonic_ms())
