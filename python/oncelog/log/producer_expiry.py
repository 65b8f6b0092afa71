"""Forgets producers that stopped writing to a partition, so that its list of producers stays short.

Assumptions: a producer's retries end long before `limits.PRODUCER_ID_EXPIRATION_MS`, so its last batch cannot be
repeated any more; and every append sets the partition's znode. Hence, if a producer's entry was forgotten and created
again, a step that read the old entry fails on the partition's version. A producer with an open transaction is never
forgotten.
"""

from __future__ import annotations

from oncelog import limits
from oncelog.ports import Znode, ZnodeStore, ZnodeView
from oncelog.types import TopicIdPartition
from oncelog.znodes import paths, payloads
from oncelog.znodes.walking import paths_below

PRODUCERS_PER_STEP = 300


def expire_producers(store: ZnodeStore, partition: TopicIdPartition, now_ms: int) -> int:
    """Forget the producers that have not written to the partition for `limits.PRODUCER_ID_EXPIRATION_MS`.

    Args:
        now_ms: the store's time.

    Returns:
        how many were forgotten.
    """
    found = paths_below(store, paths.producers(partition))
    idle = [path for path, znode in zip(found, store.get_many(found), strict=True) if _is_idle(path, znode, now_ms)]
    forgotten = 0
    for at in range(0, len(idle), PRODUCERS_PER_STEP):
        some = idle[at : at + PRODUCERS_PER_STEP]
        forgotten += store.transact(lambda view, some=some: _forget(view, some, now_ms))  # type: ignore[misc]
    return forgotten


def _forget(view: ZnodeView, producers: list[str], now_ms: int) -> int:
    still_idle = [path for path in producers if _is_idle(path, view.get(path), now_ms)]
    for path in still_idle:
        view.delete(path)
    return len(still_idle)


def _is_idle(path: str, znode: Znode | None, now_ms: int) -> bool:
    if znode is None or now_ms - znode.stat.mtime_ms <= limits.PRODUCER_ID_EXPIRATION_MS:
        return False
    return payloads.decode_producer(path, znode.data).open_owner is None
