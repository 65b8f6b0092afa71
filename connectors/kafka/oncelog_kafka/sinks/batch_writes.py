"""A batch write, ``df.write``: a query with a single batch, whose ledger is deleted when the write is done.

A write that is killed after its decision leaves its ledger, and with it the list of what is to be committed. The next
batch write under the same prefix commits it, or an operator does (``oncelog kafka batch complete``).

A write that fails before its decision is aborted, and its ledger is deleted. If it is killed, its round stays open.
Nobody can tell whether it still runs, because its tasks may begin to write hours after its plan. So the next batch
write under the prefix aborts it after a day, if none of its transactions is open; an operator can do so at once
(``oncelog kafka txn abort``). If it does run, it can decide nothing any more, and fails.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from oncelog.batches.rules import BatchRequest
from oncelog.errors import ensure
from oncelog.ports import ZnodeStore, ZnodeView
from oncelog.types import Outcome
from oncelog.znodes import paths
from oncelog.znodes.transact import resolving
from oncelog_kafka.errors import ParticipantLostError
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS, abort_open, decision_age_ms
from oncelog_kafka.options.sink_options import SinkOptions
from oncelog_kafka.protocol import extents
from oncelog_kafka.protocol.participants import ONGOING, of_prefix
from oncelog_kafka.protocol.ports import Brokers
from oncelog_kafka.sinks.finishing import DecidedRound, finish

ABANDONED_MS: Final = 24 * 3600 * 1000
"""How long ago a batch write must have begun to count as killed, if none of its transactions is open."""

_DEFAULT_PREFIX = "batch-write"
_MARK = f"{_DEFAULT_PREFIX}."
"""What the query ids of batch writes begin with; those of Spark's queries are UUIDs."""


def request_of(options: SinkOptions, name: str) -> BatchRequest:
    """The request of a batch write to its ledger; `name` is unique to the write."""
    writer = f"{_MARK}{name}"
    return BatchRequest(f"{_below(options)}{name}", writer, options.topic or "", writer, 0, writer, call_id=name)


def _below(options: SinkOptions) -> str:
    """What all prefixes of batch writes with these options begin with."""
    return f"{options.transactional_id_prefix or _DEFAULT_PREFIX}."


def finish_others(brokers: Brokers, store: ZnodeStore, options: SinkOptions) -> None:
    """Finish earlier batch writes under this prefix: commit what they decided, and abort what they left for a day.

    Lost parts are left to an operator; they are no reason to refuse this write.
    """
    for prefix in KAFKA_LEDGERS.prefixes(store):
        found = KAFKA_LEDGERS.read(store, prefix) if prefix.startswith(_below(options)) else None
        if found is None or not found.query_id.startswith(_MARK):
            continue
        if found.last is None:
            if _is_abandoned(brokers, store, prefix):
                abort_open(store, prefix)
            forget_aborted(store, prefix)
            continue
        with suppress(ParticipantLostError):
            if _is_finished(brokers, store, prefix):
                forget(store, prefix)


def _is_abandoned(brokers: Brokers, store: ZnodeStore, prefix: str) -> bool:
    still_open = [one for one in KAFKA_LEDGERS.read_rounds(store, prefix).values() if one.outcome is Outcome.OPEN]
    ages_ms = [decision_age_ms(store, one) or 0 for one in still_open]
    is_old = bool(ages_ms) and min(ages_ms) > ABANDONED_MS
    return is_old and not of_prefix(prefix, brokers.list_ids([ONGOING]))


def _is_finished(brokers: Brokers, store: ZnodeStore, prefix: str) -> bool:
    rounds = KAFKA_LEDGERS.read_rounds(store, prefix)
    decided = [DecidedRound(prefix, number, record) for number, record in rounds.items() if record.is_unfinished]
    return not any(finish(brokers, store, one).lost for one in decided)


def forget_aborted(store: ZnodeStore, prefix: str) -> None:
    """Delete the ledger of a batch write that decided nothing and was aborted; do nothing otherwise."""

    def step(view: ZnodeView) -> None:
        found = KAFKA_LEDGERS.read(view, prefix)
        rounds = KAFKA_LEDGERS.read_rounds(view, prefix)
        if found is None or not found.query_id.startswith(_MARK):
            return
        if all(one.outcome is Outcome.ABORT for one in rounds.values()):
            _delete(view, prefix, rounds)

    resolving(lambda: store.transact(step))


def forget(store: ZnodeStore, prefix: str) -> None:
    """Delete the ledger of a batch write that is over; where its rows are is kept for readers of whole batches."""

    def step(view: ZnodeView) -> None:
        rounds = KAFKA_LEDGERS.read_rounds(view, prefix)
        for record in rounds.values():
            ensure(not record.is_unfinished, "a ledger is deleted only when nothing is left to do", prefix=prefix)
        extents.put_over(view, _folder_of_those_over(prefix), extents.delete(view, KAFKA_LEDGERS.path(prefix)))
        _delete(view, prefix, rounds)

    resolving(lambda: store.transact(step))


def _delete(view: ZnodeView, prefix: str, rounds: Iterable[int]) -> None:
    for number in rounds:
        view.delete(KAFKA_LEDGERS.round_path(prefix, number))
    for path in (KAFKA_LEDGERS.rounds_path(prefix), KAFKA_LEDGERS.path(prefix)):
        if view.get(path) is not None:
            view.delete(path)


def _folder_of_those_over(prefix: str) -> str:
    """The same for all batch writes under a prefix of the user."""
    return paths.named(extents.BATCH_WRITES, prefix.rpartition(".")[0])
