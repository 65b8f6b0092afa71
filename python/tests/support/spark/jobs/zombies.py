"""Two copying queries, one through each door, that are stopped (SIGSTOP) in the middle of a batch, and wake up later.

The process that comes to the point writes its id into the query's mark, and stops: this program for foreachBatch, the
worker that commits for the format. What the queries end with, once both are awake, goes into the file `outcome`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import oncelog
from oncelog.crash_points import CrashPoint, arm
from tests.support.spark.jobs.sessions import spark_session
from tests.support.spark.queries import into, stream
from tests.support.spark.sleepers import MARK, POINT, SleepyDataSource, stop_once_at


def main(settings: dict[str, Any]) -> None:
    point, folder = settings[POINT], Path(settings["folder"])
    queries = {}
    with oncelog.open(**settings["log"]) as log, spark_session() as spark:
        spark.dataSource.register(SleepyDataSource)
        for door in ("oncelog", "foreachBatch"):  # the latter stops this very program
            mark = folder / f"{door}.mark"
            options = dict(settings["sinks"][door])
            if door == "oncelog":
                options |= {POINT: point, MARK: str(mark)}
            else:
                arm(stop_once_at(CrashPoint(point), mark))
            rows = stream(spark, log, **settings["sources"][door]).select("value", "partition")
            writer = into(rows, log, "oncelog-sleepy" if door == "oncelog" else door, **options)
            queries[door] = writer.option("checkpointLocation", settings["checkpoints"][door]).start()
            while not mark.exists():
                time.sleep(0.05)
        while any(query.isActive for query in queries.values()):
            time.sleep(0.05)
        outcome = {door: str(query.exception()) for door, query in queries.items()}
    (folder / "outcome").write_text(json.dumps(outcome))


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
