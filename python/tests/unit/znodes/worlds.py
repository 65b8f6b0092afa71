"""The built-in stores as worlds of the contract, and what tests of them do with processes."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from oncelog.errors import TransactConflictError
from oncelog.ports import Create, Timing, ZnodeReader, ZnodeStore, ZnodeView
from oncelog.testing.znode_store_contract.worlds import (
    FakeTime,
    StoreWorld,
    doing,
    dump,
    forked,
    increment,
    number_at,
    wait_for,
)
from oncelog.znodes.clock import SYSTEM_TIMING
from oncelog.znodes.memory import MemoryZnodeStore
from oncelog.znodes.postgres import PostgresZnodeStore
from oncelog.znodes.sqlite import SqliteZnodeStore
from oncelog.znodes.zookeeper import ZookeeperZnodeStore
from simulation.world import Nature
from simulation.world import World as SimulatedProcesses

__all__ = ["FakeTime", "doing", "dump", "forked", "increment", "number_at", "wait_for"]


class MemoryWorld(StoreWorld):
    is_in_one_process = True
    store_class: type[MemoryZnodeStore] = MemoryZnodeStore

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._store: MemoryZnodeStore | None = None

    def open(self, timing: Timing) -> ZnodeStore:
        if self._store is None:
            self._store = self.store_class(now_ms=timing.now_ms, clock=timing.clock, jitter=timing.jitter)
        return self._store


class LiveReadsStore(MemoryZnodeStore):
    """Reads as ZooKeeper does: in order of time, but not all of one moment."""

    reads_are_atomic = False

    @contextmanager
    def snapshot(self) -> Iterator[ZnodeReader]:
        yield self


class LiveReadsWorld(MemoryWorld):
    store_class = LiveReadsStore


class SqliteWorld(StoreWorld):
    @property
    def path(self) -> Path:
        return self.folder / "znodes.sqlite"

    def open(self, timing: Timing) -> ZnodeStore:
        return SqliteZnodeStore(self.path, now_ms=timing.now_ms, clock=timing.clock, jitter=timing.jitter)


class ZookeeperWorld(StoreWorld):
    """Below one chroot of a running server."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder)
        self.url = url

    def open(self, timing: Timing) -> ZnodeStore:
        return ZookeeperZnodeStore(self.url, now_ms=timing.now_ms, clock=timing.clock, jitter=timing.jitter)


class PostgresWorld(StoreWorld):
    """In one schema of a running server."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder)
        self.url = url

    def open(self, timing: Timing) -> ZnodeStore:
        return PostgresZnodeStore(self.url, timing=timing)


class SimulatedWorld(StoreWorld):
    """The simulation's store without faults: each client is a process, those at work side by side are strands."""

    nature = Nature(latency_max_ms=3)

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._world = SimulatedProcesses(Random(0), self.nature)

    def open(self, timing: Timing) -> ZnodeStore:
        store = self._world.process("client").store()
        if timing is not SYSTEM_TIMING:  # else it has the simulated one
            store.timing = timing
        return store

    def in_parallel(self, workers: int, work: Callable[[int], object]) -> None:
        def start(number: int) -> None:
            def run() -> None:
                work(number)

            self._world.scheduler.start(run)

        for number in range(workers):
            start(number)
        self._world.scheduler.run()


class SimulatedLiveReadsWorld(SimulatedWorld):
    nature = Nature(reads_are_atomic=False, latency_max_ms=3)


class SimulatedLogWorld(SimulatedWorld):
    nature = Nature(is_on_log=True, latency_max_ms=3)


WORLDS: dict[str, type[StoreWorld]] = {"memory": MemoryWorld, "live-reads": LiveReadsWorld, "sqlite": SqliteWorld}


def increment_in_generations(store: ZnodeStore, generations: int) -> None:
    """Add to the counter in this process and in children that fork on, two each, before and after they do."""
    store.transact(increment)
    if generations:
        children = [forked(lambda: increment_in_generations(store, generations - 1)) for _ in range(2)]
        store.transact(increment)
        wait_for(children)


def increment_while_forking(store: ZnodeStore, forks: int) -> int:
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


def stop_inside_a_step(world: StoreWorld) -> None:
    """Another process writes meanwhile; the one that was stopped is told of the conflict, as its time is over."""
    store = world.client()
    store.multi([Create("/counter", b"0"), Create("/late", b"")])

    def work() -> None:
        def step(view: ZnodeView) -> None:
            view.set("/late", b"written")
            os.kill(os.getpid(), signal.SIGSTOP)

        with pytest.raises(TransactConflictError):
            store.transact(step, deadline_ms=100)

    pid = forked(work)
    os.waitpid(pid, os.WUNTRACED)
    assert store.transact(increment) == 1
    time.sleep(0.15)
    os.kill(pid, signal.SIGCONT)
    wait_for([pid])
    late = store.get("/late")
    assert late is not None
    assert late.data == b""
