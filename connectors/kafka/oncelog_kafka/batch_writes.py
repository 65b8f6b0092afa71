"""A batch write, ``df.write``: a query with a single batch, whose ledger is deleted when the write is done.

A write that is killed after its decision leaves its ledger, and with it the list of what is to be committed. The next
batch write under the same prefix commits it, or an operator does (``oncelog kafka batch complete``).
"""

from __future__ import annotations

from contextlib import suppress

from oncelog.errors import ensure
from oncelog.ports import ZnodeStore, ZnodeView
from oncelog.protocol.batch_ledger import BatchRequest
from oncelog.znodes import paths
from oncelog.znodes.transact import resolving
from oncelog_kafka import extents
from oncelog_kafka.errors import ParticipantLostError
from oncelog_kafka.finishing import DecidedRound, finish
from oncelog_kafka.ledger import KAFKA_LEDGERS
from oncelog_kafka.options import SinkOptions
from oncelog_kafka.ports import Brokers

_DEFAULT_PREFIX = "batch-write"
_MARK = f"{_DEFAULT_PREFIX}."
"""What the query ids of batch writes begin with; those of Spark's queries are UUIDs."""


def request_of(options: SinkOptions, name: str) -> BatchRequest:
    """The request of a batch write to its ledger; `name` is unique to the write."""
    writer = f"{_MARK}{name}"
    return BatchRequest(f"{_below(options)}{name}", writer, options.topic or "", writer, 0, writer)


def _below(options: SinkOptions) -> str:
    """What all prefixes of batch writes with these options begin with."""
    return f"{options.transactional_id_prefix or _DEFAULT_PREFIX}."


def finish_others(brokers: Brokers, store: ZnodeStore, options: SinkOptions) -> None:
    """Commit what earlier batch writes under this prefix decided and did not finish.

    Lost parts are left to an operator; they are no reason to refuse this write.
    """
    for prefix in KAFKA_LEDGERS.prefixes(store):
        found = KAFKA_LEDGERS.read(store, prefix) if prefix.startswith(_below(options)) else None
        if found is None or not found.query_id.startswith(_MARK) or found.last is None:
            continue
        with suppress(ParticipantLostError):
            if _is_finished(brokers, store, prefix):
                forget(store, prefix)


def _is_finished(brokers: Brokers, store: ZnodeStore, prefix: str) -> bool:
    rounds = KAFKA_LEDGERS.read_rounds(store, prefix)
    decided = [DecidedRound(prefix, number, record) for number, record in rounds.items() if record.is_unfinished]
    return not any(finish(brokers, store, one).lost for one in decided)


def forget(store: ZnodeStore, prefix: str) -> None:
    """Delete the ledger of a batch write that is over; where its rows are is kept for readers of whole batches."""

    def step(view: ZnodeView) -> None:
        for number, record in KAFKA_LEDGERS.read_rounds(view, prefix).items():
            ensure(not record.is_unfinished, "a ledger is deleted only when nothing is left to do", prefix=prefix)
            view.delete(KAFKA_LEDGERS.round_path(prefix, number))
        extents.put_over(view, _folder_of_those_over(prefix), extents.delete(view, KAFKA_LEDGERS.path(prefix)))
        for path in (KAFKA_LEDGERS.rounds_path(prefix), KAFKA_LEDGERS.path(prefix)):
            if view.get(path) is not None:
                view.delete(path)

    resolving(lambda: store.transact(step))


def _folder_of_those_over(prefix: str) -> str:
    """The same for all batch writes under a prefix of the user."""
    return paths.named(extents.BATCH_WRITES, prefix.rpartition(".")[0])
