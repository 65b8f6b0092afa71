"""One flush: takes records from the buffer into the log, up to the commit of their transaction."""

from __future__ import annotations

from collections import deque

from oncelog.clients.accumulator import Accumulator
from oncelog.clients.sender import Sender
from oncelog.errors import ensure
from oncelog.log.partition_log import Append
from oncelog.types import ProducerIdAndEpoch


class Flush:
    """The records of one flush and its progress. A flush that got no answer continues here, with the same sequences.

    Args:
        records: the records and their receipts.
        producer: the identity that sends them.
        transactional_id: of the open transaction, if there is one.
    """

    def __init__(
        self, sender: Sender, records: Accumulator, producer: ProducerIdAndEpoch, transactional_id: str | None
    ) -> None:
        self.records = records
        self._sender = sender
        self._producer = producer
        self._transactional_id = transactional_id
        self._steps: deque[list[Append]] | None = None  # what is left, a multi each; None before files are written

    @property
    def is_done(self) -> bool:
        """Whether all of it is in the log."""
        return self._steps is not None and not self._steps

    def append(self, *, leave: int = 0) -> None:
        """Append what is left, except the last `leave` steps, whose files are durable. May be called after any error.

        Receipts get their offsets even if a later partition fails. Retriable errors and unknown outcomes are only
        raised after the delivery time-out.
        """
        if self._steps is None:
            blocks = self._sender.write_files(self.records.buffers)
            self._steps = deque(self._sender.in_steps(blocks, self._producer, self._transactional_id))
        while len(self._steps) > leave:
            self._sender.append_step(self._steps[0], self._producer, self._transactional_id, self.records.landed)
            self._steps.popleft()

    def commit(self) -> ProducerIdAndEpoch:
        """Append the step that `append` left and commit, in one multi; returns the identity of the next transaction.

        May be called again after an unknown outcome.
        """
        steps, transactional_id = self._steps or deque(), self._transactional_id
        ensure(len(steps) == 1 and transactional_id is not None, "one step of a transaction is left for the commit")
        return self._sender.commit(steps[0], self._producer, str(transactional_id), self.records.landed)
