"""Shards of long test runs: tests that repeat one law many times are divided into parts, which take turns.

For each commit CI runs one shard of the simulation's seeds, of the walks, of the planted faults and so on (.ci/run);
`make nightly` runs all of them. The shard of a test depends only on its name, so adding a test moves no other one.
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
    """One of several shards, written like ``2/4``. Their numbers begin with 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Parse a shard; can be the type of an `argparse` argument.

        Raises:
            ArgumentTypeError: the text is not a shard.
        """
        number, slash, count = text.partition("/")
        if not (slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
            raise ArgumentTypeError(f"a shard is a number out of how many there are, as in 2/4, not {text!r}")
        return cls(int(number), int(count))

    def holds(self, name: str) -> bool:
        """Whether a name belongs to this shard. Each name belongs to exactly one."""
        return crc32(name.encode()) % self.count == self.number - 1

    def share(self, variants: Sequence[Item], name: str) -> Sequence[Item]:
        """This shard's share of the variants of one test, which is never empty; all shards together have every variant.

        Args:
            variants: at least one, in a fixed order.
            name: of the test. It decides which shard begins, so that the slow variants do not all end up in one.
        """
        apart = min(self.count, len(variants))
        return variants[(crc32(name.encode()) + self.number) % apart :: apart]

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"
