"""The ledger of Kafka batches, under ``/kafka``: the common steps (oncelog.batches), and those that only Kafka needs.

It may share its store with a log and with other sinks. A *lease* is a number in the participants' transactional ids:
the number of the round, or of the step without a round, that took it. A driver that wrote under an older lease finds
out at its next step.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from oncelog.batches import giving_up
from oncelog.batches.ledger import LedgerKind
from oncelog.batches.payloads import GivenUp
from oncelog.batches.rules import BatchRequest, QueryLedger
from oncelog.batches.steps import BatchSteps, OpenRound
from oncelog.batches.transaction import Step
from oncelog.errors import CorruptDataError, UsageError
from oncelog.ports import ZnodeReader, ZnodeStore, ZnodeView
from oncelog.types import Outcome
from oncelog.znodes.clock import store_now_ms
from oncelog.znodes.transact import resolving
from oncelog_kafka.protocol import extents, kafka_rounds
from oncelog_kafka.protocol.extents import NOWHERE, Batch, Extents
from oncelog_kafka.protocol.kafka_rounds import MAX_PARTICIPANTS, KafkaRound, decode_round, encode_round
from oncelog_kafka.protocol.participants import Participant


def _parts(record: KafkaRound) -> list[str]:
    return [f"{part.transactional_id}: {part.rows} rows" for part in record.participants]


KAFKA_LEDGERS: LedgerKind[KafkaRound] = LedgerKind(
    "/kafka", encode_round, decode_round, is_over=lambda record: not record.is_unfinished, parts=_parts
)


class Check(Protocol):
    """A check of a batch's participants, as old as the step that was derived from it."""

    def ensure_recent(self) -> None:
        """Called right before the write. If it raises, nothing is decided."""

    def recover(self, problem: Exception) -> bool:
        """See `Step`."""


class _Unchecked:
    def ensure_recent(self) -> None:
        pass

    def recover(self, problem: Exception) -> bool:
        return False


UNCHECKED: Final = _Unchecked()


