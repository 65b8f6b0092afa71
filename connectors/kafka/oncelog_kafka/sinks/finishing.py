"""Ends the participants of a decided round: sends their commits until each is committed or found to be lost.

Called by the driver after its decision, by recovery, and by the command line. Several processes may run it at the same
time and any number of times: for a transaction that is committed already, either the commit succeeds again or the token
exists.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from oncelog.batches import giving_up
from oncelog.batches.payloads import GivenUp
from oncelog.crash_points import reach
from oncelog.ports import ZnodeStore
from oncelog.znodes.clock import store_now_ms
from oncelog.znodes.transact import resolving
from oncelog_kafka.crash_points import KafkaCrashPoint
from oncelog_kafka.errors import BrokerAccessError, ParticipantLostError
from oncelog_kafka.ledger import ledger
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from oncelog_kafka.protocol import end_txn, extents, tokens
from oncelog_kafka.protocol.end_txn import Next, Token
from oncelog_kafka.protocol.extents import NOWHERE
from oncelog_kafka.protocol.kafka_rounds import KafkaRound
from oncelog_kafka.protocol.participants import ONGOING, Handover, Participant, Transaction, by_time_left, token_group
from oncelog_kafka.protocol.ports import Brokers, CommittedOffset, Unstable
from oncelog_kafka.sinks import partition_checks
from oncelog_kafka.sinks.partition_checks import UNKNOWN_TOPIC

RETENTION_SETTINGS = ("offsets.retention.minutes", "transactional.id.expiration.ms")
"""For the shorter of these two times after the decision, an absent token was never committed."""

CLOCKS_DIFFER_MS = 3_600_000
"""How much the clock of a ledger's store may be behind the one that its rounds began by; the ledger may be a copy."""


@dataclass(frozen=True, slots=True)
class DecidedRound:
    """A decided round, with its prefix and number."""

    prefix: str
    number: int
    record: KafkaRound


@dataclass(frozen=True, slots=True)
class Ends:
    """What became of the participants of a decided round.

    Attributes:
        lost: the brokers aborted them.
        unknown: it cannot be known any more; each with the answer to its commit.
        handovers: of those whose commit a coordinator of transaction version 2 answered just now, by partition.
    """

    lost: list[Participant] = field(default_factory=list)
    unknown: list[tuple[Participant, str]] = field(default_factory=list)
    handovers: dict[int, Handover] = field(default_factory=dict)


def finish(
    brokers: Brokers, store: ZnodeStore, decided: DecidedRound, found: Mapping[str, Transaction] | None = None
) -> Ends:
    """Commit every participant of a decided round, and record that it is complete if none is lost.

    Args:
        found: what the coordinators said about the participants, if they were asked just now.

    Returns:
        Its ends: `lost` includes those that were recorded as lost before, `unknown` is empty.

    Raises:
        ParticipantLostError: it cannot be known whether a participant was committed; the others are ended.
        BrokerUnavailableError, BrokerAccessError: call this again later for the rest.
    """
    ends = _settle(brokers, store, decided, found)
    for participant, answer in ends.unknown:
        raise _no_end(decided, participant, answer, Next.UNKNOWN)
    if not ends.lost:
        _complete(store, decided)
    return ends


def finish_despite_loss(
    brokers: Brokers, store: ZnodeStore, decided: DecidedRound, *, reason: str = "", operator: str = ""
) -> Ends:
    """Commit what can be committed of a decided round, and record that it is complete without the rest.

    For an operator who gives up what is missing: the query continues with the next batch, and the missing part is never
    written again. The ledger records what was given up.

    Args:
        reason, operator: of the record.

    Returns:
        Its ends; nothing was missing if `lost` and `unknown` are empty.

    Raises:
        BrokerUnavailableError, BrokerAccessError: nothing is recorded; call this again later.
    """
    ends = _settle(brokers, store, decided)
    lost = {participant.transactional_id for participant in [*ends.lost, *(one for one, _ in ends.unknown)]}
    parts = [*map(_part, ends.lost), *(f"{_part(one)}, which may have been committed" for one, _ in ends.unknown)]
    _complete(store, decided, lost, _given_up(store, decided, parts, reason, operator) if parts else None)
    left_open = brokers.describe(lost)
    _abort(brokers, [name for name, one in left_open.items() if one.state == ONGOING], left_open)
    return ends


