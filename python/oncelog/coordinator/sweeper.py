"""Aborts transactions and rounds beyond their time-outs, and expires idle transactional ids. Any process may do it.

The time is the store's, from one set of ``/clock`` per sweep; a client's clock must never be used (invariant I13). A
transaction starts when its owner's znode is created; a round is renewed when its znode is set. A time-out aborts only
an owner that is still open in the same compare-and-set. If it races with a commit, one of them succeeds, and both
callers learn which.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from oncelog import limits
from oncelog.batches.ledger import EMBEDDED
from oncelog.coordinator import transactional_ids
from oncelog.coordinator.transactions import TransactionCoordinator
from oncelog.log import snapshot
from oncelog.ports import Znode, ZnodeReader, ZnodeStore, ZnodeView
from oncelog.protocol.txn_state import TxnState
from oncelog.types import Outcome, TopicIdPartition
from oncelog.znodes import paths, payloads
from oncelog.znodes.clock import store_now_ms
from oncelog.znodes.walking import ZNODES_PER_READ, paths_below


@dataclass(frozen=True, slots=True)
class Overdue:
    """An open owner beyond its time-out."""

    owner: str
    age_ms: int
    timeout_ms: int


def sweep(
    store: ZnodeStore, coordinator: TransactionCoordinator, partitions: Iterable[TopicIdPartition]
) -> list[Overdue]:
    """Abort overdue owners that `partitions` list; returns those that this call aborted."""
    seen = snapshot.take(store, partitions)
    waiting = sorted(name for name, state in seen.owners.items() if state.outcome is Outcome.OPEN)
    return sweep_owners(store, coordinator, waiting)


def sweep_owners(store: ZnodeStore, coordinator: TransactionCoordinator, owners: Iterable[str]) -> list[Overdue]:
    """Abort those `owners` that are overdue; returns those that this call aborted."""
    candidates = list(owners)
    if not candidates:
        return []
    now_ms = store_now_ms(store)
    late = (overdue for owner in candidates if (overdue := _overdue(store, owner, now_ms)))
    return [overdue for overdue in late if _time_out(store, coordinator, overdue.owner, now_ms)]


def _overdue(reader: ZnodeReader, owner: str, now_ms: int) -> Overdue | None:
    znode = reader.get(owner)
    if znode is None:
        return None
    record = payloads.decode_owner(owner, znode.data)
    since_ms = znode.stat.mtime_ms if paths.is_round(owner) else znode.stat.ctime_ms
    if record.outcome is not Outcome.OPEN or now_ms - since_ms <= record.timeout_ms:
        return None
    return Overdue(owner, now_ms - since_ms, record.timeout_ms)


def _time_out(store: ZnodeStore, coordinator: TransactionCoordinator, owner: str, now_ms: int) -> bool:
    if not paths.is_round(owner):
        return coordinator.time_out(owner)

    def abort_unless_renewed(view: ZnodeView) -> bool:
        return _overdue(view, owner, now_ms) is not None and EMBEDDED.abort_in(view, *paths.round_of(owner))

    return store.transact(abort_unless_renewed)


def expire_transactional_ids(store: ZnodeStore) -> list[str]:
    """Expire ids that have been idle for limits.TRANSACTIONAL_ID_EXPIRATION_MS, and remove old tombstones.

    Only ids in an empty or complete state expire (conformance: 13).

    Returns:
        the ids that this call expired.
    """
    now_ms = store_now_ms(store)
    expired = []
    found = paths_below(store, paths.TRANSACTIONS)
    for at in range(0, len(found), ZNODES_PER_READ):
        some = found[at : at + ZNODES_PER_READ]
        for path, znode in zip(some, store.get_many(some), strict=True):
            if znode is not None and _expire_if_idle(store, path, znode, now_ms):
                expired.append(paths.name_at(path))
    return expired


def _expire_if_idle(store: ZnodeStore, path: str, znode: Znode, now_ms: int) -> bool:
    """Expire an id that was idle for long, or remove its tombstone; returns whether it expired."""
    transactional_id, idle_ms = paths.name_at(path), now_ms - znode.stat.mtime_ms
    if payloads.decode_transaction(path, znode.data).state is TxnState.DEAD:
        if idle_ms > limits.TOMBSTONE_MS:
            store.transact(lambda view: transactional_ids.remove_tombstone(view, transactional_id))
        return False
    if idle_ms <= limits.TRANSACTIONAL_ID_EXPIRATION_MS:
        return False
    return store.transact(lambda view: transactional_ids.expire(view, transactional_id, znode.stat.version))
