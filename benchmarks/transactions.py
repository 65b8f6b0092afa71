"""Small transactions: how many a second, and how long a commit takes, beside a bare loop of what they must wait for."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import Producer

import oncelog
from benchmarks.report import Finding, at_least, median, per_second
from oncelog.testing.kafka_broker import KafkaBroker

EXPLANATION = """\
A transaction begins, sends one batch of ten 100-byte records, and commits. The peer is a bare loop of the writes that
such a transaction waits for: write and fsync one file, fsync its folder, and make one SQLite commit with
synchronous=FULL. In the runs of eight processes, each process writes to its own partition, and the bare loop is still
that of one process. *confluent-kafka* commits transactions of the same records, in turns with oncelog, on a broker of
this machine with its defaults, which waits for no disk."""

TURNS = 3
MOST_WAITED_S = 60.0


def run(folder: Path, *, quick: bool) -> list[Finding]:
    """Measure one process and eight."""
    seconds = 3.0 if quick else 10.0
    bare = _bare_loop(folder / "bare", seconds)
    log = oncelog.open(folder / "log")
    log.create_topic("t", partitions=8)
    log.close()
    alone = _together(folder / "log", 1, seconds)[0]
    bare = (bare + _bare_loop(folder / "bare2", seconds)) / 2
    eight = _together(folder / "log", 8, seconds)
    rates = [rate for rate, _ in eight]
    total = sum(rates)
    ours, kafka = _beside_kafka(folder, seconds / 2)
    return [
        at_least("transactions, one process", per_second(alone[0], 1), per_second(bare, 1), alone[0] / bare, 0.5),
        at_least(
            "transactions, one process, beside Kafka's",
            per_second(ours, 1),
            f"{per_second(kafka, 1)} confluent-kafka",
            ours / kafka,
            4.0,
        ),
        at_least(
            "transactions, eight processes together", per_second(total, 1), per_second(bare, 1), total / bare, 0.5
        ),
        at_least(
            "slowest of the eight to the mean of them",
            per_second(min(rates), 1),
            per_second(total / 8, 1),
            min(rates) / (total / 8),
            0.5,
        ),
        Finding(
            "commit latency, one process, p50 / p99",
            f"{percentile(alone[1], 50):.1f} / {percentile(alone[1], 99):.1f} ms",
            f"{1000 / bare:.1f} ms a bare round",
            percentile(alone[1], 50) * bare / 1000,
        ),
        Finding(
            "commit latency, eight processes, p50 / p99",
            f"{percentile(_all(eight), 50):.1f} / {percentile(_all(eight), 99):.1f} ms",
            f"{1000 / bare:.1f} ms a bare round",
            percentile(_all(eight), 50) * bare / 1000,
        ),
    ]


def _bare_loop(folder: Path, seconds: float) -> float:
    """Rounds per second of the bare loop."""
    folder.mkdir(parents=True)
    database = sqlite3.connect(folder / "bare.sqlite", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE t (k TEXT PRIMARY KEY, v BLOB)")
    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        write_durably(folder / f"{count}.bin")
        database.execute("BEGIN IMMEDIATE")
        # Other bytes each time: SQLite writes nothing where nothing changes.
        database.execute("INSERT OR REPLACE INTO t VALUES ('k', ?)", (f"{count:0200}",))
        database.execute("COMMIT")
        count += 1
    database.close()
    return count / seconds


def write_durably(path: Path) -> None:
    """A small new file, on the disk with its name when this returns."""
    with path.open("wb") as file:
        file.write(b"x" * 1000)
        file.flush()
        os.fsync(file.fileno())
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


Result = tuple[float, list[float]]


def _together(path: Path, processes: int, seconds: float) -> list[Result]:
    """(transactions per second, latencies in ms) of each of some processes that run at the same time."""
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[Result] = context.Queue()
    ready = context.Barrier(processes)
    workers = [
        context.Process(target=_work, args=(str(path), number, seconds, ready.wait, results))
        for number in range(processes)
    ]
    for worker in workers:
        worker.start()
    found = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    return found


def _work(
    path: str, number: int, seconds: float, ready: Callable[[], object], results: multiprocessing.Queue[Result]
) -> None:
    with oncelog.open(path) as log, log.producer(transactional_id=f"bench-{number}") as producer:
        producer.init_transactions()
        send_ten(producer, number)
        ready()
        latencies, end = [], time.monotonic() + seconds
        while time.monotonic() < end:
            started = time.monotonic()
            send_ten(producer, number)
            latencies.append((time.monotonic() - started) * 1000)
        results.put((len(latencies) / seconds, latencies))


def send_ten(producer: oncelog.Producer, partition: int) -> None:
    """One transaction of ten records."""
    with producer.transaction():
        for _ in range(10):
            producer.send("t", b"v" * 100, partition=partition)


def _beside_kafka(folder: Path, seconds: float) -> tuple[float, float]:
    """(transactions per second of oncelog, of confluent-kafka), the median of turns."""
    rates: tuple[list[float], list[float]] = ([], [])
    with ExitStack() as stack:
        log = stack.enter_context(oncelog.open(folder / "log"))
        ours = stack.enter_context(log.producer(transactional_id="beside"))
        ours.init_transactions()
        broker = stack.enter_context(KafkaBroker(folder / "broker").running())
        broker.create_topic("t", partitions=8)
        settings = {"bootstrap.servers": broker.address, "transactional.id": "beside", "log_level": 0}
        theirs = Producer(settings)
        theirs.init_transactions(MOST_WAITED_S)
        for _ in range(TURNS):
            rates[0].append(counted(lambda: send_ten(ours, 0), seconds) / seconds)
            rates[1].append(counted(lambda: _send_ten_to_kafka(theirs), seconds) / seconds)
    return median(rates[0]), median(rates[1])


def counted(run: Callable[[], object], seconds: float) -> int:
    """How often something runs, one time after the other."""
    count, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        run()
        count += 1
    return count


def _send_ten_to_kafka(producer: Producer) -> None:
    producer.begin_transaction()
    for _ in range(10):
        producer.produce("t", value=b"v" * 100, partition=0)
    producer.commit_transaction(MOST_WAITED_S)


def _all(results: list[Result]) -> list[float]:
    return [latency for _, latencies in results for latency in latencies]


def percentile(values: list[float], percent: int) -> float:
    """The value below which so many percent of them are."""
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]
