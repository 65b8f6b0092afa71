"""Lists all owners of a log, for tools and upkeep. Clients only need the owners that partitions and groups list."""

from __future__ import annotations

from collections.abc import Iterator

from oncelog.batches.ledger import EMBEDDED
from oncelog.ports import ZnodeStore
from oncelog.types import Outcome
from oncelog.znodes import paths, payloads
from oncelog.znodes.walking import paths_below

ZNODES_PER_READ = 500
"""Bounds the size of a reply from the store."""


def open_owners(store: ZnodeStore) -> list[str]:
    """All open owners: transactions and rounds. Reads all ids."""
    return [path for path, outcome in _all_owners(store) if outcome is Outcome.OPEN]


def decided_owners(store: ZnodeStore) -> list[str]:
    """All decided owners that still have a znode: unsettled ones, and rounds that a ledger needs. Reads all ids."""
    return [path for path, outcome in _all_owners(store) if outcome is not Outcome.OPEN]


def _all_owners(store: ZnodeStore) -> Iterator[tuple[str, Outcome]]:
    found = list(_owner_paths(store))
    for at in range(0, len(found), ZNODES_PER_READ):
        some = found[at : at + ZNODES_PER_READ]
        for path, znode in zip(some, store.get_many(some), strict=True):
            if znode is not None:
                yield path, payloads.decode_owner(path, znode.data).outcome


def _owner_paths(store: ZnodeStore) -> Iterator[str]:
    for transaction in paths_below(store, paths.TRANSACTIONS):
        yield from paths_below(store, transaction)
    for prefix in EMBEDDED.prefixes(store):
        yield from (EMBEDDED.round_path(prefix, number) for number in EMBEDDED.round_numbers(store, prefix))
