"""What the ledgers of a query's sinks say of the batch with which a restart of its checkpoint begins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from oncelog.batches import overview
from oncelog.batches.fingerprint import fingerprint
from oncelog.checkpoints.folder import Checkpoint
from oncelog.ports import ZnodeStore
from oncelog.spark.kit.offset_log import in_order
from oncelog.types import Outcome


class Standing(StrEnum):
    """Where the newest planned batch stands."""

    NONE_PLANNED = "no batch is planned"
    COMMITTED = "committed"
    DECIDED = "decided"
    INCOMPLETE = "decided, not complete"
    OPEN = "open"
    UNDECIDED = "not decided"
    SPLIT = "decided by some sinks"
    UNKNOWN = "no ledger knows"


@dataclass(frozen=True, slots=True)
class SinkLedger:
    """The ledger of one sink of the query.

    Attributes:
        target, prefix: whose ledger it is.
        last_batch_id, last_fingerprint: of the last decided batch; None before the first one.
        batch_id, outcome, is_over: of the newest round; see `LedgerOverview`.
        recovery: what a restart of the query does.
    """

    target: str
    prefix: str
    last_batch_id: int | None
    last_fingerprint: str | None
    batch_id: int | None
    outcome: Outcome | None
    is_over: bool | None
    recovery: str


def ledgers_of(stores: Iterable[ZnodeStore], query_id: str | None, prefix: str | None = None) -> list[SinkLedger]:
    """The ledgers of a query in these stores; only that of `prefix` if it is given."""
    found: list[SinkLedger] = []
    for store in stores:
        with store.snapshot() as reader:
            pairs = overview.of_query(reader, query_id) if query_id is not None else []
        found += [
            SinkLedger(
                target=one.target,
                prefix=one.prefix,
                last_batch_id=None if last is None else last.batch_id,
                last_fingerprint=None if last is None else last.fingerprint,
                batch_id=one.batch_id,
                outcome=one.outcome,
                is_over=one.is_over,
                recovery=one.recovery,
            )
            for one, last in pairs
            if prefix in (None, one.prefix)
        ]
    return found


def is_behind(ledger: SinkLedger, checkpoint: Checkpoint) -> bool:
    """Whether a batch that Spark has committed is missing: the ledger is another sink's, or an older copy."""
    last = -1 if ledger.last_batch_id is None else ledger.last_batch_id
    return last < checkpoint.next_batch - 1


def is_ahead(ledger: SinkLedger, checkpoint: Checkpoint) -> bool:
    """Whether the ledger has a later batch than the checkpoint, which is an older copy then."""
    last = -1 if ledger.last_batch_id is None else ledger.last_batch_id
    return last > (-1 if checkpoint.planned is None else checkpoint.planned)


def standing_of(checkpoint: Checkpoint, ledgers: Sequence[SinkLedger]) -> Standing:
    """Where the newest planned batch stands. Ledgers that are behind do not count: they are of former sinks."""
    if checkpoint.planned is None:
        return Standing.NONE_PLANNED
    current = [one for one in ledgers if not is_behind(one, checkpoint)]
    if any(one.outcome is Outcome.OPEN for one in current):
        return Standing.OPEN
    if not checkpoint.runs_again:
        return Standing.COMMITTED
    if not current:
        return Standing.UNKNOWN
    decided = [one for one in current if one.last_batch_id == checkpoint.planned]
    if not decided:
        return Standing.UNDECIDED
    if len(decided) < len(current):
        return Standing.SPLIT
    return Standing.DECIDED if all(one.is_over is not False for one in decided) else Standing.INCOMPLETE


def fingerprint_of(checkpoint: Checkpoint, batch_id: int) -> str | None:
    """The fingerprint that a sink gives a batch; None if a file that it needs is missing or torn."""
    entry, before = checkpoint.entries.get(batch_id), checkpoint.entries.get(batch_id - 1)
    if entry is None or (batch_id > 0 and before is None):
        return None
    names = in_order(entry.offsets)
    starts = [None if before is None else before.offsets.get(name) for name in names]
    return fingerprint(starts, [entry.offsets[name] for name in names])
