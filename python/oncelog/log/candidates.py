"""Files that nothing names, as collections found them, and when each was found first: kept in znodes between two runs.

The first znode has the oldest finds, and names those that have the others. A part is written before the znode that
names it, and removed once none does: what is read is what one collection wrote, or less of it, where another one writes
at the same time. What is missing is found anew, and only goes later.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.ports import ZnodeStore, ZnodeView
from oncelog.randomness import random_id
from oncelog.znodes import paths
from oncelog.znodes.log_payloads import Candidates, decode_candidates, encode_candidates

NAMES_PER_ZNODE = 3000
"""Bounds a znode to about 200 kB."""

MAX_PARTS = 99
"""Bounds what is kept to 300,000 names: collections can remove as many in an hour."""


def read(store: ZnodeStore) -> dict[str, int]:
    """When the files were found first, in milliseconds of the store's time, by name."""
    first = _read(store, paths.CANDIDATES)
    if first is None:
        return {}
    found_ms = dict(first.found_ms)
    for part in first.parts:
        more = _read(store, paths.candidates_part(part))
        found_ms |= {} if more is None else more.found_ms
    return found_ms


def write(store: ZnodeStore, found_ms: Mapping[str, int]) -> None:
    """Keep these in place of what is kept; of more than can be kept, those that were found first."""
    rows = sorted(found_ms.items(), key=lambda row: (row[1], row[0]))
    oldest, *others = [dict(rows[at : at + NAMES_PER_ZNODE]) for at in range(0, max(len(rows), 1), NAMES_PER_ZNODE)]
    parts = {f"{random_id()}-{number}": chunk for number, chunk in enumerate(others[:MAX_PARTS])}
    for part, chunk in parts.items():
        _set(store, paths.candidates_part(part), encode_candidates(Candidates(chunk), is_first=False))
    _set(store, paths.CANDIDATES, encode_candidates(Candidates(oldest, list(parts)), is_first=True))
    for left_over in sorted(set(store.children(paths.CANDIDATES)) - parts.keys()):
        _remove(store, paths.candidates_part(left_over))


def _read(store: ZnodeStore, path: str) -> Candidates | None:
    znode = store.get(path)
    return None if znode is None else decode_candidates(path, znode.data)


def _set(store: ZnodeStore, path: str, data: bytes) -> None:
    def step(view: ZnodeView) -> None:
        if view.get(path) is None:
            view.create(path, data)
        else:
            view.set(path, data)

    store.transact(step)


def _remove(store: ZnodeStore, path: str) -> None:
    def step(view: ZnodeView) -> None:
        if view.get(path) is not None:
            view.delete(path)

    store.transact(step)
