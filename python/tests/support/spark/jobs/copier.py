"""A checkpointed copy of a topic that goes on until it is killed: at a crash point, if its settings name one.

It passes the point unharmed while the file `mark` exists, and makes that file just before it dies.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import oncelog
from oncelog.crash_points import CrashPoint, arm, kill_once_at
from oncelog.testing import faults
from tests.support.spark.jobs.sessions import run_while_watched, spark_session
from tests.support.spark.queries import into, stream


def die_at(point: CrashPoint, mark: Path) -> None:
    """Have this driver killed with its JVM when one of its processes comes to the point: itself or a Python worker."""
    group = -os.getpgrp()
    os.environ.update(faults.killing_at(point, mark, pid=group))
    arm(kill_once_at(point, group, mark))


def main(settings: dict[str, Any]) -> None:
    if settings["crash_point"]:
        die_at(CrashPoint(settings["crash_point"]), Path(settings["mark"]))
    with oncelog.open(**settings["log"]) as log, spark_session() as spark:
        rows = stream(spark, log, **settings["source"]).select("key", "value", "partition")
        writer = into(rows, log, settings["door"], **settings["sink"])
        query = (
            writer.option("checkpointLocation", settings["checkpoint"])
            .trigger(processingTime="200 milliseconds")
            .start()
        )
        run_while_watched(query)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
