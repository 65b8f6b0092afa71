"""A log whose znodes are on ZooKeeper: small transactions, and the start of a client behind a long history."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

from kazoo.client import KazooClient

import oncelog
from benchmarks import planning, transactions
from benchmarks.report import Finding, at_least, at_most, median, per_second
from oncelog.log import topics
from oncelog.testing.zookeeper_server import running_ensemble, running_server

EXPLANATION = """\
Small transactions as above, with the znodes on one ZooKeeper server, and on an ensemble of three. The peer is a bare
loop on the same servers: write and fsync one file, fsync its folder, and send three raw kazoo multis of three znodes.
All servers run on this machine and do not wait for its disk (`forceSync=no`), neither for oncelog nor for the peer.
*The start of a client* is `oncelog.open` and the first plan of a log with a million index entries. Its peer is the same
with a thousand entries."""

START_MS_AT_MOST = 1000
HISTORIES = (1_000, 1_000_000)
ZNODE_BYTES = 300


def run(folder: Path, *, quick: bool) -> list[Finding]:
    """Measure one server and three, then the start of a client."""
    seconds = 3.0 if quick else 10.0
    findings = []
    with running_server(folder / "one") as server:
        findings.append(_transactions(folder / "on-one", server.address, "one server", seconds))
        findings.append(_start(folder / "start", server.url(), HISTORIES[:1] if quick else HISTORIES))
    with running_ensemble(folder / "three") as ensemble:
        findings.append(_transactions(folder / "on-three", ensemble.address, "three servers", seconds))
    return findings


def _transactions(folder: Path, address: str, what: str, seconds: float) -> Finding:
    folder.mkdir()
    bare = _bare_loop(folder / "bare-before", address, seconds)
    with oncelog.open(folder / "log", f"zk://{address}/transactions") as log:
        log.create_topic("t")
        with log.producer(transactional_id="bench") as producer:
            producer.init_transactions()
            count, end = 0, time.monotonic() + seconds
            while time.monotonic() < end:
                transactions.send_ten(producer, 0)
                count += 1
    bare = (bare + _bare_loop(folder / "bare-after", address, seconds)) / 2
    rate = count / seconds
    return at_least(f"transactions, {what}", per_second(rate, 1), per_second(bare, 1), rate / bare, 0.4)


def _bare_loop(folder: Path, address: str, seconds: float) -> float:
    """Rounds per second of the bare loop."""
    folder.mkdir()
    with ExitStack() as stack:
        client = KazooClient(address)
        client.start()
        stack.callback(client.close)
        stack.callback(client.stop)
        paths = [f"/{folder.name}-{number}" for number in range(3)]
        for path in paths:
            client.create(path, b"")
        count, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            transactions.write_durably(folder / f"{count}.bin")
            for _ in range(3):
                multi = client.transaction()
                for path in paths:
                    multi.set_data(path, b"x" * ZNODE_BYTES)
                multi.commit()
            count += 1
    return count / seconds


def _start(folder: Path, url: str, histories: tuple[int, ...]) -> Finding:
    """How long a client takes behind each history; the last one against the first."""
    with oncelog.open(folder, url) as log:
        for entries in histories:
            planning.make_history(log, entries)
    found = {entries: median([_started_s(folder, url, entries) for _ in range(5)]) for entries in histories}
    first, last = found[histories[0]], found[histories[-1]]
    return at_most(
        f"start of a client behind {histories[-1]:,} entries, against {START_MS_AT_MOST} ms",
        f"{last * 1000:.0f} ms",
        f"{first * 1000:.0f} ms behind {histories[0]:,}",
        last * 1000 / START_MS_AT_MOST,
        1,
    )


def _started_s(folder: Path, url: str, entries: int) -> float:
    started = time.perf_counter()
    with oncelog.open(folder, url, create=False) as log:
        (partition,) = topics.partitions_of(log.services.store, planning.topic_of(entries))
        planning.plan(log, partition)
        return time.perf_counter() - started
