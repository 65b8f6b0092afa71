"""What an answer to EndTxn(commit) of a decided participant means: one list of decisions. Pure.

The decision stands, so there are three ends only: the participant is committed, it is lost, or nothing can tell. Kafka
answers PRODUCER_FENCED and INVALID_PRODUCER_ID_MAPPING to committed and to aborted transactions alike, so these are
settled by the *token*: the offset that the participant's own transaction writes to a group of its own, with the nonce
of the round. It is there if, and only if, that transaction committed. Brokers 3.x break that where an older epoch of
the same producer id stages an offset in the same group before the end: it is refused, and still takes away what was
staged. Hence an id is used again only behind batches none of whose tasks was tried twice.

    a commit is sent when                              v5, TV2                      v3/v4, TV1
    still open                                         none                         none
    committed before                                   none                         none
    timed out, so aborted                              INVALID_TXN_STATE (newer     PRODUCER_FENCED
                                                       brokers: PRODUCER_FENCED)
    id re-initialised since, whatever happened before  PRODUCER_FENCED              PRODUCER_FENCED
    id unknown, expired, or of another producer id     INVALID_PRODUCER_ID_MAPPING  INVALID_PRODUCER_ID_MAPPING
    the opposite result was stored                     INVALID_TXN_STATE            INVALID_TXN_STATE
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Token(StrEnum):
    """What the token of a participant says."""

    NOT_ASKED = "not asked"
    THERE = "there"
    PENDING = "pending"
    """The group's offsets are not stable: the transaction is about to end."""

    ABSENT = "absent"
    OUTDATED = "absent, but brokers may have forgotten it"
    """The decision is older than the time for which brokers keep a group's offsets, or nobody knows how old it is:
    absence proves nothing."""

    OVERWRITTEN = "that of a later round is there"
    """So this round was complete once, and a ledger that says otherwise is an older copy."""


class Next(StrEnum):
    """What to do next with a participant."""

    DONE = "it is committed"
    SEND_AGAIN = "send the commit again"
    ASK_TOKEN = "look for its token"
    LOST = "it was aborted"
    UNKNOWN = "nothing tells what became of it"
    REFUSED = "the broker refuses this client"
    UNEXPECTED = "no answer that a commit can have"


@dataclass(frozen=True, slots=True)
class Row:
    """One decision: any of these answers, with any of these tokens, leads to `next`."""

    answers: frozenset[str]
    tokens: frozenset[Token]
    next: Next
    why: str


_ANY = frozenset(Token)

PASSING = frozenset(
    {
        "CONCURRENT_TRANSACTIONS",
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "NETWORK_EXCEPTION",
        "REQUEST_TIMED_OUT",
        "UNSTABLE_OFFSET_COMMIT",
    }
)
"""Answers that say nothing but: not now, or not here."""

AMBIGUOUS = frozenset({"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING", "INVALID_TXN_STATE"})
"""Answers that committed transactions get as well as aborted ones, depending on what happened to the id since."""

REFUSALS = frozenset(
    {
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "TOPIC_AUTHORIZATION_FAILED",
        "CLUSTER_AUTHORIZATION_FAILED",
        "SASL_AUTHENTICATION_FAILED",
    }
)

DECISIONS: tuple[Row, ...] = (
    Row(frozenset({"NONE"}), _ANY, Next.DONE, "the coordinator stored the commit, now or before"),
    Row(
        PASSING, _ANY, Next.SEND_AGAIN, "the coordinator is busy, moved or unreachable: the same request is idempotent"
    ),
    Row(REFUSALS, _ANY, Next.REFUSED, "ACLs or credentials"),
    Row(AMBIGUOUS, frozenset({Token.NOT_ASKED}), Next.ASK_TOKEN, "committed and aborted ones answer alike"),
    Row(AMBIGUOUS, frozenset({Token.THERE}), Next.DONE, "the token commits with the rows"),
    Row(AMBIGUOUS, frozenset({Token.PENDING}), Next.ASK_TOKEN, "the transaction is ending: its token shows how"),
    Row(AMBIGUOUS, frozenset({Token.ABSENT}), Next.LOST, "over, and its token did not commit: so neither did the rows"),
    Row(AMBIGUOUS, frozenset({Token.OUTDATED}), Next.UNKNOWN, "brokers may have dropped a token that was there"),
    Row(AMBIGUOUS, frozenset({Token.OVERWRITTEN}), Next.UNKNOWN, "a later batch wrote over a token that was there"),
)


def decide(answer: str, token: Token = Token.NOT_ASKED) -> Next:
    """What to do after `answer` to a commit, with what is known of the token.

    Args:
        answer: Kafka's name of the error code, ``NONE`` for success.
        token: what it said, if it was looked for.
    """
    for row in DECISIONS:
        if answer in row.answers and token in row.tokens:
            return row.next
    return Next.UNEXPECTED


def wire_versions(transaction_version: int) -> tuple[int, int]:
    """Least and greatest version of EndTxn for a participant.

    The transaction's own version decides, not what the broker offers: one at transaction.version 1 takes version 5 too,
    and raises the epoch, so that whoever repeats the commit in an older form would look fenced.
    """
    return (5, 5) if transaction_version >= 2 else (0, 4)
