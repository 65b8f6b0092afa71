"""The request that a sink makes to its ledger for a micro-batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.batches.fingerprint import fingerprint
from oncelog.batches.rules import BatchRequest
from oncelog.randomness import random_id
from oncelog.spark.kit.options import HistoryOptions

if TYPE_CHECKING:
    from oncelog.spark.kit.context import BatchContext  # needs PySpark


def batch_request(
    options: HistoryOptions, batch: BatchContext, run_id: str, call_id: str | None = None
) -> BatchRequest:
    """The request that a sink makes to the ledger for a batch.

    Args:
        call_id: see `BatchRequest`; a new one by default.
    """
    return BatchRequest(
        prefix=options.prefix(batch.query_id),
        query_id=batch.query_id,
        sink_name=options.sink_name or options.topic or "",
        run_id=run_id,
        batch_id=batch.batch_id,
        fingerprint=fingerprint(batch.start_offsets, batch.end_offsets),
        group_id=options.group_id,
        takeover=options.takeover,
        call_id=call_id or random_id(),
    )
