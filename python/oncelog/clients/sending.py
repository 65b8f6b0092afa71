"""Records on their way into the log: taken out of the accumulator, written to files, appended step by step."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from oncelog.clients.accumulator import PartitionBuffer
from oncelog.errors import ensure
from oncelog.log.partition_log import Append
from oncelog.types import TopicIdPartition


@dataclass(slots=True)
class Sending:
    """What one flush takes, and how far it came: a flush that got no answer goes on from here, with the same sequences.

    Attributes:
        buffers: the records, and the receipts that wait for them.
        size_bytes: of the records, about.
        steps: what is still to be appended, a multi each, all files durable; None before the files are.
    """

    buffers: dict[TopicIdPartition, PartitionBuffer]
    size_bytes: int
    steps: deque[list[Append]] | None = None

    @property
    def last_step(self) -> list[Append]:
        """The step that is left for the commit."""
        ensure(self.steps is not None and len(self.steps) == 1, "one step is left for the commit")
        return self.steps[0]  # type: ignore[index]

    def landed(self, partition: TopicIdPartition, base_offset: int) -> None:
        """Tell the partition's receipts where their records are."""
        for position, receipt in self.buffers[partition].receipts:
            receipt.appended(base_offset + position)

    def failed(self, error: BaseException) -> None:
        """Fail the receipts that still wait."""
        for buffer in self.buffers.values():
            for _, receipt in buffer.receipts:
                if not receipt.is_done:
                    receipt.failed(error)
