"""Walking over znodes without holding more than a few of them: for tools that look at all of a store.

Every znode is read by itself and no snapshot is held, since a walk may take minutes. Beside writers it shows each znode
at a moment of its own and passes over what is deleted meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator

from oncelog.ports import Znode, ZnodeReader
from oncelog.znodes.rules import join_path

ZNODES_PER_READ = 100
"""Read in one round trip, and held at each depth: some megabytes, if all of them are as large as znodes get."""


def paths_below(reader: ZnodeReader, path: str) -> list[str]:
    """The paths of the children, by name."""
    return [join_path(path, name) for name in reader.children(path)]


def walk(reader: ZnodeReader, path: str) -> Iterator[tuple[str, Znode]]:
    """The znode at `path` and all below it, each before its children, siblings by name.

    Two stores yield the same paths if, and only if, they hold the same tree.
    """
    znode = reader.get(path)
    if znode is not None:
        yield path, znode
        yield from walk_below(reader, path)


def walk_below(reader: ZnodeReader, path: str) -> Iterator[tuple[str, Znode]]:
    """`walk`, but for the znode at `path` itself."""
    found = paths_below(reader, path)
    for at in range(0, len(found), ZNODES_PER_READ):
        some = found[at : at + ZNODES_PER_READ]
        for below, znode in zip(some, reader.get_many(some), strict=True):
            if znode is not None:
                yield below, znode
                yield from walk_below(reader, below)


def paths_upwards(reader: ZnodeReader, path: str) -> Iterator[str]:
    """The paths of all znodes below `path`, each after its children: the order in which they can be deleted."""
    for below in paths_below(reader, path):
        yield from paths_upwards(reader, below)
        yield below
