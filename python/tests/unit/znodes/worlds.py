"""The backends under test, each as a world: some znodes and any number of clients.

A further backend joins by a subclass of `World` and a line in `WORLDS`.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from oncelog.ports import Op, Znode, ZnodeReader, ZnodeStore, ZnodeView
from oncelog.znodes.memory import MemoryZnodeStore
from oncelog.znodes.sqlite import SqliteZnodeStore
from oncelog.znodes.zookeeper import ZookeeperZnodeStore


class MultiStore(ZnodeStore, Protocol):
    """What the contract asks of a store beyond `ports.ZnodeStore`."""

    @property
    def reads_are_atomic(self) -> bool: ...

    def multi(self, ops: Sequence[Op], *, is_fresh: Callable[[], bool] = ...) -> None: ...


class FakeTime:
    """Wall clock and durations that a test drives by hand."""

    def __init__(self, wall_ms: int = 1_700_000_000_000) -> None:
        self.wall_ms = wall_ms
        self.durations_ms = 0

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic_ms(self) -> int:
        return self.durations_ms

    def sleep_ms(self, duration_ms: int) -> None:
        self.durations_ms += duration_ms


class World:
    """Znodes of one backend."""

    is_in_one_process = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._clients: list[ZnodeStore] = []

    def client(self, time: FakeTime | None = None) -> MultiStore:
        """A client of the same znodes; closed at the end of the test."""
        client = self._open(time)
        self._clients.append(client)
        return client

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def _open(self, time: FakeTime | None) -> MultiStore:
        raise NotImplementedError


class MemoryWorld(World):
    is_in_one_process = True
    store_class: type[MemoryZnodeStore] = MemoryZnodeStore

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._store: MemoryZnodeStore | None = None

    def _open(self, time: FakeTime | None) -> MultiStore:
        if self._store is None:
            self._store = self.store_class(now_ms=time.now_ms, clock=time) if time else self.store_class()
        return self._store


class LiveReadsStore(MemoryZnodeStore):
    """Reads as ZooKeeper does: in order of time, but not all of one moment."""

    reads_are_atomic = False

    @contextmanager
    def snapshot(self) -> Iterator[ZnodeReader]:
        yield self


class LiveReadsWorld(MemoryWorld):
    store_class = LiveReadsStore


class SqliteWorld(World):
    @property
    def path(self) -> Path:
        return self.folder / "znodes.sqlite"

    def _open(self, time: FakeTime | None) -> MultiStore:
        if time is None:
            return SqliteZnodeStore(self.path)
        return SqliteZnodeStore(self.path, now_ms=time.now_ms, clock=time)


class ZookeeperWorld(World):
    """Below one chroot of a running server."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder)
        self.url = url

    def _open(self, time: FakeTime | None) -> MultiStore:
        if time is None:
            return ZookeeperZnodeStore(self.url)
        return ZookeeperZnodeStore(self.url, now_ms=time.now_ms, clock=time)


WORLDS: dict[str, type[World]] = {"memory": MemoryWorld, "live-reads": LiveReadsWorld, "sqlite": SqliteWorld}


def dump(reader: ZnodeReader, path: str = "/") -> dict[str, Znode]:
    """Every znode below `path`."""
    znode = reader.get(path)
    found = {} if znode is None else {path: znode}
    for name in reader.children(path):
        found |= dump(reader, f"/{name}" if path == "/" else f"{path}/{name}")
    return found


def doing(*calls: tuple[Any, ...]) -> Callable[[ZnodeView], None]:
    """A step that makes these calls of its view, each given as the method's name and its arguments."""

    def step(view: ZnodeView) -> None:
        for method, *arguments in calls:
            getattr(view, method)(*arguments)

    return step


def increment(view: ZnodeView, path: str = "/counter") -> int:
    """Add one to the number in a znode."""
    znode = view.get(path)
    assert znode is not None
    value = int(znode.data) + 1
    view.set(path, b"%d" % value)
    return value


def number_at(store: MultiStore, path: str = "/counter") -> int:
    """The number in a znode."""
    znode = store.get(path)
    assert znode is not None
    return int(znode.data)


# Helpers for other processes and threads

CHILD_ENDS_WITHIN_S = 120


def forked(function: Callable[[], object]) -> int:
    """Run `function` in a forked child that exits with 0 if it returned, and with its stacks if it hangs."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    faulthandler.register(signal.SIGALRM, file=2, chain=True)  # shows the stacks, and then the signal kills
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


def increment_in_generations(store: MultiStore, generations: int) -> None:
    """Add to the counter in this process and in children that fork on, two each, before and after they do."""
    store.transact(increment)
    if generations:
        children = [forked(lambda: increment_in_generations(store, generations - 1)) for _ in range(2)]
        store.transact(increment)
        wait_for(children)


def increment_while_forking(store: MultiStore, forks: int) -> int:
    """Add to the counter in two threads, and once in each of some children; returns what the threads added."""
    is_over = threading.Event()
    written = [0, 0]

    def write(number: int) -> None:
        while not is_over.is_set():
            store.transact(increment)
            written[number] += 1

    threads = [threading.Thread(target=write, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(forks):
            wait_for([forked(lambda: store.transact(increment))])
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    return sum(written)


def kill(pid: int) -> None:
    """Kill a child without any warning, and reap it."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def in_parallel(world: World, workers: int, work: Callable[[int], object]) -> None:
    """Run `work(number)` in processes where the backend reaches them, else in threads."""
    if not world.is_in_one_process:
        wait_for([forked(lambda number=number: work(number)) for number in range(workers)])  # type: ignore[misc]
        return
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
