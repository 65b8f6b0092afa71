"""What the answer to EndTxn(commit) of a decided participant means, as one list of decisions. Pure.

The decision stands, so there are three outcomes: the participant is committed, it is lost, or it cannot be known. Kafka
answers PRODUCER_FENCED and INVALID_PRODUCER_ID_MAPPING for committed and for aborted transactions alike. In these cases
the *token* tells: the offset that the participant's own transaction writes to one of the sink's groups, with the nonce
of the round. It exists if, and only if, that transaction committed.

Brokers 3.x break this rule if an older epoch of the same producer id stages an offset in the same group before the end:
the broker refuses that offset, but removes the one that was staged. Hence an id is used again only after a batch in
which no task was tried twice.

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
    """The group's offsets are not stable yet: the transaction is about to end."""

    ABSENT = "absent"
    OUTDATED = "absent, but brokers may have forgotten it"
    """The decision is older than the time for which brokers keep a group's offsets, or its age is unknown, or the
    token's topic was deleted, and the token with it. So the absence proves nothing."""

    OVERWRITTEN = "that of a later round is there"
    """Hence this round was once complete, and a ledger that says otherwise is an older copy."""


class Next(StrEnum):
    """What to do next with a participant."""

    DONE = "it is committed"
    SEND_AGAIN = "send the commit again"
    ASK_TOKEN = "look for its token"
    LOST = "it was aborted"
    UNKNOWN = "it cannot be known whether it was committed"
    REFUSED = "the broker refuses this client"
    UNEXPECTED = "not a possible answer to a commit"


@dataclass(frozen=True, slots=True)
class Row:
    """One decision: any of these answers together with any of these tokens leads to `next`."""

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
"""Answers that only mean: not now, or not at this broker."""

AMBIGUOUS = frozenset({"PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING", "INVALID_TXN_STATE"})
"""Answers that both committed and aborted transactions get, depending on what has happened to the id since."""

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
    Row(AMBIGUOUS, frozenset({Token.NOT_ASKED}), Next.ASK_TOKEN, "the same answer for committed and aborted ones"),
    Row(AMBIGUOUS, frozenset({Token.THERE}), Next.DONE, "the token commits with the rows"),
    Row(AMBIGUOUS, frozenset({Token.PENDING}), Next.ASK_TOKEN, "the transaction is ending: its token shows how"),
    Row(AMBIGUOUS, frozenset({Token.ABSENT}), Next.LOST, "it is over and its token did not commit, nor did its rows"),
    Row(AMBIGUOUS, frozenset({Token.OUTDATED}), Next.UNKNOWN, "brokers may have dropped the token"),
    Row(AMBIGUOUS, frozenset({Token.OVERWRITTEN}), Next.UNKNOWN, "a later batch may have overwritten the token"),
)


def decide(answer: str, token: Token = Token.NOT_ASKED) -> Next:
    """What to do after this answer to a commit.

    Args:
        answer: Kafka's name of the error code, ``NONE`` for success.
        token: what the token says, if it was read.
    """
    for row in DECISIONS:
        if answer in row.answers and token in row.tokens:
            return row.next
    return Next.UNEXPECTED


def wire_versions(transaction_version: int) -> tuple[int, int]:
    """The lowest and highest version of EndTxn for a participant.

    They depend on the transaction's own version, not on what the broker supports. A broker at transaction.version 1
    accepts EndTxn version 5 too, and then raises the epoch, so repeating the commit in an older version would look
    fenced.
    """
    return (5, 5) if transaction_version >= 2 else (0, 4)
