"""The first micro-batch of a session, from `start()` to its end: what someone sees who starts a job and waits."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks import kafka_peer
from benchmarks.kafka_world import ONCELOG, SPARK, World, interleaved, reading, session, writing
from benchmarks.report import Finding, at_most, median

EXPLANATION = """\
The first query of a session copies 1,000 records from topic to topic in one micro-batch. Each session has a process of
its own. The figures are seconds from `start()` until the query has ended. oncelog's time includes the start of Python's
planner and of the executors' Python, which Spark's connector does not need. `queryPlanning`, `addBatch` and the rest
are Spark's own parts of the batch; *before* is the time before the batch."""

ROWS = 1_000
MOST = 1.2
MORE_S = 1.0


def run(world: World, *, quick: bool) -> list[Finding]:
    """Measure a session's first batch by each connector."""
    topic = world.topic()
    world.load(topic, ROWS, 100)
    parts: dict[str, str] = {}

    def first(connector: str) -> float:
        what = (connector, world.broker.address, topic, world.topic())
        command = [sys.executable, "-m", "benchmarks.kafka_first", *what]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        found = json.loads(lines[-1])
        parts[connector] = ", ".join(f"{name} {ms:.0f}" for name, ms in found["parts_ms"].items())
        return float(found["seconds"])

    contenders = {connector: partial(first, connector) for connector in (ONCELOG, SPARK)}
    times = interleaved(contenders, 3 if quick else 7)
    ours, peer = median(times[ONCELOG]), median(times[SPARK])
    what = f"first micro-batch of a session, {ROWS:,} rows, less {MORE_S:g} s"
    texts = f"{ours:.2f} s ({parts[ONCELOG]})", f"{peer:.2f} s ({parts[SPARK]}) Spark"
    return [at_most(what, *texts, (ours - MORE_S) / peer, MOST)]


def main(arguments: Sequence[str]) -> None:
    """Copy a topic in a new session; print the seconds and Spark's parts of them as a line of JSON."""
    connector, address, source, target = arguments
    with TemporaryDirectory() as folder:
        spark = session(Path(folder), kafka_peer.jars())
        places = {"checkpointLocation": f"{folder}/checkpoint"}
        if connector == ONCELOG:
            places["znodes"] = f"{folder}/ledger"
        rows = spark.readStream.format(connector).options(**reading(address, source)).load().select("key", "value")
        writer = rows.writeStream.format(connector).options(**writing(address, target), **places)
        writer = writer.trigger(availableNow=True)
        began = time.perf_counter()
        query = writer.start()
        query.awaitTermination()
        seconds = time.perf_counter() - began
        spark_ms = {name: ms for name, ms in query.recentProgress[0].durationMs.items() if name != "triggerExecution"}
        spark.stop()
    before = seconds * 1000 - sum(spark_ms.values())
    print(json.dumps({"seconds": seconds, "parts_ms": {"before": before, **spark_ms}}))


if __name__ == "__main__":
    main(sys.argv[1:])
