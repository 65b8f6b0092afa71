"""The copier into an index: a query into the exactly-once sink, until it fails, or is killed at a crash point."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import oncelog_search
from oncelog_search.crash_points import SearchCrashPoint
from tests.support.spark.jobs.deaths import die_at
from tests.support.spark.jobs.sessions import run_while_watched, spark_session


def main(settings: dict[str, Any]) -> None:
    die_at(settings["crash_point"], Path(settings["mark"]), SearchCrashPoint)
    with spark_session("local[2,4]", {"spark.ui.showConsoleProgress": "false"}) as spark:
        rows = spark.readStream.schema("id int, value string").option("maxFilesPerTrigger", 1).json(settings["source"])
        writer = rows.repartition(2).writeStream.foreachBatch(oncelog_search.sink(**settings["sink"]))
        writer = writer.option("checkpointLocation", settings["checkpoint"])
        run_while_watched(writer.trigger(processingTime="200 milliseconds").start())


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
