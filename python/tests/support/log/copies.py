"""A sink named ``copies`` and its micro-batches, for tests of the tools that look after them."""

from __future__ import annotations

from oncelog import limits
from oncelog.batches.offsets import GroupProgress
from oncelog.runtime import Log
from oncelog.types import Block
from tests.support.log.logs import partition
from tests.support.log.rounds import Round, begin, written


def written_blocks(log: Log, *sent: bytes) -> list[Block]:
    """Values in a file of their own, a block each, as a task of a sink leaves them."""
    (blocks,) = written(log, {0: list(sent)}).values()
    return blocks


def open_round(log: Log, batch_id: int = 0, *, prefix: str = "copies", group_id: str | None = None) -> Round:
    """A round that wrote one record to each of two partitions and is not decided."""
    names = {"prefix": prefix, "query_id": "query-1", "sink_name": "sink", "fingerprint": f"offsets-{batch_id}"}
    found = begin(log, batch_id, timeout_ms=limits.ROUND_TIMEOUT_MS, group_id=group_id, **names)
    found.write(written(log, {number: [b"of a round"] for number in (0, 1)}))
    if group_id is not None:
        found.stage_offsets(GroupProgress(group_id, {}, {partition(log): batch_id + 1}))
    return found
