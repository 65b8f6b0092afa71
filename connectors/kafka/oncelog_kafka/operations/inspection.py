"""What operators ask about Kafka's transactions and a sink's ledger. Returns values; cli.py prints them.

Only three functions end transactions: `abort_open`, which leaves alone what a decision names, `abort_of_other_program`,
and `accept_loss`, which completes a decided batch as far as possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from oncelog.batches.giving_up import read_given_up
from oncelog.batches.payloads import GivenUp
from oncelog.errors import UsageError
from oncelog.ports import ZnodeStore
from oncelog.types import Outcome
from oncelog_kafka.ledger import ledger
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from oncelog_kafka.protocol.kafka_rounds import KafkaRound
from oncelog_kafka.protocol.participants import ONGOING, Participant, ParticipantId, Transaction, find_losers, of_prefix
from oncelog_kafka.protocol.ports import Brokers
from oncelog_kafka.sinks.finishing import DecidedRound, Ends, finish_despite_loss

HANGING_BEYOND_MS = 30_000
"""How far beyond its time-out a transaction must be to count as hanging. Coordinators look for expired transactions
every ten seconds."""


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    transactional_id: str
    state: str


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """One transactional id.

    Attributes:
        age_ms: of its open transaction, by this machine's clock; None if none is open.
        prefix: of the sink that the id belongs to, judging by its form; None if it is not a participant's id.
    """

    transactional_id: str
    state: str
    producer_id: int
    epoch: int
    timeout_ms: int
    age_ms: int | None
    partitions: tuple[str, ...]
    prefix: str | None


@dataclass(frozen=True, slots=True)
class ParticipantDescription:
    """A participant of a decided round, with its state at the coordinator; None if the coordinator does not know it."""

    transactional_id: str
    partition: int
    rows: int
    producer_id: int
    epoch: int
    is_lost: bool
    state: str | None
    left_ms: int | None


@dataclass(frozen=True, slots=True)
class BatchDescription:
    """The newest round of a sink, and what a restart of the query does with it.

    Attributes:
        last_batch_id: the last decided batch; None before the first.
        recovery: what a restart of the query does, in words.
        participants: of a decided round.
        undecided: open transactions of the sink that no decision names.
        given_up: what operators gave up of decided batches, oldest first.
    """

    prefix: str
    query_id: str
    run_id: str
    last_batch_id: int | None
    round: int
    batch_id: int
    state: str
    lease: int
    recovery: str
    participants: tuple[ParticipantDescription, ...]
    undecided: tuple[str, ...]
    given_up: tuple[GivenUp, ...]


@dataclass(frozen=True, slots=True)
class MissingPart:
    """A participant of a decided round that an operator gave up.

    Attributes:
        is_certain: whether the brokers certainly aborted it. If False, its rows may have been committed.
    """

    transactional_id: str
    partition: int
    rows: int
    is_certain: bool


@dataclass(frozen=True, slots=True)
class CompletedRound:
    """A decided round that was marked as complete, and what is missing from it."""

    round: int
    batch_id: int
    missing: tuple[MissingPart, ...]


def list_transactions(brokers: Brokers, prefix: str | None, states: Sequence[str] = ()) -> list[ListedTransaction]:
    """All transactional ids, or those of one sink."""
    found = brokers.list_ids(states)
    chosen = found if prefix is None else of_prefix(prefix, found)
    return [ListedTransaction(name, state) for name, state in chosen]


def describe_transactions(brokers: Brokers, transactional_ids: Sequence[str]) -> list[TransactionDescription]:
    """What the coordinators know about these ids.

    Raises:
        UsageError: they do not know one of them.
    """
    found = _known(brokers, transactional_ids)
    now_ms = brokers.clock.now_ms()
    return [_description(one, now_ms) for one in found]


def _known(brokers: Brokers, transactional_ids: Sequence[str]) -> list[Transaction]:
    found = brokers.describe(transactional_ids)
    unknown = [name for name in transactional_ids if name not in found]
    if unknown:
        raise UsageError("the brokers know no such transactional id", unknown=unknown)
    return [found[name] for name in transactional_ids]


def find_hanging(brokers: Brokers) -> list[TransactionDescription]:
    """Transactions that are open beyond their time-out: their coordinator should have aborted them long ago."""
    open_ids = [name for name, _ in brokers.list_ids([ONGOING])]
    found = brokers.describe(open_ids).values()
    now_ms = brokers.clock.now_ms()
    described = [_description(one, now_ms) for one in found]
    return [one for one in described if one.age_ms is not None and one.age_ms > one.timeout_ms + HANGING_BEYOND_MS]


def abort_open(brokers: Brokers, store: ZnodeStore, prefix: str) -> list[str]:
    """Abort the undecided round of a sink, and all of its open transactions that no decision names.

    A driver that is still running finds its round aborted, and runs the batch again under a new lease.

    Returns:
        The ids that were aborted.

    Raises:
        UnknownPrefixError: no sink has written under this prefix.
    """
    lease = ledger.abort_open(store, prefix)
    named = _named(KAFKA_LEDGERS.read_rounds(store, prefix).values())
    undecided = find_losers(prefix, lease, named, brokers.list_ids([ONGOING]))
    described = brokers.describe(undecided)
    brokers.fence(described, max((one.timeout_ms for one in described.values()), default=1))
    return sorted(described)


def abort_of_other_program(brokers: Brokers, transactional_id: str) -> bool:
    """Abort the open transaction of a program that is no sink, and fence its producer, as its next start would.

    Returns:
        Whether a transaction was open.

    Raises:
        UsageError: the id has the form of a sink's, whose ledger has to say what is undecided; or nobody knows it.
    """
    sinks = ParticipantId.parse(transactional_id)
    if sinks is not None:
        raise UsageError(
            "this is the id of a sink, and a batch of it may be decided: abort what is not by the sink's prefix",
            transactional_id=transactional_id,
            prefix=sinks.prefix,
        )
    (found,) = _known(brokers, [transactional_id])
    if found.state != ONGOING:
        return False
    brokers.fence([transactional_id], found.timeout_ms)
    return True


def accept_loss(
    brokers: Brokers, store: ZnodeStore, prefix: str, *, reason: str = "", operator: str = ""
) -> list[CompletedRound]:
    """Let a query continue after its decided batch lost a part: commit what is left of the batch, give up the rest.

    The query must be stopped, because it might be writing the lost part again.

    Args:
        reason, operator: of the record of what was given up.

    Raises:
        UnknownPrefixError: no sink has written under this prefix.
        UsageError: every decided batch is complete.
    """
    KAFKA_LEDGERS.require(store, prefix)
    unfinished = {number: one for number, one in KAFKA_LEDGERS.read_rounds(store, prefix).items() if one.is_unfinished}
    if not unfinished:
        raise UsageError("there is nothing to complete: every decided batch of the query is complete", prefix=prefix)
    completed = []
    for number, one in sorted(unfinished.items()):
        decided = DecidedRound(prefix, number, one)
        ends = finish_despite_loss(brokers, store, decided, reason=reason, operator=operator)
        completed.append(CompletedRound(number, one.batch_id, _missing(ends)))
    return completed


def _missing(ends: Ends) -> tuple[MissingPart, ...]:
    parts = [(p, True) for p in ends.lost] + [(p, False) for p, _ in ends.unknown]
    return tuple(MissingPart(p.transactional_id, p.partition, p.rows, is_certain) for p, is_certain in parts)


def describe_batch(brokers: Brokers, store: ZnodeStore, prefix: str) -> BatchDescription:
    """A sink's latest batch, as the ledger and the brokers know it.

    Raises:
        UnknownPrefixError: no sink has written under this prefix.
    """
    found = KAFKA_LEDGERS.require(store, prefix)
    rounds = KAFKA_LEDGERS.read_rounds(store, prefix)
    number = max((n for n, one in rounds.items() if one.is_unfinished), default=max(rounds, default=0))
    newest = rounds[number]
    known = brokers.describe(participant.transactional_id for participant in newest.participants)
    now_ms = brokers.clock.now_ms()
    participants = tuple(_participant(p, known.get(p.transactional_id), now_ms) for p in newest.participants)
    return BatchDescription(
        prefix,
        found.query_id,
        found.run_id,
        found.last.batch_id if found.last is not None else None,
        number,
        newest.batch_id,
        _state(newest),
        newest.lease,
        _recovery(newest, participants),
        participants,
        tuple(_undecided(brokers, prefix, rounds.values())),
        tuple(read_given_up(store, KAFKA_LEDGERS, prefix)),
    )


def _undecided(brokers: Brokers, prefix: str, rounds: Iterable[KafkaRound]) -> list[str]:
    named = {participant.transactional_id for participant in _named(rounds)}
    return [name for name, _ in of_prefix(prefix, brokers.list_ids([ONGOING])) if name not in named]


def _named(rounds: Iterable[KafkaRound]) -> list[Participant]:
    """The participants of decisions that may not be complete yet."""
    return [participant for one in rounds if one.is_unfinished for participant in one.participants]


def _state(found: KafkaRound) -> str:
    if found.outcome is not Outcome.COMMIT:
        return found.outcome.value
    return "complete" if found.is_complete else "decided"


def _recovery(found: KafkaRound, participants: Sequence[ParticipantDescription]) -> str:
    if found.outcome is Outcome.OPEN:
        return "the round is aborted with its transactions, and the batch is written again"
    if found.outcome is Outcome.ABORT:
        return "the batch is written again"
    if found.is_complete:
        return "nothing is left to do; a replay of the batch is skipped"
    lost = sum(p.is_lost or p.state in _ABORTED for p in participants)
    if lost:
        return (
            f"the brokers aborted {lost} of {len(participants)} participants; if onTimedOutParticipant=rewrite was set "
            "from the start, they are written again and verified; otherwise an error names them"
        )
    unclear = sum(p.state not in _COMMITTABLE for p in participants)
    if unclear:
        return (
            f"the commit of every participant is sent again; {unclear} of {len(participants)} are no longer open, "
            "and their tokens tell whether they were committed or lost"
        )
    return "the commit of every participant is sent again; nothing is written"


_ABORTED = frozenset({"PrepareAbort", "CompleteAbort"})
_COMMITTABLE = frozenset({ONGOING, "PrepareCommit", "CompleteCommit"})
"""Kafka's names of the states in which a commit cannot succeed, and of those in which it can."""


def _participant(p: Participant, found: Transaction | None, now_ms: int) -> ParticipantDescription:
    if found is not None and found.producer_id != p.producer_id:
        found = None  # the id expired, and somebody uses it again
    return ParticipantDescription(
        p.transactional_id,
        p.partition,
        p.rows,
        p.producer_id,
        p.epoch,
        p.is_lost,
        None if found is None else found.state,
        _left_ms(found, now_ms),
    )


def _description(found: Transaction, now_ms: int) -> TransactionDescription:
    name = ParticipantId.parse(found.transactional_id)
    age_ms = now_ms - found.started_ms if found.started_ms > 0 else None
    return TransactionDescription(
        found.transactional_id,
        found.state,
        found.producer_id,
        found.epoch,
        found.timeout_ms,
        age_ms if found.state == ONGOING else None,
        found.partitions,
        None if name is None else name.prefix,
    )


def _left_ms(found: Transaction | None, now_ms: int) -> int | None:
    if found is None or found.state != ONGOING:
        return None
    return found.started_ms + found.timeout_ms - now_ms
