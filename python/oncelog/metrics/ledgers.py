"""Reads the ledgers of a store, of all kinds whose packages are installed. Writes nothing."""

from __future__ import annotations

from oncelog.batches import overview
from oncelog.batches.ledger import all_kinds
from oncelog.batches.overview import LedgerOverview
from oncelog.metrics import catalogue as c
from oncelog.metrics.reading import Reading
from oncelog.ports import ZnodeReader
from oncelog.types import Outcome

STATES = ("undecided", "decided", "visible", "aborted")


def read_ledgers(reader: ZnodeReader, reading: Reading, now_ms: int) -> None:
    """Read the last batch of each ledger.

    Args:
        reader: of the store.
        reading: gets the values.
        now_ms: wall clock, which ages are measured by.
    """
    kinds = all_kinds()
    found = [one for one in overview.list_ledgers(reader) if one.round is not None]
    where = [kinds[one.target].round_path(one.prefix, one.round or 0) for one in found]
    for one, znode in zip(found, reader.get_many(where), strict=True):
        if znode is not None:
            reading.steps[one.target, one.prefix] = one.query_id, one.batch_id, znode.stat.czxid
        changed_ms = now_ms if znode is None else znode.stat.mtime_ms  # None: deleted meanwhile
        _put(reading, one, max(now_ms - changed_ms, 0) / 1000)


def _put(reading: Reading, one: LedgerOverview, age_seconds: float) -> None:
    ledger = (one.target, one.prefix)
    reading.queries[ledger] = one.query_id
    state = _state(one)
    for each in STATES:
        reading.put(c.BATCH_STATE, each == state, *ledger, each)
    reading.put(c.BATCH_UNDECIDED, age_seconds if state == "undecided" else 0, *ledger)
    reading.put(c.BATCH_INVISIBLE, age_seconds if state == "decided" else 0, *ledger)
    reading.put(c.BATCH_PARTS, len(one.parts), *ledger)
    for metric, number in (
        (c.BATCH_LAST, one.last_batch_id),
        (c.BATCH_NEWEST, one.batch_id),
        (c.BATCH_ROUND, one.round),
    ):
        if number is not None:
            reading.put(metric, number, *ledger)


def _state(one: LedgerOverview) -> str:
    match one.outcome:
        case Outcome.OPEN:
            return "undecided"
        case Outcome.COMMIT:
            return "visible" if one.is_over else "decided"
        case _:
            return "aborted"
