"""Kills a pipeline at four crash points, one after another, restarts it, and checks that every record was copied once.

    python examples/crash_test.py

Replace `copy` by your own job. A Spark job has more crash points: see `oncelog.testing.faults.CRASH_POINTS`.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import oncelog
from oncelog.crash_points import CrashPoint
from oncelog.testing.faults import killing_at

POINTS = (CrashPoint.PRODUCER_INIT, CrashPoint.FILE_FINISHED, CrashPoint.PRODUCER_END, CrashPoint.PRODUCER_ENDED)


def copy(folder: str) -> None:
    """The pipeline under test: it reads, writes and commits its position in one transaction."""
    with (
        oncelog.open(folder) as log,
        log.consumer(group_id="copier", auto_offset_reset="earliest") as consumer,
        log.producer(transactional_id="copier") as producer,
    ):
        producer.init_transactions()
        consumer.subscribe(["in"])
        while records := consumer.poll(timeout_ms=1000):
            with producer.transaction():
                for record in records:
                    producer.send("out", value=record.value)
                positions = {partition: consumer.position(partition) for partition in consumer.assignment()}
                producer.send_offsets_to_transaction(positions, "copier")


def survives(point: CrashPoint) -> bool:
    """Whether the pipeline dies at the point, and a second run leaves each record once."""
    folder = tempfile.mkdtemp(prefix="oncelog-")
    with oncelog.open(folder) as log:
        log.create_topic("in")
        log.create_topic("out")
        with log.producer() as producer:
            for number in range(10):
                producer.send("in", value=str(number).encode())

    command = [sys.executable, __file__, folder]
    died = subprocess.run(command, env=killing_at(point, mark=Path(folder, "killed")), check=False)
    subprocess.run(command, check=True)

    with oncelog.open(folder) as log, log.consumer(auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["out"])
        copies = [int(record.value or b"") for record in consumer.poll(timeout_ms=5000)]
    return died.returncode == -signal.SIGKILL and copies == list(range(10))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        copy(sys.argv[1])
    else:
        results = {point: survives(point) for point in POINTS}
        for point, is_exact in results.items():
            print(f"killed at {point}: {'each record once' if is_exact else 'NOT EXACT'}")
        sys.exit(0 if all(results.values()) else 1)
