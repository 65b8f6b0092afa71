"""From a commit to a consumer that waits in another process: how long it takes beyond the commit itself."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection
from pathlib import Path

import oncelog
from benchmarks.report import Finding, at_most
from benchmarks.transactions import percentile, send_ten
from oncelog.testing.zookeeper_server import running_server

EXPLANATION = """\
A process commits transactions of ten 100-byte records, 25 ms apart, and another process waits for them in `poll`. The
time begins when a commit has returned, and ends when `poll` returns its records: the consumer hears of the commit,
plans, and reads the block. The peer is a byte that wakes another process through a pipe, which is the least that any
news take. *Idle* is the processor time of a consumer that waits while nothing is committed. Its peer is one that sleeps
20 ms and polls without waiting."""

COMMITS_APART_S = 0.025
P50_MS_AT_MOST = 2.0
P99_MS_AT_MOST = 10.0
WARMING = 10
"""Commits that are not counted."""


def run(folder: Path, *, quick: bool) -> list[Finding]:
    """Measure on SQLite and on ZooKeeper."""
    commits = 100 if quick else 400
    pipe = _woken_by_a_pipe(commits)
    findings = _measured(folder / "sqlite", None, "SQLite", commits, pipe)
    with running_server(folder / "server") as server:
        findings += _measured(folder / "zookeeper", server.url(), "ZooKeeper", commits, pipe)
    return findings


def _measured(folder: Path, znodes: str | None, where: str, commits: int, pipe: list[float]) -> list[Finding]:
    with oncelog.open(folder, znodes) as log:
        log.create_topic("t")
        with log.consumer(auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["t"])
            latencies = _latencies(consumer, str(folder), znodes, commits)
            waiting, looking = _idle_share(consumer, is_waiting=True), _idle_share(consumer, is_waiting=False)
    findings = [
        at_most(
            f"commit to `poll` on {where}, {name}, against {most:g} ms",
            f"{percentile(latencies, percent):.1f} ms",
            f"{percentile(pipe, percent):.2f} ms through a pipe",
            percentile(latencies, percent) / most,
            1,
        )
        for name, percent, most in (("p50", 50, P50_MS_AT_MOST), ("p99", 99, P99_MS_AT_MOST))
    ]
    return [
        *findings,
        Finding(f"idle on {where}", f"{waiting:.2%}", f"{looking:.2%} every 20 ms", waiting / looking),
    ]


def _latencies(consumer: oncelog.Consumer, path: str, znodes: str | None, commits: int) -> list[float]:
    """From the end of each commit to that of the `poll` that returns it, in ms."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    writer = context.Process(target=_commit, args=(path, znodes, WARMING + commits, theirs))
    writer.start()
    found = []
    for _ in range(WARMING + commits):
        count = 0
        while count < 10:
            count += len(consumer.poll(timeout_ms=1000))
        got_s = time.monotonic()
        found.append((got_s - ours.recv()) * 1000)
        ours.send(None)
    writer.join()
    return found[WARMING:]


def _commit(path: str, znodes: str | None, commits: int, pipe: Connection) -> None:
    """Commit, say when that was done, and go on once the consumer has it."""
    with oncelog.open(path, znodes) as log, log.producer(transactional_id="bench") as producer:
        producer.init_transactions()
        for _ in range(commits):
            time.sleep(COMMITS_APART_S)
            send_ten(producer, 0)
            pipe.send(time.monotonic())
            pipe.recv()


def _woken_by_a_pipe(times: int) -> list[float]:
    """From before a byte is written to when another process has read it, in ms."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    writer = context.Process(target=_write, args=(WARMING + times, theirs))
    writer.start()
    found = []
    for _ in range(WARMING + times):
        ours.recv_bytes()
        got_s = time.monotonic()
        found.append((got_s - ours.recv()) * 1000)
    writer.join()
    return found[WARMING:]


def _write(times: int, pipe: Connection) -> None:
    for _ in range(times):
        time.sleep(COMMITS_APART_S)
        began_s = time.monotonic()
        pipe.send_bytes(b".")
        pipe.send(began_s)


def _idle_share(consumer: oncelog.Consumer, *, is_waiting: bool, seconds: float = 3.0) -> float:
    """Processor time that a consumer takes while there is nothing to read, as a share of one core."""
    began_s, end_s = time.process_time(), time.monotonic() + seconds
    while (left_s := end_s - time.monotonic()) > 0:
        if is_waiting:
            consumer.poll(timeout_ms=round(left_s * 1000))
        else:
            consumer.poll()
            time.sleep(0.02)
    return (time.process_time() - began_s) / seconds
