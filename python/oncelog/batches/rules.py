"""The rules of the ledger: what to do with a micro-batch that a streaming query gives to a sink.

The ledger of a transactional-id prefix remembers the query that owns it, and the last decided batch. A batch that
repeats this one needs no write. A batch that follows gets a *round*: one attempt to write it. Any other batch
contradicts the history and is refused, because writing it could lose or duplicate records. Pure: (ledger, request) ->
verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

from oncelog.errors import BatchRefusedError, RunSupersededError

REMEMBERED_RUNS = 200
"""Superseded run ids that the ledger keeps. A driver that wakes up after more restarts than this is fenced anyway,
because its rounds were aborted."""


@dataclass(frozen=True, slots=True)
class LastBatch:
    """The last decided batch of a prefix.

    Attributes:
        run_id: the run that decided it.
        call_id: the newest call that decided it or found it decided; None if an older oncelog wrote the ledger.
    """

    batch_id: int
    fingerprint: str
    round: int
    run_id: str
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class QueryLedger:
    """The ledger of one prefix, as in its znode.

    Attributes:
        query_id: the streaming query that owns the prefix.
        sink_name: distinguishes several sinks of one query.
        run_id: the current run; every restart of the query has a new one.
        superseded_runs: runs that get a fatal error at their next step, newest last.
        current_round: number of the newest round; 0 before the first one.
        last: the last decided batch; None before the first one, or after a takeover.
        group_id: the consumer group whose offsets the batches commit, if any.
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
        """The runs that requested a batch under the prefix, as far as the ledger remembers them."""
        return {self.run_id, *self.superseded_runs}


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A driver's request to write a batch, in a run of a query.

    Attributes:
        fingerprint: a hash of the start and end offsets of all sources; only a true replay has the same one.
        takeover: id of the query whose history under the prefix this query continues, if the user said so.
        call_id: identifies one call of the sink, however often its steps are run. A second call for the same batch in
            the same run brings other rows, and is refused. None: each step is a call of its own.
    """

    prefix: str
    query_id: str
    sink_name: str
    run_id: str
    batch_id: int
    fingerprint: str
    group_id: str | None = None
    takeover: str | None = None
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class NewRound:
    """Write the batch in round `number`; in the same step, abort the round `previous` if it is open."""

    ledger: QueryLedger
    number: int
    previous: int | None


@dataclass(frozen=True, slots=True)
class AlreadyDecided:
    """The batch was decided in `round`: write nothing."""

    ledger: QueryLedger
    round: int


def plan_batch(ledger: QueryLedger | None, request: BatchRequest) -> NewRound | AlreadyDecided:
    """Decide what to do with a batch.

    Args:
        ledger: of the prefix; None if it does not exist.

    Returns:
        the verdict, with the ledger to store.

    Raises:
        RunSupersededError: a newer run of the query took over; this driver must stop.
        BatchRefusedError: the history contradicts the batch; the message says what to do.
    """
    if ledger is None:
        fresh = QueryLedger(request.query_id, request.sink_name, request.run_id, group_id=request.group_id)
        return _new_round(fresh, request)
    check_run(ledger, request.run_id, request.prefix)
    ledger = _adopted(ledger, request)
    last = ledger.last
    if last is not None and request.batch_id <= last.batch_id:
        _check_is_replay(ledger.run_id, last, request)
        found = replace(_superseding(ledger, request.run_id), last=replace(last, call_id=request.call_id))
        return AlreadyDecided(found, last.round)
    return _new_round(_superseding(ledger, request.run_id), request)


def goes_on(ledger: QueryLedger, request: BatchRequest) -> bool:
    """Whether a batch follows the last one of its run, and no round was opened since that one was decided.

    A plan would then supersede no run and abort no round, so the batch may be planned as late as it is decided.
    """
    last, owner = ledger.last, (ledger.query_id, ledger.sink_name, ledger.group_id, ledger.run_id)
    return (
        last is not None
        and last.round == ledger.current_round
        and last.batch_id < request.batch_id
        and owner == (request.query_id, request.sink_name, request.group_id, request.run_id)
        and request.run_id not in ledger.superseded_runs
    )


def former_names(
    planned: QueryLedger, request: BatchRequest, others: Mapping[str, QueryLedger]
) -> dict[str, QueryLedger]:
    """At a run's first batch under a prefix, find the ledgers that may be former names of this sink.

    A ledger that has seen a run that this sink's ledger has also seen belongs to another sink of the query. Any other
    ledger may be this sink before its prefix or its sinkName was changed: it may not write any more, and its batch must
    not be written again.

    Args:
        planned: the sink's ledger after the batch was planned.
        others: the other ledgers of the same query, by prefix.

    Returns:
        the ledgers to store, by prefix, with their runs superseded, since they may still be alive.

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
            "this query wrote the batch under another name, but Spark had not recorded it as done: start the query "
            "once with its former transactionalIdPrefix/sinkName until Spark has recorded the batch, then change it; "
            "a new sink must come after the existing ones",
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
    """Raise a RunSupersededError if the run may not write any more."""
    if run_id in ledger.superseded_runs:
        raise RunSupersededError(
            "a newer run of this query writes under this prefix; this driver must stop",
            prefix=prefix,
            run_id=run_id,
            newer_run_id=ledger.run_id,
        )


def decided(ledger: QueryLedger, request: BatchRequest, round_number: int) -> QueryLedger:
    """The ledger after the round of `request` was committed."""
    last = LastBatch(request.batch_id, request.fingerprint, round_number, request.run_id, request.call_id)
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
    """The ledger for the requesting query.

    A query that does not own it must name the query that it takes over. Before the first decision there is no history
    that another sink could continue by mistake, so the sink of a query that failed may be changed.
    """
    if ledger.query_id != request.query_id:
        if request.takeover != ledger.query_id:
            raise BatchRefusedError(
                "another query has history under this prefix, or this query has begun a new checkpoint (the former one "
                "was deleted, or a pipeline was fully refreshed); go back to the former checkpoint, or give this query "
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
    """Refuse a sink with another topic. A sinkName is part of the prefix, so sinks under one prefix differ by topic."""
    if request.run_id == ledger.run_id:
        raise BatchRefusedError(
            "another sink of this query writes under this prefix; give each its own sinkName",
            prefix=request.prefix,
            stored_sink_name=ledger.sink_name,
            sink_name=request.sink_name,
        )
    raise BatchRefusedError(
        "the topic of this sink changed, and the batches under its prefix are in the former topic: use that topic, or "
        "give the sink another transactionalIdPrefix or sinkName together with the new topic",
        former_topic=ledger.sink_name or None,
        topic=request.sink_name or None,
        prefix=request.prefix,
    )


def _check_is_replay(newest_run: str, last: LastBatch, request: BatchRequest) -> None:
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
    if request.run_id == newest_run and (request.call_id is None or request.call_id != last.call_id):
        raise BatchRefusedError(
            "this batch was already written in this run, with the rows of the first call only: two sinks share a "
            "prefix, or one sink was called twice in the batch; call it once with all rows, or give each its own "
            "sinkName",
            **details,
        )
