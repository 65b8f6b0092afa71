"""The ledger of Kafka batches: rounds in znodes, every step one compare-and-set.

    /kafka/<prefix>                QueryLedger, as for the embedded log (protocol/batch_ledger.py decides)
    /kafka/<prefix>/rounds/<n>     KafkaRound

It may share its store with a log and with other sinks. What it says is in its znodes' data: their times and versions
are others in a copy. Every step of a driver compares the ledger and the round it was derived from; hence of two drivers
the older finds itself superseded, or its round aborted, at its next step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from oncelog.arguments import check_name
from oncelog.coordinator import former_names
from oncelog.coordinator.former_names import QueryIds
from oncelog.coordinator.sweeper import store_now_ms
from oncelog.errors import CorruptDataError, RoundAbortedError, RunSupersededError, UnknownPrefixError, UsageError
from oncelog.ports import ZnodeReader, ZnodeStore, ZnodeView
from oncelog.protocol import batch_ledger
from oncelog.protocol.batch_ledger import AlreadyDecided, BatchRequest, QueryLedger
from oncelog.randomness import random_id
from oncelog.types import Outcome
from oncelog.znodes import fields, paths, payloads
from oncelog.znodes.transact import resolving
from oncelog_kafka import kafka_rounds
from oncelog_kafka.kafka_rounds import MAX_PARTICIPANTS, KafkaRound
from oncelog_kafka.participants import Participant

T = TypeVar("T")

ROOT = "/kafka"

REMEMBERED_ROUNDS = 8
"""Rounds that are over are deleted in groups of about this many."""


def ledger_path(prefix: str) -> str:
    return f"{ROOT}/{paths.segment(prefix)}"


def rounds_path(prefix: str) -> str:
    return f"{ledger_path(prefix)}/rounds"


def round_path(prefix: str, number: int) -> str:
    return f"{rounds_path(prefix)}/{number}"


# Payloads -------------------------------------------------------------------------------------------------------------


def encode_round(found: KafkaRound) -> bytes:
    """A round as its znode holds it."""
    return paths.encode(
        {
            "outcome": found.outcome.value,
            "batch_id": found.batch_id,
            "fingerprint": found.fingerprint,
            "run_id": found.run_id,
            "nonce": found.nonce,
            "lease": found.lease,
            "buckets": found.buckets,
            "participants": [_participant_to_json(participant) for participant in found.participants],
            "is_complete": found.is_complete,
            "began_ms": found.began_ms,
        }
    )


def decode_round(path: str, data: bytes) -> KafkaRound:
    """The round in a znode.

    Raises:
        CorruptDataError, UnsupportedFormatError: see `paths.decode`.
    """
    return paths.decode(path, data, _round_from_json)


def _round_from_json(payload: dict[str, Any]) -> KafkaRound:
    if {"began_ms", *payload} != {"version", *KafkaRound.__slots__}:
        raise ValueError("other fields than those of a round")
    return KafkaRound(
        outcome=Outcome(fields.text(payload["outcome"])),
        batch_id=fields.signed(payload["batch_id"]),
        fingerprint=fields.text(payload["fingerprint"]),
        run_id=fields.text(payload["run_id"]),
        nonce=fields.text(payload["nonce"]),
        lease=fields.number(payload["lease"]),
        buckets=fields.maybe(fields.number, payload["buckets"]),
        participants=fields.several(_participant_from_json, payload["participants"]),
        is_complete=fields.flag(payload["is_complete"]),
        began_ms=fields.maybe(fields.number, payload.get("began_ms")),
    )


def _participant_to_json(p: Participant) -> list[Any]:
    return [
        p.transactional_id,
        p.partition,
        p.producer_id,
        p.epoch,
        p.transaction_version,
        p.rows,
        p.content_hash,
        p.token_topic,
        int(p.is_lost),
    ]


def _participant_from_json(row: Any) -> Participant:
    transactional_id, partition, producer_id, epoch, version, rows, content_hash, token_topic, is_lost = fields.rows(
        row
    )
    return Participant(
        transactional_id=fields.text(transactional_id),
        partition=fields.number(partition),
        producer_id=fields.number(producer_id),
        epoch=fields.epoch(epoch),
        transaction_version=fields.number(version),
        rows=fields.number(rows),
        content_hash=fields.signed(content_hash),
        token_topic=fields.text(token_topic),
        is_lost=bool(fields.number(is_lost, most=1)),
    )


# Reading --------------------------------------------------------------------------------------------------------------


def read_ledger(reader: ZnodeReader, prefix: str) -> QueryLedger | None:
    """What the ledger says of a prefix; None before its first batch."""
    path = ledger_path(prefix)
    znode = reader.get(path)
    return None if znode is None else payloads.decode_ledger(path, znode.data)


def read_round(reader: ZnodeReader, prefix: str, number: int) -> KafkaRound | None:
    """What a round's znode says; None when it is over and forgotten."""
    path = round_path(prefix, number)
    znode = reader.get(path)
    return None if znode is None else decode_round(path, znode.data)


