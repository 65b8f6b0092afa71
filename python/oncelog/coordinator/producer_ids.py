"""Allocates producer ids, which are unique in a log. They are taken from the store in blocks.

A crash or a lost answer wastes at most one block; ids are never returned.
"""

from __future__ import annotations

import os
import threading

from oncelog import limits
from oncelog.errors import CorruptDataError, FatalError
from oncelog.ports import ZnodeStore, ZnodeView
from oncelog.randomness import random_id
from oncelog.types import MAX_LONG
from oncelog.znodes import paths
from oncelog.znodes.log_payloads import ProducerIdBlocks, decode_producer_ids, encode_producer_ids
from oncelog.znodes.transact import resolving

MAX_PRODUCER_ID = MAX_LONG


class ProducerIds:
    """Allocates producer ids for one process. Safe to share between threads; a forked child takes its own block."""

    def __init__(self, store: ZnodeStore) -> None:
        self._store = store
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._available: list[int] = []
        self._process_id = os.getpid()

    def take(self) -> int:
        """A new producer id. Raises a FatalError if the ids of this log are used up."""
        if os.getpid() != self._process_id:
            self._begin()  # the ids are the parent's, and one of its threads may hold the lock forever
        with self._lock:
            if not self._available:
                start = self._take_block()
                self._available = list(reversed(range(start, start + limits.PRODUCER_ID_BLOCK)))
            return self._available.pop()

    def _take_block(self) -> int:
        nonce = random_id()
        # By the nonce, a repetition finds out whether an earlier run succeeded.
        return resolving(lambda: self._store.transact(lambda view: _next_block(view, nonce)))


def _next_block(view: ZnodeView, nonce: str) -> int:
    znode = view.get(paths.PRODUCER_IDS)
    if znode is None:
        raise CorruptDataError("the store holds no log", path=paths.PRODUCER_IDS)
    start, taken_by = decode_producer_ids(znode.data)
    if taken_by == nonce:
        return start - limits.PRODUCER_ID_BLOCK
    end = start + limits.PRODUCER_ID_BLOCK
    if end > MAX_PRODUCER_ID:
        raise FatalError("the producer ids of this log are used up; create a new log", next_producer_id=start)
    view.set(paths.PRODUCER_IDS, encode_producer_ids(ProducerIdBlocks(end, nonce)))
    return start
