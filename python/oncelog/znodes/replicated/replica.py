"""The tree that the entries of a command log make. Pure: the same entries make the same tree, wherever they are read."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple
from zlib import crc32

from oncelog.errors import CorruptDataError
from oncelog.ports import Op
from oncelog.znodes.errors import MultiFailedError
from oncelog.znodes.replicated.command import Batch, Command, decode
from oncelog.znodes.replicated.port import Entry
from oncelog.znodes.tree import Tree

LINKS: Final = 4_096
"""The newest entries whose chain is kept, to compare it with what later ones say of it. Who appends has read the log
shortly before."""


class Done(NamedTuple):
    """How a command went.

    Attributes:
        command: which was not a copy.
        failure: why it was refused; None if it was carried out.
    """

    command: Command
    failure: MultiFailedError | None


class Replica:
    """A tree, and how far of the log it is made.

    Attributes:
        tree: the znodes.
        position: of the last entry that was applied, or -1.
        chain: checksum of all entries up to there.
        numbers: of the last command of each sender.
    """

    def __init__(self) -> None:
        self.tree = Tree()
        self.position = -1
        self.chain = 0
        self.numbers: dict[str, int] = {}
        self._links: deque[tuple[int, int]] = deque([(-1, 0)], maxlen=LINKS)

    def apply(self, entry: Entry) -> list[Done]:
        """Carry out the next entry.

        Returns:
            how each of its commands went, copies left out.

        Raises:
            CorruptDataError: it is damaged, or what it says of an entry before it is not what this replica read there.
        """
        batch = decode(entry.body, entry.position)
        self._compare(batch, entry.position)
        done = [
            Done(command, self._carry_out(command.ops, entry.time_ms))
            for command in batch.commands
            if not self._is_copy(command)
        ]
        self.position = entry.position
        self.chain = crc32(entry.body, crc32(b"%d" % entry.position, self.chain))
        self._links.append((self.position, self.chain))
        return done

    def _is_copy(self, command: Command) -> bool:
        """Whether its sender was not told how it went, and sent it again."""
        if command.number <= self.numbers.get(command.sender, 0):
            return True
        self.numbers[command.sender] = command.number
        return False

    def _carry_out(self, ops: Sequence[Op], time_ms: int) -> MultiFailedError | None:
        if self.tree.readers:
            self.tree = self.tree.copy()  # open snapshots keep the old one
        try:
            self.tree.apply(ops, time_ms)
        except MultiFailedError as refused:
            return refused
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
        raise CorruptDataError(
            "the command log is not the one that its writers read: entries were lost, changed, or come from another log",
            position=position,
            compared_at=batch.seen,
        )