class Ledger:
    """The steps of one batch of one driver."""

    def __init__(self, store: ZnodeStore, request: BatchRequest) -> None:
        self.store = store
        self._steps = BatchSteps(KAFKA_LEDGERS, store, request)
        self.request = request
        self._folder = KAFKA_LEDGERS.path(request.prefix)

    def plan(
        self, *, lease: int | None, buckets: int | None, take: Callable[[OpenRound[KafkaRound] | None], None]
    ) -> Step[OpenRound[KafkaRound] | None]:
        """The step that plans the batch, and aborts the previous undecided round.

        It raises a RunSupersededError or a BatchRefusedError as batches/rules.py says.

        Args:
            lease: of this run's earlier rounds; None to take a new one. A new one is also taken if this is not the
                newest lease.
            buckets: see `KafkaRound`.
            take: takes the open round, or None if the batch was decided before.
        """
        request = self.request
        began_ms = resolving(lambda: store_now_ms(self.store))

        def new_record(number: int, nonce: str, before: KafkaRound | None) -> KafkaRound:
            is_newest = before is not None and before.lease == lease
            return KafkaRound(
                Outcome.OPEN,
                request.batch_id,
                request.fingerprint,
                request.run_id,
                nonce,
                lease if lease is not None and is_newest else number,
                buckets=buckets,
                began_ms=began_ms,
            )

        return self._steps.plan(new_record, take)

    def reopened(self, number: int, nonce: str) -> OpenRound[KafkaRound]:
        """A round that this run's driver began in another process.

        Raises:
            RoundAbortedError: the ledger no longer has the round, so it is over.
        """
        found = KAFKA_LEDGERS.read_round(self.store, self.request.prefix, number)
        if found is None or found.nonce != nonce:
            raise self._steps.aborted(number)
        return OpenRound(number, found)

    def unfinished(self) -> dict[int, KafkaRound]:
        """Decided rounds that may still have commits to send, oldest first."""
        with self.store.snapshot() as reader:
            rounds = KAFKA_LEDGERS.read_rounds(reader, self.request.prefix)
        return {number: found for number, found in rounds.items() if found.is_unfinished}

    def remembers(self, number: int, nonce: str) -> bool:
        """Whether the ledger has this attempt; False also if it was forgotten because it was over."""
        found = KAFKA_LEDGERS.read_round(self.store, self.request.prefix, number)
        return found is not None and found.nonce == nonce

    def decide(
        self,
        round_: OpenRound[KafkaRound],
        participants: Sequence[Participant],
        written: Extents = NOWHERE,
        check: Check = UNCHECKED,
        take: Callable[[KafkaRound], None] = lambda _: None,
    ) -> Step[KafkaRound]:
        """The step that decides the round, in one write. Afterwards nobody can undo it (I6).

        It raises a RunSupersededError or a RoundAbortedError if a newer driver took over; nothing was decided then.

        Args:
            round_: the open round.
            participants: all participants of the batch.
            written: where the batch's rows are.
            check: of the participants.
            take: takes the decided round.

        Raises:
            UsageError: the batch has more participants, or rows in more partitions, than one decision can name.
        """
        if len(participants) > MAX_PARTICIPANTS:
            raise UsageError(
                "the batch has more partitions than one decision can name; write df.coalesce(n)",
                partitions=len(participants),
                maximum=MAX_PARTICIPANTS,
            )

        def complete(view: ZnodeView, _: QueryLedger, record: KafkaRound) -> KafkaRound:
            extents.put(view, self._folder, round_.number, record.lease, written)
            check.ensure_recent()
            return kafka_rounds.naming(record, participants)

        return self._steps.decide(round_, complete, take, check.recover)

    def abort(self, round_: OpenRound[KafkaRound]) -> bool:
        """Abort the round if it is still open. Returns whether it is aborted now."""
        return self._steps.abort(round_.number)

    def record_lost(self, number: int, transactional_ids: Iterable[str]) -> int:
        """Record that these participants of a decided round were aborted, and take a lease for their replacements.

        Running this twice takes two leases; the second one counts.

        Raises:
            RunSupersededError: a newer driver took over.
        """
        lost = list(transactional_ids)

        def step(view: ZnodeView) -> int:
            ledger = self._steps.check_live(view)
            found = _decided_round(view, self.request.prefix, number)
            KAFKA_LEDGERS.put_round(view, self.request.prefix, number, kafka_rounds.with_lost(found, lost))
            return _take_lease(view, self.request.prefix, ledger)

        return self._steps.run(step)

    def replace_lost(
        self,
        number: int,
        lease: int,
        rewritten: Sequence[Participant],
        written: Extents = NOWHERE,
        check: Check = UNCHECKED,
    ) -> Step[KafkaRound]:
        """The step that replaces lost participants in the decision by rewritten ones, which are ended only after it.

        Its result is the round with its new decision. `written` and `check` are as in `decide`.

        It raises a RewriteMismatchError if they contain other rows than were decided, and a RunSupersededError or a
        RoundAbortedError if a newer driver took over, or an operator gave the lost ones up; nothing was changed then.
        """

        def step(view: ZnodeView) -> KafkaRound:
            ledger = self._steps.check_live(view)
            found = _decided_round(view, self.request.prefix, number)
            if not found.lost:
                return found  # an earlier try of this step succeeded
            if ledger.current_round != lease or found.is_complete:  # a newer lease, or an operator gave them up
                raise self._steps.aborted(number)
            check.ensure_recent()
            replaced = kafka_rounds.with_rewritten(found, rewritten)
            extents.put(view, self._folder, number, lease, written)
            KAFKA_LEDGERS.put_round(view, self.request.prefix, number, replaced)
            return replaced

        return Step(step, recover=check.recover)

    def check_live(self) -> None:
        """Check that this run may still write.

        Raises:
            RunSupersededError: a newer driver took over.
        """
        self._steps.run(self._steps.check_live)

    def forget_old_rounds(self) -> None:
        """Delete rounds that are over and older than the last decided one, a few at a time."""
        self._steps.forget(lambda found: not found.is_unfinished)

    def merge_old_extents(self, number: int) -> None:
        """Keep the extents of batches few, now and then. `number` is of the newest round, which is over."""
        if number % extents.MERGED_EVERY == 0:
            oldest = min(self.unfinished(), default=number)
            extents.merge_old(self.store, self._folder, oldest, extents.KEPT)


