"""Rules of all stores: which paths are valid, and how large a multi may be.

An invalid path is a bug in the caller, which must encode names: an `InvariantViolation`. A multi may be too large
because of what other clients wrote: the caller splits it (`transact.in_parts`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from oncelog.errors import StepTooLargeError, ensure
from oncelog.limits import MULTI_MAX_BYTES, MULTI_MAX_OPS
from oncelog.ports import Create, Delete, Op, Set

ROOT = "/"

_REFUSED_BY_ZOOKEEPER = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]")
"""Control characters, private use, and everything that Java encodes as surrogates (PathUtils.validatePath)."""

_REFUSED_SEGMENTS = frozenset({"", ".", ".."})


@lru_cache(maxsize=1 << 14)
def split_path(path: str) -> tuple[str, str]:
    """The path of the parent, and the name in it; two empty strings for the root.

    Raises:
        InvariantViolation: ZooKeeper would refuse the path.
    """
    if path == ROOT:
        return "", ""
    ensure(path.startswith("/"), "a znode path is absolute", path=path)
    ensure(_REFUSED_BY_ZOOKEEPER.search(path) is None, "ZooKeeper takes no such character in a path", path=path)
    segments = path[1:].split("/")
    ensure(_REFUSED_SEGMENTS.isdisjoint(segments), "no segment of a path is empty, '.' or '..'", path=path)
    parent, _, name = path.rpartition("/")
    return parent or ROOT, name


def parent_of(path: str) -> str:
    ensure(path != ROOT, "the root has no parent")
    return split_path(path)[0]


def join_path(parent: str, name: str) -> str:
    return f"/{name}" if parent == ROOT else f"{parent}/{name}"


def size_of(op: Op) -> int:
    """The bytes of an operation that count towards MULTI_MAX_BYTES: its path and its data."""
    return len(op.path.encode()) + (len(op.data) if isinstance(op, (Create, Set)) else 0)


def ensure_acceptable(ops: Sequence[Op]) -> None:
    """Refuse a multi that not all backends would accept.

    Raises:
        StepTooLargeError: it has too many operations or bytes.
    """
    for op in ops:
        split_path(op.path)
        ensure(not isinstance(op, Delete) or op.path != ROOT, "the root is never deleted")
    size = sum(map(size_of, ops))
    if len(ops) > MULTI_MAX_OPS or size > MULTI_MAX_BYTES:
        raise StepTooLargeError(
            "a step is too large for the metadata store; write to fewer partitions at a time, or use shorter names",
            operations=len(ops),
            maximum_operations=MULTI_MAX_OPS,
            size_bytes=size,
            maximum_bytes=MULTI_MAX_BYTES,
        )
