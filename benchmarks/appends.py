"""What exactly-once costs a writer: the same batches in transactions and without, and the floor of plain files."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import oncelog
from benchmarks import data
from benchmarks.report import Finding, at_most, median, per_second

EXPLANATION = """\
One producer appends batches of 100-byte records, each of which takes 100 ms or longer. *At-least-once* is the same
producer without transactions (idempotent), which flushes each batch. *The floor* writes the same batches to pyarrow IPC
files with zstd, and fsyncs each file."""


def run(folder: Path, *, quick: bool) -> list[Finding]:
    """Measure the overhead of transactions."""
    rows, rounds = 500_000, (5 if quick else 15)
    batches = list(data.batches(rows, 100))
    log = oncelog.open(folder / "log")
    log.create_topic("t", partitions=4)
    transactional = log.producer(transactional_id="bench")
    transactional.init_transactions()
    plain = log.producer()

    def exactly_once() -> None:
        with transactional.transaction():
            _send(transactional, batches)

    def at_least_once() -> None:
        _send(plain, batches)
        plain.flush()

    contenders: dict[str, Callable[[], None]] = {
        "once": exactly_once,
        "least": at_least_once,
        "floor": lambda: _write_ipc(folder / "floor.arrow", batches),
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, work in contenders.items():
            started = time.perf_counter()
            work()
            if number:
                times[name].append(time.perf_counter() - started)
    once, least, floor = (median(times[name]) for name in ("once", "least", "floor"))
    log.close()
    return [
        at_most(
            f"append in transactions of {rows:,} records ({once * 1000:.0f} ms each) to at-least-once, time",
            per_second(rows, once),
            f"{per_second(rows, least)} at-least-once",
            once / least,
            1.05,
        ),
        Finding(
            "append in transactions to the floor, time", per_second(rows, once), per_second(rows, floor), once / floor
        ),
    ]


def _send(producer: oncelog.Producer, batches: list[pa.RecordBatch]) -> None:
    for number, batch in enumerate(batches):
        producer.send_batch("t", batch, partition=number % 4)


def _write_ipc(path: Path, batches: list[pa.RecordBatch]) -> None:
    with path.open("wb") as file:
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_file(file, batches[0].schema, options=options) as writer:
            for batch in batches:
                writer.write_batch(batch)
        file.flush()
        os.fsync(file.fileno())
