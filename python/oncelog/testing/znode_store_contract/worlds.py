"""The store under test as a world: its znodes, and any number of clients, also at the same time."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from oncelog.ports import Stat, Timing, Znode, ZnodeReader, ZnodeStore, ZnodeView
from oncelog.znodes.clock import SYSTEM_TIMING, uniform_jitter
from oncelog.znodes.rules import join_path

CHILD_ENDS_WITHIN_S = 120


class FakeTime:
    """A wall clock and a monotonic clock that a test controls."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self.wall_ms = wall_ms
        self.durations_ms = 0

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic_ms(self) -> int:
        return self.durations_ms

    def sleep_ms(self, duration_ms: int) -> None:
        self.durations_ms += duration_ms


class StoreWorld:
    """A new, empty store and its clients. The author of a store implements `open`.

    Attributes:
        is_in_one_process: whether only one process can use the store; its clients then run in threads.
    """

    is_in_one_process = False

    def __init__(self, folder: Path) -> None:
        """Begin without znodes; `folder` is empty, for what the store keeps on disk."""
        self.folder = folder
        self._clients: list[ZnodeStore] = []

    def open(self, timing: Timing) -> ZnodeStore:
        """A client of this world's znodes, which gets the time from `timing`."""
        raise NotImplementedError

    def client(self, time: FakeTime | None = None) -> ZnodeStore:
        """A client that is closed at the end of the test."""
        client = self.open(SYSTEM_TIMING if time is None else Timing(time.now_ms, time, uniform_jitter))
        self._clients.append(client)
        return client

    def close(self) -> None:
        """Close all clients."""
        while self._clients:
            self._clients.pop().close()

    def in_parallel(self, workers: int, work: Callable[[int], object]) -> None:
        """Run `work(number)` in processes if the store supports that, else in threads."""
        if self.is_in_one_process:
            in_threads(workers, work)
        else:
            wait_for([forked(lambda number=number: work(number)) for number in range(workers)])  # type: ignore[misc]


class StoreFixtures:
    """The fixtures of all parts of the contract.

    Attributes:
        world_class: the author's `StoreWorld`.
    """

    world_class: type[StoreWorld]

    @pytest.fixture
    def make_world(self) -> Callable[[Path], StoreWorld]:
        """Makes a world in a folder; for a store on a server, override it with a fixture that depends on the server."""
        return self.world_class

    @pytest.fixture
    def new_world(self, tmp_path: Path, make_world: Callable[[Path], StoreWorld]) -> Iterator[Callable[[], StoreWorld]]:
        """Creates worlds; all of them are closed at the end of the test."""
        worlds: list[StoreWorld] = []

        def begin() -> StoreWorld:
            folder = tmp_path / f"world-{len(worlds)}"
            folder.mkdir()
            worlds.append(make_world(folder))
            return worlds[-1]

        yield begin
        for world in worlds:
            world.close()

    @pytest.fixture
    def world(self, new_world: Callable[[], StoreWorld]) -> StoreWorld:
        return new_world()

    @pytest.fixture
    def store(self, world: StoreWorld) -> ZnodeStore:
        return world.client()


# What tests ask of a store


def dump(reader: ZnodeReader, path: str = "/") -> dict[str, Znode]:
    """Every znode under `path`."""
    znode = reader.get(path)
    found = {} if znode is None else {path: znode}
    for name in reader.children(path):
        found |= dump(reader, join_path(path, name))
    return found


def present(znode: Znode | None) -> Znode:
    """A znode that must exist."""
    assert znode is not None
    return znode


def stat_of(store: ZnodeStore, path: str) -> Stat:
    return present(store.get(path)).stat


def number_at(store: ZnodeStore, path: str = "/counter") -> int:
    """The number in a znode."""
    return int(present(store.get(path)).data)


def data_of(store: ZnodeStore) -> dict[str, bytes]:
    return {path: znode.data for path, znode in dump(store).items()}


def versions_of(store: ZnodeStore) -> dict[str, int]:
    return {path: znode.stat.version for path, znode in dump(store).items()}


def doing(*calls: tuple[Any, ...]) -> Callable[[ZnodeView], None]:
    """A step that makes these calls on its view, each given as the method's name and its arguments."""

    def step(view: ZnodeView) -> None:
        for method, *arguments in calls:
            getattr(view, method)(*arguments)

    return step


def increment(view: ZnodeView, path: str = "/counter") -> int:
    """Add one to the number in a znode."""
    value = int(present(view.get(path)).data) + 1
    view.set(path, b"%d" % value)
    return value


# Processes and threads


def forked(function: Callable[[], object]) -> int:
    """Run `function` in a forked child; it exits with 0 if it returns, and prints its stacks and dies if it hangs."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    faulthandler.register(signal.SIGALRM, file=2, chain=True)  # prints the stacks, then the signal kills
    signal.alarm(CHILD_ENDS_WITHIN_S)
    try:
        function()
    except BaseException:  # noqa: BLE001 - the child must never return into the test runner
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def wait_for(pids: Sequence[int]) -> None:
    """Wait for children; each must have succeeded."""
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert codes == [0] * len(codes)


def in_threads(workers: int, work: Callable[[int], object]) -> None:
    """Run `work(number)` in threads; each must succeed."""
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - the test raises it
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
