"""Records on their way into the log: taken out of the accumulator, written to files, appended step by step."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from oncelog.clients.accumulator import Piece, count_of, receipts_of
from oncelog.errors import OncelogError, OutcomeUnknownError, ensure
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

    buffers: Mapping[TopicIdPartition, Sequence[Piece]]
    size_bytes: int
    steps: deque[list[Append]] | None = None

    @property
    def last_step(self) -> list[Append]:
        """The step that is left for the commit."""
        ensure(self.steps is not None and len(self.steps) == 1, "one step is left for the commit")
        return self.steps[0]  # type: ignore[index]

    def landed(self, partition: TopicIdPartition, base_offset: int) -> None:
        """Tell the partition's receipts where their records are."""
        for position, receipt in receipts_of(self.buffers[partition]):
            receipt.appended(base_offset + position)

    @property
    def unsent(self) -> int:
        """How many of the records have no place in the log yet."""
        return sum(
            count_of(pieces)
            for pieces in self.buffers.values()
            if not all(receipt.is_done for _, receipt in receipts_of(pieces))
        )

    def failed(self, error: BaseException) -> None:
        """Fail the receipts that still wait. What interrupted the program once does not do so again from a receipt."""
        if not isinstance(error, OncelogError):
            interruption = error
            error = OutcomeUnknownError("the send of the record was interrupted", cause=repr(interruption))
            error.__cause__ = interruption
        for pieces in self.buffers.values():
            for _, receipt in receipts_of(pieces):
                if not receipt.is_done:
                    receipt.failed(error)
