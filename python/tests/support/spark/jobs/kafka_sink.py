"""A query from JSON files into the Kafka sink that goes on until it is killed: at a crash point, if one is named.

It passes the point unharmed while the file `mark` exists, and makes that file just before it dies.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import oncelog_kafka
from oncelog.crash_points import arm, kill_once_at
from tests.support.spark.jobs.sessions import run_while_watched, spark_session


def main(settings: dict[str, Any]) -> None:
    if settings["crash_point"]:
        arm(kill_once_at(settings["crash_point"], -os.getpgrp(), Path(settings["mark"])))
    with spark_session(settings={"spark.jars": oncelog_kafka.jars()}) as spark:
        rows = (
            spark.readStream.schema("value string, partition int")
            .option("maxFilesPerTrigger", 1)
            .json(settings["source"])
            .repartition(2, "partition")
        )
        query = (
            rows.writeStream.foreachBatch(oncelog_kafka.sink(**settings["sink"]))
            .option("checkpointLocation", settings["checkpoint"])
            .trigger(processingTime="200 milliseconds")
            .start()
        )
        run_while_watched(query)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
