"""The tree that the entries of a command log make. Pure: the same entries make the same tree everywhere."""

from __future__ import annotations

from bisect import insort
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from zlib import crc32

from oncelog.errors import CorruptDataError
from oncelog.limits import TOMBSTONE_MS
from oncelog.ports import Op
from oncelog.znodes.errors import MultiFailedError, Refusal
from oncelog.znodes.replicated.command import Batch, Part
from oncelog.znodes.replicated.port import BEGINNING, Entry
from oncelog.znodes.tree import Tree

LINKS: Final = 4_096
"""The newest entries whose chain is kept, to compare it with what later ones say of it. Who appends has read the log
shortly before."""


class Last(NamedTuple):
    """The last batch of a sender.

    Attributes:
        number: of the batch.
        time_ms: the log's time of its entry.
        failures: of each multi, why it was refused: index and path of the operation, and the refusal; None for one that
            was carried out.
    """

    number: int
    time_ms: int
    failures: Sequence[tuple[int, str, str] | None]

    def problems(self) -> list[MultiFailedError | None]:
        """The failures as errors."""
        return [None if one is None else MultiFailedError.at(one[0], one[1], Refusal(one[2])) for one in self.failures]


class Replica:
    """A tree, and how far of the log it is made.

    Args:
        tree: the znodes.
        position: of the last entry that was applied.
        chain: checksum of all entries up to there.
        time_ms: of the log, which never goes back here.
        senders: their last batches.

    Attributes:
        snapshots: positions of the whole snapshots among the entries that were applied, in ascending order.
        unsaved: entries since one of them became whole.
    """

    def __init__(
        self,
        tree: Tree | None = None,
        position: int = BEGINNING,
        chain: int = 0,
        time_ms: int = 0,
        senders: Mapping[str, Last] | None = None,
    ) -> None:
        self.tree = Tree() if tree is None else tree
        self.position = position
        self.chain = chain
        self.time_ms = time_ms
        self.senders = dict(senders or {})
        self.snapshots: list[int] = []
        self.unsaved = 0
        self._parts: dict[tuple[int, str], int] = {}
        self._links: deque[tuple[int, int]] = deque([(position, chain)], maxlen=LINKS)

    def apply(self, entry: Entry, found: Batch | Part) -> None:
        """Carry out the next entry.

        Args:
            entry: as the log has it.
            found: what it holds, decoded.

        Raises:
            CorruptDataError: what it says of an entry before it is not what this replica read there.
        """
        self.time_ms = max(self.time_ms, entry.time_ms)
        self.unsaved += 1
        if isinstance(found, Part):
            if found.position > self.position:
                raise _another_log(entry.position, found.position)
            self._count(found)
        else:
            self._compare(found, entry.position)
            if not self._is_copy(found):
                failures = [self._carry_out(ops) for ops in found.multis]
                self.senders[found.sender] = Last(found.number, self.time_ms, failures)
        self.position = entry.position
        self.chain = crc32(entry.body, crc32(b"%d" % entry.position, self.chain))
        self._links.append((self.position, self.chain))

    def _is_copy(self, batch: Batch) -> bool:
        """Whether its sender was not told how it went, and sent it again."""
        last = self.senders.get(batch.sender)
        return last is not None and batch.number <= last.number and self.remembers(last)

    def remembers(self, last: Last) -> bool:
        """Whether a sender's last batch still counts. No request is on its way for longer."""
        return self.time_ms - last.time_ms < TOMBSTONE_MS

    def _count(self, part: Part) -> None:
        """Notice when a snapshot is whole. Its parts are appended in their order, and a copy of one counts once."""
        snapshot = part.position, part.writer
        if part.number == self._parts.get(snapshot, 0):
            self._parts[snapshot] = part.number + 1
            if part.number + 1 == part.count:
                insort(self.snapshots, part.position)  # a suspended writer completes its snapshot late
                self.unsaved = 0

    def _carry_out(self, ops: Sequence[Op]) -> tuple[int, str, str] | None:
        if self.tree.readers:
            self.tree = self.tree.copy()  # open snapshots keep the old one
        try:
            self.tree.apply(ops, self.time_ms)
        except MultiFailedError as failed:
            return failed.index, failed.path, failed.refusal
        return None

    def _compare(self, batch: Batch, position: int) -> None:
        for seen, chain in reversed(self._links):
            if seen == batch.seen:
                if chain != batch.chain:
                    break
                return
            if seen < batch.seen:
                break  # the sender read an entry that is not here
        else:
            return  # longer ago than is kept
        raise _another_log(position, batch.seen)


def _another_log(position: int, compared_at: int) -> CorruptDataError:
    return CorruptDataError(
        "the command log is not the one that its writers read: entries were lost or changed, or are of another log",
        position=position,
        compared_at=compared_at,
    )