def decided_batches(reader: ZnodeReader) -> list[Batch]:
    """All batches of all prefixes of which a row may be visible, as far as they are kept apart.

    Args:
        reader: of a store that was synced after it was asked how far the partitions can be read.

    Raises:
        UsageError: a decided batch has rows, and nobody recorded where.
    """
    found = []
    for prefix in KAFKA_LEDGERS.prefixes(reader):
        # Rounds come first: in a store whose reads are not atomic, one that is decided meanwhile is no problem.
        rounds = KAFKA_LEDGERS.read_rounds(reader, prefix)
        unfinished = {number: record for number, record in rounds.items() if record.is_unfinished}
        there = extents.read(reader, KAFKA_LEDGERS.path(prefix))
        _check_recorded(prefix, unfinished, there)
        found += [Batch(written, number not in unfinished) for number, written in there.items()]
    for folder in extents.folders_of_batch_writes(reader):
        found += [Batch(written, is_over=True) for written in extents.read(reader, folder).values()]
    return found


def _check_recorded(prefix: str, unfinished: Mapping[int, KafkaRound], recorded: Container[int]) -> None:
    for number, found in unfinished.items():
        if number not in recorded and any(participant.rows for participant in found.participants):
            raise UsageError(
                "a sink of an older oncelog decided a batch and did not record where its rows are; finish the batch "
                "(start its query, or `oncelog kafka batch complete`), and update the sink's oncelog",
                prefix=prefix,
                batch_id=found.batch_id,
            )


def abort_open(store: ZnodeStore, prefix: str) -> int:
    """Abort the newest round if it is still open, and take a lease, for an operator.

    After this, no transaction of an older lease can be decided: a driver that is still running takes a new lease with
    its next round. Running this twice takes two leases; the second one counts.

    Returns:
        The lease.

    Raises:
        UnknownPrefixError: no sink has written under this prefix.
    """

    def step(view: ZnodeView) -> int:
        found = KAFKA_LEDGERS.require(view, prefix)
        KAFKA_LEDGERS.abort_in(view, prefix, found.current_round)
        return _take_lease(view, prefix, found)

    return resolving(lambda: store.transact(step))


def complete(
    store: ZnodeStore, prefix: str, number: int, lost_ids: Iterable[str] = (), given_up: GivenUp | None = None
) -> None:
    """Record that a decided round has no commit left to do.

    Args:
        lost_ids: transactional ids of participants that do not count as committed, because an operator gave them up.
        given_up: the record of that, in the same step.
    """
    lost = list(lost_ids)

    def step(view: ZnodeView) -> None:
        found = KAFKA_LEDGERS.read_round(view, prefix, number)
        if found is not None and found.is_unfinished:
            record = kafka_rounds.completed(kafka_rounds.with_lost(found, lost))
            KAFKA_LEDGERS.put_round(view, prefix, number, record)
            if given_up is not None:
                giving_up.put(view, KAFKA_LEDGERS, prefix, given_up)

    resolving(lambda: store.transact(step))


def decision_age_ms(store: ZnodeStore, found: KafkaRound) -> int | None:
    """How long ago a round was decided at most, by the store's clock: the time since the round began.

    None if it is unknown: an older oncelog wrote the round, or the store's clock is behind the one that wrote it.
    """
    if found.began_ms is None:
        return None
    age_ms = resolving(lambda: store_now_ms(store)) - found.began_ms
    return age_ms if age_ms >= 0 else None


def _decided_round(view: ZnodeView, prefix: str, number: int) -> KafkaRound:
    found = KAFKA_LEDGERS.read_round(view, prefix, number)
    if found is None or found.outcome is not Outcome.COMMIT:
        raise CorruptDataError("a decided round is gone", prefix=prefix, round=number)
    return found


def _take_lease(view: ZnodeView, prefix: str, ledger: QueryLedger) -> int:
    """Take a lease without a round; a driver that wrote under an older one finds out at its next step."""
    lease = ledger.current_round + 1
    KAFKA_LEDGERS.put(view, prefix, replace(ledger, current_round=lease))
    return lease