def _part(participant: Participant) -> str:
    return f"{participant.transactional_id}: {participant.rows} rows"


def _given_up(store: ZnodeStore, decided: DecidedRound, parts: Sequence[str], reason: str, operator: str) -> GivenUp:
    now_ms = resolving(lambda: store_now_ms(store))
    return giving_up.new_record(decided.number, decided.record.batch_id, now_ms, parts, reason, operator)


def _complete(
    store: ZnodeStore, decided: DecidedRound, lost: Collection[str] = (), given_up: GivenUp | None = None
) -> None:
    ledger.complete(store, decided.prefix, decided.number, lost, given_up)
    reach(KafkaCrashPoint.COMPLETE)


def _settle(
    brokers: Brokers, store: ZnodeStore, decided: DecidedRound, found: Mapping[str, Transaction] | None = None
) -> Ends:
    """End every participant."""
    waiting = [participant for participant in decided.record.participants if not participant.is_lost]
    if found is None:
        found = brokers.describe(participant.transactional_id for participant in waiting)
        _abort_ended_elsewhere(brokers, waiting, found)
    ends = Ends(list(decided.record.lost))
    ordered = by_time_left(waiting, found)
    for some in (ordered[:1], ordered[1:]):  # a problem that they all have shows with the first one
        if some:
            reach(KafkaCrashPoint.END)
            _commit(brokers, store, decided, some, ends)
            reach(KafkaCrashPoint.ENDED)
    return ends


def _abort_ended_elsewhere(brokers: Brokers, waiting: Sequence[Participant], found: Mapping[str, Transaction]) -> None:
    """Abort the transactions that somebody ended in one of their partitions; see partition_checks.py.

    They must not be committed, because a part of their rows would be missing. But a coordinator that was deposed may
    still call a transaction open that its successor has committed. It cannot carry out an abort, which has to be
    replicated. Hence the participant is not lost yet: the commit that follows is refused either way, and the token
    shows what became of the transaction.
    """
    opened = [one for one in waiting if partition_checks.is_open(one, found.get(one.transactional_id))]
    places = partition_checks.of_transactions(found[one.transactional_id] for one in opened)
    suspects = partition_checks.find_ended(opened, found, brokers.states(NOWHERE, places)) if places else {}
    again = brokers.describe(suspects) if suspects else {}
    ended = [one for one in opened if partition_checks.is_open(one, again.get(one.transactional_id))]
    _abort(brokers, [one.transactional_id for one in ended], again)


def _abort(brokers: Brokers, transactional_ids: Sequence[str], found: Mapping[str, Transaction]) -> None:
    brokers.fence(transactional_ids, max((found[name].timeout_ms for name in transactional_ids), default=1))


def _commit(
    brokers: Brokers, store: ZnodeStore, decided: DecidedRound, participants: Sequence[Participant], ends: Ends
) -> None:
    """Send the commits until all participants are ended; add to `ends` what became of them."""
    waiting = list(participants)
    lost: list[Participant] = []
    unknown: list[tuple[Participant, str]] = []
    for _ in brokers.tries("a decided batch could not be committed", prefix=decided.prefix, round=decided.number):
        answers = brokers.commit(waiting)
        first = [end_txn.decide(answer) for answer, _ in answers]
        unclear = [p for p, step in zip(waiting, first, strict=True) if step is Next.ASK_TOKEN]
        said = _tokens(brokers, store, decided, unclear) if unclear else {}
        left = []
        for participant, (answer, following) in zip(waiting, answers, strict=True):
            if following is not None:
                ends.handovers[participant.partition] = Handover(participant.producer, following)
            step = end_txn.decide(answer, said.get(participant.transactional_id, Token.NOT_ASKED))
            if step in {Next.SEND_AGAIN, Next.ASK_TOKEN}:
                left.append(participant)
            elif step is Next.LOST:
                lost.append(participant)
            elif step is Next.UNKNOWN:
                unknown.append((participant, answer))
            elif step is not Next.DONE:
                raise _no_end(decided, participant, answer, step)
        waiting = left
        if not waiting:
            break
    if (lost or unknown) and not _is_over(store, decided):
        ends.lost.extend(lost)
        ends.unknown.extend(unknown)


