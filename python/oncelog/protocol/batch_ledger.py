"""The batch ledger: what to do with a micro-batch that a streaming query hands to a sink.

The ledger of a transactional-id prefix remembers the query that owns it and its last decided batch. A batch that
repeats that one is a no-op; one that follows gets a *round*, one attempt to write it; anything else contradicts the
history and is refused, because writing it could lose or copy records. Pure: (ledger, request) -> verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

from oncelog.errors import BatchRefusedError, RunSupersededError

REMEMBERED_RUNS = 200
"""Superseded run ids the ledger keeps: a driver that wakes up after that many restarts of its query is long fenced by
its rounds, which were aborted."""


@dataclass(frozen=True, slots=True)
class LastBatch:
    """The last decided batch of a prefix."""

    batch_id: int
    fingerprint: str
    round: int
    run_id: str


@dataclass(frozen=True, slots=True)
class QueryLedger:
    """The ledger's znode of one prefix.

    Attributes:
        query_id: the streaming query that owns the prefix.
        sink_name: tells several sinks of one query apart.
        run_id: the live run; every restart of the query has another.
        superseded_runs: runs that get a fatal error at their next step, newest last.
        current_round: number of the newest round, 0 before the first.
        last: the last decided batch, None before the first (or after a takeover).
        group_id: the consumer group whose offsets the batches carry, if any.
    """

    query_id: str
    sink_name: str
    run_id: str
    superseded_runs: tuple[str, ...] = ()
    current_round: int = 0
    last: LastBatch | None = None
    group_id: str | None = None

    @property
    def runs(self) -> set[str]:
        """The runs that asked for a batch under the prefix, as far as the ledger remembers."""
        return {self.run_id, *self.superseded_runs}


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """What a driver asks for: write this batch of this run of this query.

    Attributes:
        fingerprint: of the start and end offsets of all sources; equal for a true replay only.
        takeover: id of the query whose history under the prefix this query continues, if the user said so.
    """

    prefix: str
    query_id: str
    sink_name: str
    run_id: str
    batch_id: int
    fingerprint: str
    group_id: str | None = None
    takeover: str | None = None


@dataclass(frozen=True, slots=True)
class NewRound:
    """Write the batch in round `number`; the round `previous`, if still open, is aborted in the same step."""

    ledger: QueryLedger
    number: int
    previous: int | None


@dataclass(frozen=True, slots=True)
class AlreadyDecided:
    """The batch is in the log: write nothing, settle what `round` left."""

    ledger: QueryLedger
    round: int


def plan_batch(ledger: QueryLedger | None, request: BatchRequest) -> NewRound | AlreadyDecided:
    """Decide what to do with a batch.

    Args:
        ledger: what the prefix's znode says, None if it does not exist.
        request: the batch.

    Returns:
        `NewRound` or `AlreadyDecided`, each with the ledger to store.

    Raises:
        RunSupersededError: a newer run of the query took over; this driver must stop.
        BatchRefusedError: the history contradicts the batch; the text says what to do.
    """
    if ledger is None:
        fresh = QueryLedger(request.query_id, request.sink_name, request.run_id, group_id=request.group_id)
        return _new_round(fresh, request)
    check_run(ledger, request.run_id, request.prefix)
    ledger = _adopted(ledger, request)
    last = ledger.last
    if last is not None and request.batch_id <= last.batch_id:
        _check_is_replay(last, request)
        return AlreadyDecided(_superseding(ledger, request.run_id), last.round)
    return _new_round(_superseding(ledger, request.run_id), request)


def former_names(
    planned: QueryLedger, request: BatchRequest, others: Mapping[str, QueryLedger]
) -> dict[str, QueryLedger]:
    """Tell the other sinks of a query from former names of this one, when a run has its first batch under a prefix.

    Sinks of which one run has heard stand side by side in the query's function. What is left may be this sink before
    its prefix or its sinkName was changed: nothing may be written in its name any more, and what was, is not repeated.

    Args:
        planned: the sink's ledger once it has the batch's round.
        request: the batch.
        others: the other ledgers of the same query, by prefix.

    Returns:
        ledgers to store, by prefix, with their run superseded: it may be alive still, also between two batches.

    Raises:
        BatchRefusedError: the batch was written under another name.
    """
    former = {
        prefix: other
        for prefix, other in sorted(others.items())
        if other.query_id == request.query_id and not other.runs & planned.runs
    }
    held = [prefix for prefix, other in former.items() if other.last and other.last.batch_id == request.batch_id]
    if held:
        raise BatchRefusedError(
            "this query wrote the batch under another name, and Spark had not noted it as done: start the query once "
            "with its former transactionalIdPrefix/sinkName until it has noted the batch, then change it; a sink that "
            "was added comes behind those that there were",
            former_prefixes=held,
            prefix=request.prefix,
            query_id=request.query_id,
            batch_id=request.batch_id,
        )
    return {
        prefix: replace(other, superseded_runs=_with_run(other.superseded_runs, other.run_id))
        for prefix, other in former.items()
        if other.run_id not in other.superseded_runs
    }


def check_run(ledger: QueryLedger, run_id: str, prefix: str) -> None:
    """Raise unless `run_id` may still write: a superseded run gets a fatal error at its next step."""
    if run_id in ledger.superseded_runs:
        raise RunSupersededError(
            "a newer run of this query writes under this prefix; this driver must stop",
            prefix=prefix,
            run_id=run_id,
            newer_run_id=ledger.run_id,
        )


def decided(ledger: QueryLedger, request: BatchRequest, round_number: int) -> QueryLedger:
    """The ledger after the round of `request` was decided as committed."""
    last = LastBatch(request.batch_id, request.fingerprint, round_number, request.run_id)
    return replace(ledger, last=last)


def _new_round(ledger: QueryLedger, request: BatchRequest) -> NewRound:
    number = ledger.current_round + 1
    return NewRound(replace(ledger, current_round=number), number, ledger.current_round or None)


def _superseding(ledger: QueryLedger, run_id: str) -> QueryLedger:
    if run_id == ledger.run_id:
        return ledger
    return replace(ledger, run_id=run_id, superseded_runs=_with_run(ledger.superseded_runs, ledger.run_id))


def _with_run(superseded_runs: tuple[str, ...], run_id: str) -> tuple[str, ...]:
    return (*(known for known in superseded_runs if known != run_id), run_id)[-REMEMBERED_RUNS:]


def _adopted(ledger: QueryLedger, request: BatchRequest) -> QueryLedger:
    """The ledger as the requesting query may use it.

    A query that does not own it must name whom it takes over. Before the first decision there is no history that a
    sink of another name could continue by mistake, and a query that failed may be mended.
    """
    if ledger.query_id != request.query_id:
        if request.takeover != ledger.query_id:
            raise BatchRefusedError(
                "another query has history under this prefix (or this query's checkpoint was deleted); give this query "
                "its own transactionalIdPrefix, or name the query whose history it continues with takeover=<query id>; "
                "with takeover, start reading where that query stopped",
                prefix=request.prefix,
                stored_query_id=ledger.query_id,
                query_id=request.query_id,
            )
        ledger = replace(ledger, query_id=request.query_id, last=None)
    if ledger.last is not None and ledger.sink_name != request.sink_name:
        _refuse_other_sink(ledger, request)
    return replace(ledger, sink_name=request.sink_name, group_id=request.group_id)


def _refuse_other_sink(ledger: QueryLedger, request: BatchRequest) -> NoReturn:
    """A sinkName is part of the prefix, so that it is by the topic that two sinks under one prefix differ."""
    if request.run_id == ledger.run_id:
        raise BatchRefusedError(
            "another sink of this query writes under this prefix; give each its own sinkName",
            prefix=request.prefix,
            stored_sink_name=ledger.sink_name,
            sink_name=request.sink_name,
        )
    raise BatchRefusedError(
        "the topic of this sink changed, and the batches under its prefix are in the former one: name that again, or, "
        "to go on in the new one, give the sink another transactionalIdPrefix or sinkName with it",
        former_topic=ledger.sink_name or None,
        topic=request.sink_name or None,
        prefix=request.prefix,
    )


def _check_is_replay(last: LastBatch, request: BatchRequest) -> None:
    details = {
        "prefix": request.prefix,
        "query_id": request.query_id,
        "batch_id": request.batch_id,
        "last_batch_id": last.batch_id,
    }
    if request.batch_id < last.batch_id:
        raise BatchRefusedError(
            "the log holds a later batch of this query: the checkpoint is older than the log (restored from a "
            "backup?); continue from the newest checkpoint, or start a new query with its own prefix",
            **details,
        )
    if request.fingerprint != last.fingerprint:
        raise BatchRefusedError(
            "this batch id was written with other source offsets: the checkpoint was restored or edited, or the query "
            "commits its offsets late; continue from the newest checkpoint, or start a new query with its own prefix",
            **details,
        )
    if request.run_id == last.run_id:
        raise BatchRefusedError(
            "this batch was already written in this run: two sinks share a prefix; give each its own sinkName",
            **details,
        )
