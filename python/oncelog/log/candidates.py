"""Files that nothing names, as collections found them, and when each was found first: kept in znodes between two runs.

    /files/candidates            the oldest finds, and which parts hold the others
    /files/candidates/<part>     more of them

A part is written before the znode that names it, and removed once none does: what is read is what one collection wrote,
or less of it, where another one writes at the same time. What is missing is found anew, and only goes later.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from oncelog.ports import ZnodeStore, ZnodeView
from oncelog.randomness import random_id
from oncelog.znodes import fields, paths

CANDIDATES = "/files/candidates"

NAMES_PER_ZNODE = 3000
"""Bounds a znode to about 200 kB."""

MAX_PARTS = 99
"""Bounds what is kept to 300,000 names: collections can remove as many in an hour."""

_PART = re.compile("[0-9a-f]{32}-[0-9]{1,2}")


def read(store: ZnodeStore) -> dict[str, int]:
    """When the files were found first, in milliseconds of the store's time, by name."""
    found_ms, parts = _read_first(store)
    for part in parts:
        path = _path(part)
        znode = store.get(path)
        if znode is not None:
            found_ms |= paths.decode(path, znode.data, _from_json)[0]
    return found_ms


def write(store: ZnodeStore, found_ms: Mapping[str, int]) -> None:
    """Keep these in place of what is kept; of more than can be kept, those that were found first."""
    rows = sorted(found_ms.items(), key=lambda row: (row[1], row[0]))
    oldest, *others = [dict(rows[at : at + NAMES_PER_ZNODE]) for at in range(0, max(len(rows), 1), NAMES_PER_ZNODE)]
    parts = {f"{random_id()}-{number}": chunk for number, chunk in enumerate(others[:MAX_PARTS])}
    for part, chunk in parts.items():
        _set(store, _path(part), {"found_ms": chunk})
    _set(store, CANDIDATES, {"found_ms": oldest, "parts": list(parts)})
    for left_over in sorted(set(store.children(CANDIDATES)) - parts.keys()):
        _remove(store, _path(left_over))


def _read_first(store: ZnodeStore) -> tuple[dict[str, int], list[str]]:
    znode = store.get(CANDIDATES)
    return ({}, []) if znode is None else paths.decode(CANDIDATES, znode.data, _from_json)


def _from_json(payload: dict[str, Any]) -> tuple[dict[str, int], list[str]]:
    if "files" in payload:  # they were remembered by the generation once, which does not tell for how long
        return {}, []
    found_ms = {name: fields.number(found_ms) for name, found_ms in payload["found_ms"].items()}
    return found_ms, list(fields.several(_part, payload.get("parts", [])))


def _part(value: Any) -> str:
    if _PART.fullmatch(fields.text(value)) is None:
        raise ValueError("the name of a part")
    return str(value)


def _set(store: ZnodeStore, path: str, payload: dict[str, Any]) -> None:
    data = paths.encode(payload)

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


def _path(part: str) -> str:
    return f"{CANDIDATES}/{part}"
