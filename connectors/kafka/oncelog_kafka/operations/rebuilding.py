"""Writes a new ledger for a query whose ledger is lost, from its checkpoint and from what the brokers know.

One step writes it, so a command that is killed leaves all of it or nothing, and of two that run at once one writes it.
Its rounds continue behind all that left a trace at the brokers. Hence the query's next round takes a new lease, and its
driver fences whatever the lost ledger had under way.

What is not rebuilt: where the rows of earlier batches are (readers of whole batches see these batches as committed
rows), records of what was given up, and the histories of other queries and of other sinks of the query.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from oncelog.batches import giving_up
from oncelog.batches.payloads import encode_given_up
from oncelog.batches.rules import LastBatch, QueryLedger
from oncelog.checkpoints import folder as checkpoints
from oncelog.checkpoints.folder import Checkpoint
from oncelog.checkpoints.standing import fingerprint_of
from oncelog.crash_points import reach
from oncelog.errors import UsageError
from oncelog.ports import ZnodeStore, ZnodeView
from oncelog.spark.kit.options import HistoryOptions
from oncelog.types import Outcome
from oncelog.znodes.clock import store_now_ms
from oncelog.znodes.transact import resolving
from oncelog.znodes.walking import paths_below
from oncelog_kafka.crash_points import RebuildCrashPoint
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from oncelog_kafka.protocol import lost_ledger
from oncelog_kafka.protocol.kafka_rounds import KafkaRound
from oncelog_kafka.protocol.lost_ledger import Fate, Finding, LostQuery, Traces
from oncelog_kafka.protocol.participants import ParticipantId, of_prefix
from oncelog_kafka.protocol.ports import Brokers
from oncelog_kafka.protocol.tokens import TokenText
from oncelog_kafka.sinks import history
from oncelog_kafka.sinks.finishing import kept_ms

REBUILT = "rebuilt"
"""The run of a rebuilt ledger, until the query's next run takes it over."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a rebuilt ledger will say.

    Attributes:
        prefix, query_id, sink_name: whose ledger it is.
        batch_id: the newest batch that the query planned.
        fate: what became of it.
        is_known: whether the brokers or Spark know that; otherwise the operator said so.
        reason: why it is known, or why it is not.
        last_batch_id: the last batch that counts as written; None if there is none.
        next_batch_id: the batch that the query writes next.
        round: after which the next rounds are numbered.
    """

    prefix: str
    query_id: str
    sink_name: str
    batch_id: int
    fate: Fate
    is_known: bool
    reason: str
    last_batch_id: int | None
    next_batch_id: int
    round: int
    fingerprint: str


def query_of(location: str, options: HistoryOptions) -> LostQuery:
    """The query of a checkpoint.

    Raises:
        UsageError: the checkpoint cannot be read, is damaged, or has planned no batch.
    """
    checkpoint = checkpoints.read(location)
    if checkpoint.damaged or checkpoint.query_id is None:
        raise UsageError(
            "the checkpoint is damaged, so it does not say what the ledger has to: `oncelog checkpoint verify` shows "
            "what is wrong with it",
            folder=location,
            files=[one.file for one in checkpoint.damaged],
        )
    if checkpoint.planned is None:
        raise UsageError("the query has planned no batch, so there is nothing to rebuild: start it", folder=location)
    return LostQuery(
        prefix=options.prefix(checkpoint.query_id),
        query_id=checkpoint.query_id,
        sink_name=options.sink_name or options.topic or "",
        topic=options.topic,
        batch_id=checkpoint.planned,
        is_recorded=not checkpoint.runs_again,
        planned_ms=_planned_ms(checkpoint, checkpoint.planned),
        fingerprints=_fingerprints(checkpoint, checkpoint.planned),
    )


def traces_of(brokers: Brokers, prefix: str) -> Traces:
    """What the brokers know of a sink's transactions."""
    listed = ((ParticipantId.parse(name), state) for name, state in of_prefix(prefix, brokers.list_ids()))
    states = {name: state for name, state in listed if name is not None}
    found = history.tokens_of(brokers, prefix, {one.partition for one in states})
    texts = {number: [one for one in some if isinstance(one, TokenText)] for number, some in found.items()}
    return Traces(
        states=states,
        tokens={number: some for number, some in texts.items() if some},
        pending=frozenset(number for number, some in found.items() if len(texts[number]) < len(some)),
        kept_ms=kept_ms(brokers),
        now_ms=brokers.clock.now_ms(),
    )


def plan(query: LostQuery, traces: Traces, said: Fate | None) -> Plan:
    """What to write.

    Args:
        said: what became of the newest planned batch, as the operator says.

    Raises:
        UsageError: nobody knows what became of the batch, or the operator contradicts what is known.
    """
    finding = lost_ledger.find(query, traces)
    fate = _agreed(query, finding, said)
    last = query.batch_id - 1 if fate is Fate.MISSING else query.batch_id
    if last >= 0 and last not in query.fingerprints:
        raise UsageError(
            "the checkpoint no longer has the offsets of the last batch that was written, so a replay of it could not "
            "be recognised",
            prefix=query.prefix,
            batch_id=last,
        )
    return Plan(
        prefix=query.prefix,
        query_id=query.query_id,
        sink_name=query.sink_name,
        batch_id=query.batch_id,
        fate=fate,
        is_known=finding.fate is not Fate.UNKNOWN,
        reason=finding.reason,
        last_batch_id=last if last >= 0 else None,
        next_batch_id=last + 1,
        round=max(traces.newest_round, 1),
        fingerprint=query.fingerprints.get(last, ""),
    )


