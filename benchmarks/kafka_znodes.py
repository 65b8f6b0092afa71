"""The ledger's store: znodes on a command log in a partition, against bare appends to the same partition."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from multiprocessing import get_context

from kazoo.client import KazooClient
from kazoo.interfaces import IAsyncResult

from benchmarks.kafka_world import World
from benchmarks.report import Finding, median, per_second
from benchmarks.transactions import counted
from oncelog.ports import Create, Set, ZnodeStore, ZnodeView
from oncelog.testing.zookeeper_server import running_server
from oncelog.znodes.replicated.command import Batch, encode
from oncelog.znodes.replicated.port import BEGINNING
from oncelog_kafka.ledger import ledger_store
from oncelog_kafka.ledger.ledger_store import Settings

EXPLANATION = """\
The ledger's store is a log of steps in one partition, which each process replays. A *step* reads a znode of 300 bytes
and replaces it: a fetch, an append, and a fetch that shows its outcome. The peer appends as many bytes to the same
partition, one after the other. *Eight processes* have a znode each, and share the partition. *64 threads* of one
process wait together, and share appends; the peers are one of them alone, and one thread that keeps 64 bare writes of
as many bytes on their way to a ZooKeeper server (kazoo; `forceSync=no`)."""

ZNODE_BYTES = 300
PROCESSES = 8
THREADS = 64

ENTRY = encode(Batch("peer", 1, BEGINNING, 0, [[Set("/none", bytes(ZNODE_BYTES))]]))
"""An entry that changes nothing."""


def run(world: World, *, quick: bool) -> list[Finding]:
    """Measure steps of one process, of eight, and of 64 threads."""
    seconds = 2.0 if quick else 8.0
    settings = {"bootstrap_servers": [world.broker.address]}
    topic = world.fresh("ledger").name
    with closing(ledger_store.store(settings, topic, create=True)) as store:
        store.multi([Create(f"/{number}", bytes(ZNODE_BYTES)) for number in range(THREADS)])
        appended, stepped = _appended_ms(settings, topic, seconds), _ms_each(lambda: _step(store, 0), seconds)
        together = _threads_per_s(store, seconds)
    alone = 1000 / stepped
    with running_server(world.folder / "zookeeper") as server:
        pipelined = _pipelined_per_s(server.address, seconds)
    steps, appends = (_processes_per_s(work, settings, topic, seconds) for work in (_steps_in, _appends_in))
    return [
        Finding("step, one process", f"{stepped:.2f} ms", f"{appended:.2f} ms append", stepped / appended),
        Finding("steps, eight processes", per_second(steps, 1), per_second(appends, 1), steps / appends),
        Finding("steps, 64 threads", per_second(together, 1), f"{alone:.0f}/s alone", together / alone),
        Finding("steps, 64 threads", per_second(together, 1), f"{pipelined:.0f}/s ZooKeeper", together / pipelined),
    ]


def _step(store: ZnodeStore, number: int) -> None:
    def replace(view: ZnodeView) -> None:
        znode = view.get(f"/{number}")
        view.set(f"/{number}", b"" if znode is None else znode.data)

    store.transact(replace)


def _appended_ms(settings: Settings, topic: str, seconds: float) -> float:
    with closing(ledger_store.opened(settings, topic)) as log:
        return _ms_each(lambda: log.append(BEGINNING, ENTRY), seconds)


def _ms_each(ask: Callable[[], object], seconds: float) -> float:
    """The median of calls that are made one after the other."""
    times = []
    end = time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        ask()
        times.append((time.perf_counter() - began) * 1000)
    return median(times[len(times) // 10 :])


def _threads_per_s(store: ZnodeStore, seconds: float) -> float:
    counts = [0] * THREADS
    end = time.perf_counter() + seconds

    def write(number: int) -> None:
        while time.perf_counter() < end:
            store.multi([Set(f"/{number}", bytes(ZNODE_BYTES))])
            counts[number] += 1

    threads = [threading.Thread(target=write, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / seconds


def _pipelined_per_s(address: str, seconds: float) -> float:
    client = KazooClient(address)
    client.start()
    try:
        for number in range(THREADS):
            client.create(f"/{number}", bytes(ZNODE_BYTES))
        room, answered = threading.Semaphore(THREADS), 0

        def count(answer: IAsyncResult) -> None:
            nonlocal answered
            answer.get()
            answered += 1
            room.release()

        numbers, end = itertools.cycle(range(THREADS)), time.perf_counter() + seconds
        while time.perf_counter() < end:
            room.acquire()
            client.set_async(f"/{next(numbers)}", bytes(ZNODE_BYTES)).rawlink(count)
        return answered / seconds
    finally:
        client.stop()
        client.close()


def _processes_per_s(work: Callable[..., int], settings: Settings, topic: str, seconds: float) -> float:
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as processes:
        list(processes.map(work, [settings] * PROCESSES, [topic] * PROCESSES, range(PROCESSES), [0.2] * PROCESSES))
        done = processes.map(work, [settings] * PROCESSES, [topic] * PROCESSES, range(PROCESSES), [seconds] * PROCESSES)
        return sum(done) / seconds


def _steps_in(settings: Settings, topic: str, number: int, seconds: float) -> int:
    with closing(ledger_store.store(settings, topic, create=False)) as store:
        return counted(lambda: _step(store, number), seconds)


def _appends_in(settings: Settings, topic: str, number: int, seconds: float) -> int:
    with closing(ledger_store.opened(settings, topic)) as log:
        return counted(lambda: log.append(BEGINNING, ENTRY), seconds)
