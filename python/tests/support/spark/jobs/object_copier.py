"""Copies of a topic through both doors of the sink, in a log whose files are objects; credentials in the environment.

The input grows between two runs of the same queries, and has transactions that are aborted. The topic `in` and one
named as each door are there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import oncelog
from oncelog.runtime import Log
from oncelog.spark import packaging
from tests.support.log.logs import numbered, started, write_aborted, write_committed
from tests.support.spark.jobs.sessions import spark_session
from tests.support.spark.queries import DOORS, copy, stream

RUNS = ("first", "second")
PARTITIONS = 2


def sent(run: str, number: int) -> list[bytes]:
    """What is to arrive of a run in a partition."""
    return numbered(f"{run}-{number}", 50)


def write(log: Log, run: str) -> None:
    with started(log, "writer") as producer:
        for number in range(PARTITIONS):
            write_committed(producer, *sent(run, number), number=number, topic="in")
            write_aborted(producer, b"given up", number=number, topic="in")


def main(settings: dict[str, Any]) -> None:
    znodes = settings["znodes"]
    # The jar's reader must leave these logs to Python's.
    jars = {"spark.jars": str(packaging.JAR)} if packaging.JAR.is_file() else None
    with oncelog.open(settings["path"], znodes, create=False) as log, spark_session(settings=jars) as spark:
        for run in RUNS:
            write(log, run)
            for door in DOORS:
                rows = stream(spark, log, znodes=znodes).select("key", "value", "partition")
                options = {"znodes": znodes, "topic": door, "transactionalIdPrefix": f"to.{door}"}
                copy(rows, log, door, Path(settings["checkpoints"], door), **options)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