def read_rounds(reader: ZnodeReader, prefix: str) -> dict[int, KafkaRound]:
    """All rounds of a prefix that are remembered, oldest first."""
    found = reader.children_data(rounds_path(prefix))
    rounds = {int(name): decode_round(round_path(prefix, int(name)), znode.data) for name, znode in found}
    return dict(sorted(rounds.items()))


def prefixes(reader: ZnodeReader) -> list[str]:
    """All prefixes that have a ledger."""
    return [paths.name_of(name) for name in reader.children(ROOT)]


def require_ledger(reader: ZnodeReader, prefix: str) -> QueryLedger:
    """What the ledger says of a prefix.

    Raises:
        UnknownPrefixError: nothing.
        UsageError: it is no prefix that a sink can have.
    """
    found = read_ledger(reader, check_name("prefix", prefix))
    if found is None:
        raise UnknownPrefixError(
            "no Kafka sink has written under this prefix; the prefix is the sink's transactionalIdPrefix (or the "
            "query's id), with .<sinkName> if it has one",
            prefix=prefix,
            known=prefixes(reader),
        )
    return found


# Steps ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OpenRound:
    """A round that a driver may write: its number, lease and nonce."""

    number: int
    lease: int
    nonce: str


class Ledger:
    """The steps of one batch of one driver."""

    def __init__(self, store: ZnodeStore, request: BatchRequest) -> None:
        self._store = store
        self.request = request

    def begin(self, *, lease: int | None, buckets: int | None) -> OpenRound | None:
        """Plan the batch; aborts the previous undecided round in the same step.

        Args:
            lease: of this run's earlier rounds; None to begin one with this round, as is done if a newer one was taken.
            buckets: see `KafkaRound`.

        Returns:
            the open round; None when the batch was decided before.

        Raises:
            RunSupersededError, BatchRefusedError: see protocol/batch_ledger.py.
        """
        nonce = random_id()
        began_ms = resolving(lambda: store_now_ms(self._store))

        def plan(query_ids: QueryIds | None) -> OpenRound | None:
            return self._run(lambda view: self._begin(view, nonce, began_ms, lease, buckets, query_ids))

        return former_names.planning(self._store, ROOT, plan)

    def unfinished(self) -> dict[int, KafkaRound]:
        """Decided rounds whose commits may not all be done, oldest first."""
        with self._store.snapshot() as reader:
            rounds = read_rounds(reader, self.request.prefix)
        return {number: found for number, found in rounds.items() if found.is_unfinished}

    def decide(
        self, open_round: OpenRound, participants: Sequence[Participant], check: Callable[[], None] = lambda: None
    ) -> KafkaRound:
        """Decide the round, in one write. Afterwards nobody can undo it (I6).

        Args:
            open_round: which one.
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
        return self._run(lambda view: self._decide(view, open_round, participants, check))

    def abort(self, open_round: OpenRound) -> bool:
        """Abort the round if it is still open; returns whether it is aborted now, for good."""
        return abort(self._store, self.request.prefix, open_round.number)

    def record_lost(self, number: int, transactional_ids: Iterable[str]) -> int:
        """Record that these participants of a decided round were aborted, and take a lease for what replaces them.

        Running it twice takes two leases, of which the second counts.

        Raises:
            RunSupersededError: a newer driver took over.
        """
        lost = list(transactional_ids)

        def step(view: ZnodeView) -> int:
            ledger = self._live_ledger(view)
            found = _decided_round(view, self.request.prefix, number)
            view.set(self._round_path(number), encode_round(kafka_rounds.with_lost(found, lost)))
            return _take_lease(view, self.request.prefix, ledger)

        return self._run(step)

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
            ledger = self._live_ledger(view)
            found = _decided_round(view, self.request.prefix, number)
            if not found.lost:
                return found  # an earlier try of this step won
            if ledger.current_round != lease or found.is_complete:  # by a newer driver, or an operator gave them up
                raise self._aborted(number)
            check()
            replaced = kafka_rounds.with_rewritten(found, rewritten)
            view.set(self._round_path(number), encode_round(replaced))
            return replaced

        return self._run(step)

    def check_live(self) -> None:
        """Raise if this run may not write any more.

        Raises:
            RunSupersededError: a newer driver took over.
        """
        self._run(self._live_ledger)

    def forget_old_rounds(self) -> None:
        """Delete rounds that are over and behind the last decided one, a few at a time."""

        def step(view: ZnodeView) -> None:
            ledger = self._live_ledger(view)
            last = ledger.last.round if ledger.last is not None else 0
            for number, found in read_rounds(view, self.request.prefix).items():
                if number < last and not found.is_unfinished:
                    view.delete(self._round_path(number))

        if len(self._store.children(rounds_path(self.request.prefix))) > REMEMBERED_ROUNDS:
            self._run(step)

    # Within a step

    @property
    def _path(self) -> str:
        return ledger_path(self.request.prefix)

    def _round_path(self, number: int) -> str:
        return round_path(self.request.prefix, number)

    def _run(self, step: Callable[[ZnodeView], T]) -> T:
        return resolving(lambda: self._store.transact(step))

    def _begin(
        self,
        view: ZnodeView,
        nonce: str,
        began_ms: int,
        lease: int | None,
        buckets: int | None,
        query_ids: QueryIds | None,
    ) -> OpenRound | None:
        request = self.request
        ledger = read_ledger(view, request.prefix)
        current = None if ledger is None else read_round(view, request.prefix, ledger.current_round)
        if ledger is not None and current is not None and current.nonce == nonce:
            return OpenRound(ledger.current_round, current.lease, nonce)  # an earlier try of this step won
        verdict = batch_ledger.plan_batch(ledger, request)
        if ledger is None:
            view.create(self._path, payloads.encode_ledger(verdict.ledger))
        else:
            view.set(self._path, payloads.encode_ledger(verdict.ledger))
        if isinstance(verdict, AlreadyDecided):
            return None
        if verdict.previous is not None:
            _abort_in(view, request.prefix, verdict.previous)
        for former in former_names.supersede(view, ROOT, request, ledger, verdict.ledger, query_ids):
            _abort_in(view, *former)
        if lease is None or current is None or current.lease != lease:
            lease = verdict.number
        record = KafkaRound(
            Outcome.OPEN,
            request.batch_id,
            request.fingerprint,
            request.run_id,
            nonce,
            lease,
            buckets=buckets,
            began_ms=began_ms,
        )
        view.create(self._round_path(verdict.number), encode_round(record))
        return OpenRound(verdict.number, lease, nonce)

    def _decide(
        self, view: ZnodeView, open_round: OpenRound, participants: Sequence[Participant], check: Callable[[], None]
    ) -> KafkaRound:
        found = read_round(view, self.request.prefix, open_round.number)
        if found is not None and found.outcome is Outcome.COMMIT and found.nonce == open_round.nonce:
            return found  # an earlier try of this step won
        ledger = self._live_ledger(view)
        if found is None or found.outcome is not Outcome.OPEN or ledger.current_round != open_round.number:
            raise self._aborted(open_round.number)
        check()
        after = batch_ledger.decided(ledger, self.request, open_round.number)
        view.set(self._path, payloads.encode_ledger(after))
        record = kafka_rounds.decided(found, participants)
        view.set(self._round_path(open_round.number), encode_round(record))
        return record

    def _live_ledger(self, view: ZnodeView) -> QueryLedger:
        """The fence of every step: the run is not superseded, and no other query took the prefix over."""
        request = self.request
        ledger = read_ledger(view, request.prefix)
        if ledger is None:
            raise CorruptDataError("the ledger of a running sink is gone", prefix=request.prefix)
        batch_ledger.check_run(ledger, request.run_id, request.prefix)
        if ledger.query_id != request.query_id:
            raise RunSupersededError(
                "another query took this prefix over; this driver must stop",
                prefix=request.prefix,
                query_id=request.query_id,
                stored_query_id=ledger.query_id,
            )
        return ledger

    def _aborted(self, number: int) -> RoundAbortedError:
        return RoundAbortedError(
            "the round was aborted (by an operator or a newer driver); run the batch again",
            prefix=self.request.prefix,
            batch_id=self.request.batch_id,
            round=number,
        )


def abort(store: ZnodeStore, prefix: str, number: int) -> bool:
    """Abort a round, whoever's it is, if it is still open; returns whether it is aborted now."""

    def step(view: ZnodeView) -> bool:
        found = read_round(view, prefix, number)
        return _abort_in(view, prefix, number) or (found is not None and found.outcome is Outcome.ABORT)

    return resolving(lambda: store.transact(step))


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
        found = require_ledger(view, prefix)
        _abort_in(view, prefix, found.current_round)
        return _take_lease(view, prefix, found)

    return resolving(lambda: store.transact(step))


def complete(store: ZnodeStore, prefix: str, number: int) -> None:
    """Record that no commit of a decided round is left to be done."""

    def step(view: ZnodeView) -> None:
        found = read_round(view, prefix, number)
        if found is not None and found.is_unfinished:
            view.set(round_path(prefix, number), encode_round(kafka_rounds.completed(found)))

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
    found = read_round(view, prefix, number)
    if found is None or found.outcome is not Outcome.COMMIT:
        raise CorruptDataError("a decided round is gone", prefix=prefix, round=number)
    return found


def _take_lease(view: ZnodeView, prefix: str, ledger: QueryLedger) -> int:
    """A lease without a round of its own: whoever wrote under an older one finds out at the next step."""
    lease = ledger.current_round + 1
    view.set(ledger_path(prefix), payloads.encode_ledger(replace(ledger, current_round=lease)))
    return lease


def _abort_in(view: ZnodeView, prefix: str, number: int) -> bool:
    found = read_round(view, prefix, number)
    if found is None or found.outcome is not Outcome.OPEN:
        return False
    view.set(round_path(prefix, number), encode_round(replace(found, outcome=Outcome.ABORT)))
    return True
