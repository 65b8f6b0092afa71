"""The ledger of Kafka batches, below ``/kafka``: the common steps (oncelog.ledger), and what ends a round here.

It may share its store with a log and with other sinks. A *lease* is the number that the ids of participants bear: that
of the round, or of a step without a round, that took it. Whoever wrote under an older lease finds out at the next step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from oncelog.errors import CorruptDataError, UsageError
from oncelog.ledger.batches import BatchSteps, OpenRound
from oncelog.ledger.kinds import LedgerKind
from oncelog.ports import ZnodeStore, ZnodeView
from oncelog.protocol.batch_ledger import BatchRequest, QueryLedger
from oncelog.types import Outcome
from oncelog.znodes.clock import store_now_ms
from oncelog.znodes.transact import resolving
from oncelog_kafka import kafka_rounds
from oncelog_kafka.kafka_rounds import MAX_PARTICIPANTS, KafkaRound, decode_round, encode_round
from oncelog_kafka.participants import Participant

KAFKA_LEDGERS: LedgerKind[KafkaRound] = LedgerKind("/kafka", encode_round, decode_round)


class Ledger:
    """The steps of one batch of one driver."""

    def __init__(self, store: ZnodeStore, request: BatchRequest) -> None:
        self._store = store
        self._steps = BatchSteps(KAFKA_LEDGERS, store, request)
        self.request = request

    def begin(self, *, lease: int | None, buckets: int | None) -> OpenRound[KafkaRound] | None:
        """Plan the batch; aborts the previous undecided round in the same step.

        Args:
            lease: of this run's earlier rounds; None to begin one with this round, as is done if a newer one was taken.
            buckets: see `KafkaRound`.

        Returns:
            the open round; None when the batch was decided before.

        Raises:
            RunSupersededError, BatchRefusedError: see protocol/batch_ledger.py.
        """
        request = self.request
        began_ms = resolving(lambda: store_now_ms(self._store))

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

        return self._steps.begin(new_record)

    def reopened(self, number: int, nonce: str) -> OpenRound[KafkaRound]:
        """A round that this run's driver began in another process.

        Raises:
            RoundAbortedError: it is forgotten, and so it is over.
        """
        found = KAFKA_LEDGERS.read_round(self._store, self.request.prefix, number)
        if found is None or found.nonce != nonce:
            raise self._steps.aborted(number)
        return OpenRound(number, found)

    def unfinished(self) -> dict[int, KafkaRound]:
        """Decided rounds whose commits may not all be done, oldest first."""
        with self._store.snapshot() as reader:
            rounds = KAFKA_LEDGERS.read_rounds(reader, self.request.prefix)
        return {number: found for number, found in rounds.items() if found.is_unfinished}

    def remembers(self, number: int, nonce: str) -> bool:
        """Whether this attempt is one of the ledger's; False also of one that is long over."""
        found = KAFKA_LEDGERS.read_round(self._store, self.request.prefix, number)
        return found is not None and found.nonce == nonce

    def decide(
        self,
        round_: OpenRound[KafkaRound],
        participants: Sequence[Participant],
        check: Callable[[], None] = lambda: None,
    ) -> KafkaRound:
        """Decide the round, in one write. Afterwards nobody can undo it (I6).

        Args:
            round_: which one.
            participants: of the batch.
            check: called last before the write; what it raises is raised, and nothing is decided.

        Returns:
            the decided round.

        Raises:
            RunSupersededError, RoundAbortedError: a newer driver took over; nothing was decided.
            UsageError: the batch has more participants than one decision holds.
        """
        if len(participants) > MAX_PARTICIPANTS:
            raise UsageError(
                "the batch has more partitions than one decision can name; write df.coalesce(n)",
                partitions=len(participants),
                maximum=MAX_PARTICIPANTS,
            )

        def complete(_: ZnodeView, __: QueryLedger, record: KafkaRound) -> KafkaRound:
            check()
            return kafka_rounds.naming(record, participants)

        return self._steps.decide(round_, complete)

    def abort(self, round_: OpenRound[KafkaRound]) -> bool:
        """Abort the round if it is still open; returns whether it is aborted now, for good."""
        return self._steps.abort(round_.number)

    def record_lost(self, number: int, transactional_ids: Iterable[str]) -> int:
        """Record that these participants of a decided round were aborted, and take a lease for what replaces them.

        Running it twice takes two leases, of which the second counts.

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
        self, number: int, lease: int, rewritten: Sequence[Participant], check: Callable[[], None] = lambda: None
    ) -> KafkaRound:
        """Let rewritten participants take the place of lost ones in the decision. Only then may they be ended.

        `check` is as in `decide`.

        Returns:
            the round as it is decided now.

        Raises:
            RewriteMismatchError: they hold other rows than were decided; nothing was changed.
            RunSupersededError, RoundAbortedError: somebody else took a newer lease.
        """

        def step(view: ZnodeView) -> KafkaRound:
            ledger = self._steps.check_live(view)
            found = _decided_round(view, self.request.prefix, number)
            if not found.lost:
                return found  # an earlier try of this step won
            if ledger.current_round != lease or found.is_complete:  # by a newer driver, or an operator gave them up
                raise self._steps.aborted(number)
            check()
            replaced = kafka_rounds.with_rewritten(found, rewritten)
            KAFKA_LEDGERS.put_round(view, self.request.prefix, number, replaced)
            return replaced

        return self._steps.run(step)

    def check_live(self) -> None:
        """Raise if this run may not write any more.

        Raises:
            RunSupersededError: a newer driver took over.
        """
        self._steps.run(self._steps.check_live)

    def forget_old_rounds(self) -> None:
        """Delete rounds that are over and behind the last decided one, a few at a time."""
        self._steps.forget(lambda found: not found.is_unfinished)


def abort_open(store: ZnodeStore, prefix: str) -> int:
    """Abort the newest round if it is still open, and take a lease, for an operator.

    Behind it no transaction of an older lease is decided any more: a living driver begins a lease of its own with its
    next round. Running it twice takes two leases, of which the second counts.

    Returns:
        the lease.

    Raises:
        UnknownPrefixError: no sink has written under this prefix.
    """

    def step(view: ZnodeView) -> int:
        found = KAFKA_LEDGERS.require(view, prefix)
        KAFKA_LEDGERS.abort_in(view, prefix, found.current_round)
        return _take_lease(view, prefix, found)

    return resolving(lambda: store.transact(step))


def complete(store: ZnodeStore, prefix: str, number: int) -> None:
    """Record that no commit of a decided round is left to be done."""

    def step(view: ZnodeView) -> None:
        found = KAFKA_LEDGERS.read_round(view, prefix, number)
        if found is not None and found.is_unfinished:
            KAFKA_LEDGERS.put_round(view, prefix, number, kafka_rounds.completed(found))

    resolving(lambda: store.transact(step))


def decision_age_ms(store: ZnodeStore, found: KafkaRound) -> int | None:
    """How long ago a round was decided, by the clock of the store; never less than it is, as the round began before.

    None if nothing tells: an older oncelog wrote the round, or the store's clock is behind the one it was written by.
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
    """A lease without a round of its own: whoever wrote under an older one finds out at the next step."""
    lease = ledger.current_round + 1
    KAFKA_LEDGERS.put(view, prefix, replace(ledger, current_round=lease))
    return lease
