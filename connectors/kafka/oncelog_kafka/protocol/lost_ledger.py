"""What can still be known of a query's newest batch after its ledger was lost. Pure.

The checkpoint says which batch Spark planned last, and whether it was completed. If it was not, the brokers may know:

- A token is committed with the rows of a participant, and only after the batch was decided. Hence a token of the batch
  proves that it was decided.
- Ids of the newest lease are all that a decided batch can have used, unless a lost part was written again under a later
  lease than the token's round. A transaction that was lost is not in the state ``CompleteCommit``. Hence the batch is
  whole if a token proves its decision and every id of the newest lease is in that state.
- A token stays as long as brokers keep offsets and its topic exists. Hence, within that time, nothing of the batch is
  visible if no group has a token of it, and every commit of the newest lease is explained by a token of an earlier
  batch in the same topic.

Everything else is unknown, and an operator has to say how it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from oncelog.errors import UsageError
from oncelog_kafka.protocol.participants import ParticipantId
from oncelog_kafka.protocol.tokens import TokenText

COMMITTED = "CompleteCommit"
OVER = frozenset({COMMITTED, "CompleteAbort", "Empty", "Dead"})
"""Kafka's names of the states in which an id has no transaction that may still end."""

CLOCKS_DIFFER_MS = 3_600_000
"""How much the driver's clock, by which a batch was planned, may be ahead of the brokers'."""


class Fate(StrEnum):
    """What became of the newest planned batch."""

    RECORDED = "recorded"
    WRITTEN = "written"
    MISSING = "missing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class LostQuery:
    """A query, as its checkpoint and its options say.

    Attributes:
        prefix, query_id, sink_name: as in the ledger.
        topic: of all rows; None if each row names its own.
        batch_id: of the newest planned batch.
        is_recorded: whether Spark has recorded it as done.
        planned_ms: when it was planned, by the driver's clock; None if the checkpoint does not say.
        fingerprints: of the newest planned batch and the one before it, as far as there are any.
    """

    prefix: str
    query_id: str
    sink_name: str
    topic: str | None
    batch_id: int
    is_recorded: bool
    planned_ms: int | None
    fingerprints: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Traces:
    """What the brokers know of the sink's transactions.

    Attributes:
        states: of its transactional ids.
        tokens: by the number of their group; several if rows name their topics.
        pending: numbers of the groups with a token in a transaction that is not over.
        kept_ms: how long the brokers keep ids and tokens at least; None if they do not say.
        now_ms: when they were asked.
    """

    states: Mapping[ParticipantId, str]
    tokens: Mapping[int, Sequence[TokenText]]
    pending: frozenset[int]
    kept_ms: int | None
    now_ms: int

    @property
    def all_tokens(self) -> list[TokenText]:
        return [one for several in self.tokens.values() for one in several]

    @property
    def newest_lease(self) -> int:
        """0 if there is no id."""
        return max((one.lease for one in self.states), default=0)

    @property
    def newest_round(self) -> int:
        """No round or lease of the lost ledger that left a trace has a higher number."""
        return max([self.newest_lease, *(one.round for one in self.all_tokens)])


@dataclass(frozen=True, slots=True)
class Finding:
    """The fate of the newest planned batch, and why that is known."""

    fate: Fate
    reason: str


def find(query: LostQuery, traces: Traces) -> Finding:
    """What became of the newest planned batch.

    Raises:
        UsageError: a transaction is not over, or the checkpoint does not fit to what the brokers know.
    """
    _check_over(query, traces)
    _check_same_query(query, traces)
    if query.is_recorded:
        return Finding(Fate.RECORDED, "Spark has recorded the batch as done")
    tokens = [one for one in traces.all_tokens if one.batch_id == query.batch_id]
    return _decided(tokens, traces) if tokens else _undecided(query, traces)


def _decided(tokens: Sequence[TokenText], traces: Traces) -> Finding:
    if traces.newest_lease > max(one.round for one in tokens):
        return Finding(Fate.UNKNOWN, "parts of it are committed, and others were written again under a new lease")
    left = _of_newest_lease(traces, is_committed=False)
    if left:
        return Finding(Fate.UNKNOWN, f"parts of it are committed, and others may be lost: {_some(left)}")
    return Finding(Fate.WRITTEN, "its tokens are there, and every transaction of its lease is committed")


def _undecided(query: LostQuery, traces: Traces) -> Finding:
    planned_ms = query.planned_ms
    if traces.kept_ms is None or planned_ms is None or traces.now_ms - planned_ms + CLOCKS_DIFFER_MS >= traces.kept_ms:
        return Finding(Fate.UNKNOWN, "the brokers may have forgotten the tokens of the batch since it was planned")
    committed = _of_newest_lease(traces, is_committed=True)
    unexplained = [one for one in committed if query.topic is None or one.partition not in traces.tokens]
    if unexplained:
        return Finding(
            Fate.UNKNOWN,
            f"a committed transaction may be of the batch, and its token deleted with its topic: {_some(unexplained)}",
        )
    return Finding(Fate.MISSING, "none of its transactions is committed")


def _check_over(query: LostQuery, traces: Traces) -> None:
    unfinished = sorted(str(one) for one, state in traces.states.items() if state not in OVER)
    if unfinished or traces.pending:
        raise UsageError(
            "transactions of the sink are not over: stop the query, and run this again when the brokers have timed "
            "them out",
            prefix=query.prefix,
            transactional_ids=unfinished,
        )


def _check_same_query(query: LostQuery, traces: Traces) -> None:
    newest = max(traces.all_tokens, key=lambda one: one.round, default=None)
    if newest is None:
        return
    if newest.query_id != query.query_id:
        raise UsageError(
            "another query wrote the newest batch under this prefix: give its checkpoint, or this query's prefix",
            prefix=query.prefix,
            query_id=query.query_id,
            newest_query_id=newest.query_id,
        )
    if newest.batch_id > query.batch_id:
        raise UsageError(
            "the brokers know a later batch than the checkpoint, which is an older copy: give the newest one",
            prefix=query.prefix,
            batch_id=query.batch_id,
            newest_batch_id=newest.batch_id,
        )


def _of_newest_lease(traces: Traces, *, is_committed: bool) -> list[ParticipantId]:
    return [
        one
        for one, state in traces.states.items()
        if one.lease == traces.newest_lease and (state == COMMITTED) is is_committed
    ]


def _some(ids: Sequence[ParticipantId]) -> str:
    names = sorted(map(str, ids))
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
