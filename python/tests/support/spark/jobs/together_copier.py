"""The copier into several targets: a query whose batches are one decision, until it fails, or is killed at a point."""

from __future__ import annotations

import json
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import oncelog.spark
import oncelog_kafka
import oncelog_postgres
from oncelog_kafka.crash_points import KafkaCrashPoint
from oncelog_postgres.crash_points import PostgresCrashPoint
from tests.support.spark.jobs.deaths import die_at
from tests.support.spark.jobs.sessions import run_while_watched, spark_session


def main(settings: dict[str, Any]) -> None:
    die_at(settings["crash_point"], Path(settings["mark"]), chain(KafkaCrashPoint, PostgresCrashPoint))
    own = {"spark.jars": oncelog_kafka.jars(), "spark.ui.showConsoleProgress": "false"}
    with spark_session("local[2,4]", own) as spark:
        rows = spark.readStream.schema("id int, value string").option("maxFilesPerTrigger", 1).json(settings["source"])
        sink = oncelog.spark.together(
            (oncelog_kafka.sink(**settings["kafka"]), lambda df: df.where("id % 2 = 0").select("value")),
            oncelog_postgres.sink(**settings["postgres"]),
            (oncelog.spark.sink(**settings["log"]), lambda df: df.select("value")),
        )
        writer = rows.repartition(2).writeStream.foreachBatch(sink)
        writer = writer.option("checkpointLocation", settings["checkpoint"])
        run_while_watched(writer.trigger(processingTime="200 milliseconds").start())


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
