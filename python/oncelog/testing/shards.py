"""Shards of long test runs: what repeats one law many times runs in parts, which take turns.

CI runs one shard of the simulation's seeds, of walks, of planted faults and of such at each commit (.ci/run), and
`make nightly` runs all. Which shard something is in depends on its name alone: adding a test moves no other one.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar
from zlib import crc32

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Shard:
    """One of several shards, written as in ``2/4``. Their numbers begin with 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """A shard as the command line names it: the type of an argument of `argparse`.

        Raises:
            ArgumentTypeError: it is none.
        """
        number, slash, count = text.partition("/")
        if not (slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
            raise ArgumentTypeError(f"a shard is a number out of how many there are, as in 2/4, and not {text!r}")
        return cls(int(number), int(count))

    def holds(self, name: str) -> bool:
        """Whether something is in this shard. Each name is in exactly one."""
        return crc32(name.encode()) % self.count == self.number - 1

    def share(self, variants: Sequence[Item], name: str) -> Sequence[Item]:
        """This shard's share of what varies one thing, which is never empty; all shards together have every variant.

        Args:
            variants: all of them, in an order that stays; one at least.
            name: what is varied. It decides which shard begins, so that the long ones do not all meet in one.
        """
        apart = min(self.count, len(variants))
        return variants[(crc32(name.encode()) + self.number) % apart :: apart]

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"
