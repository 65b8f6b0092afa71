"""Micro-batches for tests: what the driver of a sink does, without Spark."""

from __future__ import annotations

from oncelog.coordinator import rounds
from oncelog.coordinator.rounds import BatchOffsets, Round
from oncelog.log import codec, generations
from oncelog.log.segment import SegmentWriter
from oncelog.protocol.batch_ledger import BatchRequest
from oncelog.runtime import Log
from oncelog.types import Block, OffsetAndMetadata
from tests.logs import columns, partition


def written_blocks(log: Log, *sent: bytes) -> list[Block]:
    """Values in a file of their own, a block each, as a task of a sink leaves them."""
    generation = generations.current(log.services.store)
    writer = SegmentWriter(log.services.files, generations.prefix(generations.DATA, generation))
    blocks = [block for value in sent for block in writer.append(codec.normalise(columns(value), 1))]
    writer.finish()
    return blocks


def open_round(log: Log, batch_id: int = 0, *, run_id: str = "run-1", group_id: str | None = None) -> Round:
    """A round of the sink ``copies`` that wrote one record to each partition and is not decided."""
    request = BatchRequest("copies", "query-1", "sink", run_id, batch_id, f"offsets-{batch_id}", group_id)
    found = rounds.begin(log.services.new_round_services(), request)
    assert found is not None
    found.write({partition(log, number): written_blocks(log, b"of a round") for number in (0, 1)})
    if group_id is not None:
        found.stage_offsets(BatchOffsets(group_id, {}, {partition(log): OffsetAndMetadata(batch_id + 1)}))
    return found