def _agreed(query: LostQuery, finding: Finding, said: Fate | None) -> Fate:
    if finding.fate is Fate.UNKNOWN:
        if said is None:
            raise UsageError(
                "it cannot be known whether the query's newest batch was written: compare the topic with the source, "
                "then give --batch written if its rows are there or were written by hand, or --batch missing if none "
                "of them is there, so that the query writes it again",
                prefix=query.prefix,
                batch_id=query.batch_id,
                reason=finding.reason,
            )
        return said
    known = Fate.WRITTEN if finding.fate is Fate.RECORDED else finding.fate
    if said not in {None, known}:
        raise UsageError(
            "the option --batch contradicts what is known of the query's newest batch: leave it out",
            prefix=query.prefix,
            batch_id=query.batch_id,
            known=known.value,
            reason=finding.reason,
        )
    return finding.fate


def check_absent(store: ZnodeStore, prefix: str) -> None:
    """Check that no query has used a ledger of this prefix in the store.

    Raises:
        UsageError: it has one, and nothing is to be rebuilt.
    """
    _check_unused(KAFKA_LEDGERS.read(store, prefix), prefix)


def write(store: ZnodeStore, found: Plan, *, reason: str, operator: str) -> None:
    """Write the ledger in one step; do nothing if it is there already.

    Args:
        reason, operator: for the record of what nobody knew (giving_up.py).

    Raises:
        UsageError: a query has used a ledger of this prefix in the store.
    """
    now_ms = resolving(lambda: store_now_ms(store))
    reach(RebuildCrashPoint.WRITE)

    def step(view: ZnodeView) -> None:
        known = KAFKA_LEDGERS.read(view, found.prefix)
        _check_unused(known, found.prefix)
        ledger = _ledger(found)
        if known == ledger:
            return
        KAFKA_LEDGERS.put(view, found.prefix, ledger, is_new=known is None)
        rest = {KAFKA_LEDGERS.round_path(found.prefix, found.round): KAFKA_LEDGERS.encode(_round(found, now_ms))}
        if found.fate is Fate.WRITTEN and not found.is_known:
            said = giving_up.new_record(found.round, found.batch_id, now_ms, [found.reason], reason, operator)
            rest[KAFKA_LEDGERS.given_up_path(found.prefix, found.round)] = encode_given_up(said)
        _replace(view, found.prefix, rest)

    resolving(lambda: store.transact(step))
    reach(RebuildCrashPoint.WRITTEN)


def _check_unused(found: QueryLedger | None, prefix: str) -> None:
    if found is not None and found.run_id != REBUILT:
        raise UsageError("the ledger has the history of this prefix: there is nothing to rebuild", prefix=prefix)


def _replace(view: ZnodeView, prefix: str, rest: Mapping[str, bytes]) -> None:
    """Put these znodes in the place of those that another rebuild wrote, which no query has used."""
    for folder in (KAFKA_LEDGERS.rounds_path(prefix), KAFKA_LEDGERS.given_up_folder(prefix)):
        for path in paths_below(view, folder):
            if path not in rest:
                view.delete(path)
    for path, data in rest.items():
        (view.create if view.get(path) is None else view.set)(path, data)


def _ledger(found: Plan) -> QueryLedger:
    last = None
    if found.last_batch_id is not None:
        last = LastBatch(found.last_batch_id, found.fingerprint, found.round, REBUILT)
    return QueryLedger(found.query_id, found.sink_name, REBUILT, current_round=found.round, last=last)


def _round(found: Plan, now_ms: int) -> KafkaRound:
    """The newest round: that of the last batch, or an aborted one if there is none."""
    record = KafkaRound(
        Outcome.COMMIT,
        found.batch_id if found.last_batch_id is None else found.last_batch_id,
        found.fingerprint,
        REBUILT,
        REBUILT,
        found.round,
        is_complete=True,
        began_ms=now_ms,
    )
    return record if found.last_batch_id is not None else replace(record, outcome=Outcome.ABORT, is_complete=False)


def _fingerprints(checkpoint: Checkpoint, planned: int) -> Mapping[int, str]:
    found = {number: fingerprint_of(checkpoint, number) for number in (planned - 1, planned) if number >= 0}
    return {number: one for number, one in found.items() if one is not None}


def _planned_ms(checkpoint: Checkpoint, planned: int) -> int | None:
    """When Spark planned a batch, as its file among the offsets says."""
    found = json.loads(checkpoint.entries[planned].metadata).get("batchTimestampMs")
    return found if isinstance(found, int) and found > 0 else None