def _is_over(store: ZnodeStore, decided: DecidedRound) -> bool:
    """Whether the ledger now says that somebody else has completed the round.

    This is checked after the tokens were read. A later round overwrites tokens, and begins only once this one is
    recorded as complete. Hence a token that is absent while the round is not complete was never there.
    """
    found = KAFKA_LEDGERS.read_round(store, decided.prefix, decided.number)
    return found is None or found.is_complete


def _no_end(decided: DecidedRound, participant: Participant, answer: str, step: Next) -> Exception:
    fields = {
        "prefix": decided.prefix,
        "round": decided.number,
        "batch_id": decided.record.batch_id,
        "transactional_id": participant.transactional_id,
        "producer": f"{participant.producer_id}.{participant.epoch}",
        "answer": answer,
    }
    if step is Next.REFUSED:
        return BrokerAccessError(
            "the brokers do not let the driver commit a decided batch; check the ACLs (WRITE on the transactional id, "
            "READ on the token's group) and start the query again, before the transactions time out",
            **fields,
        )
    if step is Next.UNKNOWN:
        return ParticipantLostError(
            "it can no longer be known whether a part of a decided batch was committed: the transactional id and its "
            "token are older than the brokers remember, or the token was deleted with its topic, or the ledger is an "
            "older copy and a later batch overwrote the token; compare the topics with the source, then mark the batch "
            "as complete (oncelog kafka batch complete)",
            **fields,
        )
    return BrokerAccessError("the brokers gave an answer to a commit that this connector does not know", **fields)


# Tokens ---------------------------------------------------------------------------------------------------------------


def _tokens(
    brokers: Brokers, store: ZnodeStore, decided: DecidedRound, participants: Sequence[Participant]
) -> dict[str, Token]:
    groups = {p.transactional_id: token_group(decided.prefix, p.partition) for p in participants}
    found = brokers.offsets({groups[p.transactional_id]: [(p.token_topic, 0)] for p in participants})
    said = {
        p.transactional_id: _token(found[groups[p.transactional_id]].get((p.token_topic, 0)), decided)
        for p in participants
    }
    absent = [p for p in participants if said[p.transactional_id] is Token.ABSENT]
    if absent:
        is_remembered = _is_remembered(brokers, store, decided)
        gone = _topics_that_are_gone(brokers, store, decided, {p.token_topic for p in absent})
        outdated = {p.transactional_id for p in absent if not is_remembered or p.token_topic in gone}
        said |= dict.fromkeys(outdated, Token.OUTDATED)
    return said


def _topics_that_are_gone(brokers: Brokers, store: ZnodeStore, decided: DecidedRound, topics: set[str]) -> set[str]:
    """Which of these topics were deleted since the batch was written, even if they were created again.

    With a topic, brokers delete the offsets that groups have in it.
    """
    found = extents.read(store, KAFKA_LEDGERS.path(decided.prefix)).get(decided.number, {})
    a_partition_of = {one.topic: one for one in found if one.topic in topics}
    states = brokers.states({one: found[one] for one in a_partition_of.values()})
    recreated = {topic for (topic, _), state in states.items() if isinstance(state, str) and state in UNKNOWN_TOPIC}
    return recreated | {topic for topic in topics - recreated if brokers.partitions_of(topic) is None}


def _token(found: CommittedOffset | Unstable | None, decided: DecidedRound) -> Token:
    if isinstance(found, Unstable):
        return Token.PENDING
    if found is None:
        return Token.ABSENT
    said = tokens.read(found.metadata)
    if said is None:
        return Token.ABSENT
    if said.nonce == decided.record.nonce:
        return Token.THERE
    return Token.OVERWRITTEN if said.round > decided.number else Token.ABSENT


def _is_remembered(brokers: Brokers, store: ZnodeStore, decided: DecidedRound) -> bool:
    """Whether the brokers would still have a token of this round; False if they do not say how long they keep it."""
    kept = kept_ms(brokers)
    age_ms = ledger.decision_age_ms(store, decided.record)
    return kept is not None and age_ms is not None and age_ms + CLOCKS_DIFFER_MS < kept


def kept_ms(brokers: Brokers) -> int | None:
    """How long the brokers keep tokens and transactional ids at least; None if they do not say."""
    minutes, id_ms = (brokers.broker_setting(name) for name in RETENTION_SETTINGS)
    return None if minutes is None or id_ms is None else min(minutes * 60_000, id_ms)
