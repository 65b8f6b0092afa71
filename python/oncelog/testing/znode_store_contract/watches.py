"""Waiting for others on every store: a change ends the wait, also one that nobody was waiting for yet."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncelog.ports import Create, Delete, Op, Set, ZnodeStore
from oncelog.testing.znode_store_contract.worlds import StoreFixtures, StoreWorld, increment, number_at

LONG_MS = 60_000
"""No test waits for so long: what it waits for has happened, or is about to."""

ROUNDS = 20


class WatchContract(StoreFixtures):
    """A store may let a wait end early, but never late."""

    @pytest.mark.parametrize("change", [Set("/a/b", b"new"), Delete("/a/b")], ids=["set", "delete"])
    def test_a_change_since_the_last_wait_ends_the_next_one(self, world: StoreWorld, change: Op) -> None:
        store, other = world.client(), world.client()
        store.multi([Create("/a"), Create("/a/b"), Create("/c")])
        with store.watch() as watch:
            watch.wait(["/c", "/a/b"], LONG_MS)
            other.multi([change])
            store.sync()

            assert waited_ms(store, lambda: watch.wait(["/c", "/a/b"], LONG_MS)) < LONG_MS

    def test_a_wait_ends_when_its_time_is_up(self, store: ZnodeStore) -> None:
        store.multi([Create("/a")])
        with store.watch() as watch:
            for timeout_ms in (0, 1, 5):
                assert waited_ms(store, lambda timeout_ms=timeout_ms: watch.wait(["/a"], timeout_ms)) < LONG_MS  # type: ignore[misc]

    def test_who_waits_for_others_misses_none_of_their_writes(self, world: StoreWorld) -> None:
        store = world.client()
        store.multi([Create("/counter", b"0"), Create("/other", b"0")])

        def write() -> None:
            for _ in range(ROUNDS):
                store.timing.clock.sleep_ms(1)
                store.transact(lambda view: increment(view, "/other"))
                store.transact(increment)

        def follow() -> None:
            with store.watch() as watch:
                seen = number_at(store)
                while seen < ROUNDS:
                    assert waited_ms(store, lambda: watch.wait(["/counter"], LONG_MS)) < LONG_MS
                    seen = number_at(store)

        world.in_parallel(4, lambda number: follow() if number else write())


def waited_ms(store: ZnodeStore, wait: Callable[[], None]) -> int:
    """How long it takes, by the store's clock."""
    began_ms = store.timing.clock.monotonic_ms()
    wait()
    return store.timing.clock.monotonic_ms() - began_ms
