"""The copier into tables: a query into an exactly-once sink, until it fails, or is killed at a crash point."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import oncelog_tables
from oncelog_tables.crash_points import TablesCrashPoint
from tests.support.spark.jobs.deaths import die_at
from tests.support.spark.jobs.sessions import run_while_watched, spark_session


def main(settings: dict[str, Any]) -> None:
    die_at(settings["crash_point"], Path(settings["mark"]), TablesCrashPoint)
    with spark_session("local[2,4]", {"spark.ui.showConsoleProgress": "false"}) as spark:
        rows = spark.readStream.schema("id int, value string").option("maxFilesPerTrigger", 1).json(settings["source"])
        sink = getattr(oncelog_tables, settings["format"])(**settings["sink"])
        writer = rows.repartition(2).writeStream.foreachBatch(sink).option("checkpointLocation", settings["checkpoint"])
        run_while_watched(writer.trigger(processingTime="200 milliseconds").start())


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
