"""Walks over znodes, with only a few of them in memory, for tools that read a whole store.

There is no snapshot, since a walk may take minutes. If others write at the same time, it shows each znode at a
different moment, and skips those that are deleted meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator

from oncelog.ports import Znode, ZnodeReader
from oncelog.znodes.rules import join_path

ZNODES_PER_READ = 100
"""Znodes that are read in one round trip, and kept in memory at each depth: at most some megabytes."""


def paths_below(reader: ZnodeReader, path: str) -> list[str]:
    """The paths of the children, ordered by name."""
    return [join_path(path, name) for name in reader.children(path)]


def walk(reader: ZnodeReader, path: str) -> Iterator[tuple[str, Znode]]:
    """The znode at `path` and all below it, each before its children, and siblings ordered by name.

    Two stores yield the same paths if, and only if, they have the same tree.
    """
    znode = reader.get(path)
    if znode is not None:
        yield path, znode
        yield from walk_below(reader, path)


def walk_below(reader: ZnodeReader, path: str) -> Iterator[tuple[str, Znode]]:
    """Like `walk`, but without the znode at `path` itself."""
    found = paths_below(reader, path)
    for at in range(0, len(found), ZNODES_PER_READ):
        some = found[at : at + ZNODES_PER_READ]
        for below, znode in zip(some, reader.get_many(some), strict=True):
            if znode is not None:
                yield below, znode
                yield from walk_below(reader, below)


def paths_upwards(reader: ZnodeReader, path: str) -> Iterator[str]:
    """The paths of all znodes below `path`, each after its children, so that they can be deleted in this order."""
    for below in paths_below(reader, path):
        yield from paths_upwards(reader, below)
        yield below
