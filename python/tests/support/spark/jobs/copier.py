"""The copier on Spark: queries from a log to the same log, until a file appears, they end, or all are killed.

A query may be killed with its driver at a crash point, once: it passes the point unharmed while the file `mark` exists,
and makes that file just before it dies. Its rows may go through a fault in its tasks.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import oncelog
from oncelog.runtime import Log
from tests.support.spark.faults import FAULTS, shuffled
from tests.support.spark.jobs.deaths import die_at
from tests.support.spark.jobs.sessions import run_while_watched, spark_session
from tests.support.spark.queries import into, stream


def start(spark: SparkSession, log: Log, query: dict[str, Any]) -> StreamingQuery:
    """Start a query.

    Args:
        spark: the session.
        log: of its source and its sink.
        query: its `door`, `checkpoint`, and options of `source` and `sink`; `fault` and its `folder` if it has one;
            `tasks` and `drawn` if that many get its rows by a shuffle.
    """
    rows = stream(spark, log, **query.get("source", {})).select("key", "value", "partition")
    if "tasks" in query:
        rows = shuffled(rows, query["tasks"], drawn=query.get("drawn", False))
    if "fault" in query:
        rows = rows.mapInArrow(FAULTS[query["fault"]](Path(query["folder"])), rows.schema)
    writer = into(rows, log, query["door"], **query["sink"]).option("checkpointLocation", query["checkpoint"])
    return writer.trigger(**query.get("trigger", {"processingTime": "200 milliseconds"})).start()


def main(settings: dict[str, Any]) -> None:
    if settings.get("crash_point"):
        die_at(settings["crash_point"], Path(settings["mark"]))
    on = settings.get("master", "local[2,4]"), settings.get("spark")
    with oncelog.open(**settings["log"]) as log, spark_session(*on) as spark:
        queries = []
        for query in settings["queries"]:
            queries.append(start(spark, log, query))
            if settings.get("in_turn"):
                run_while_watched(*queries)
        run_while_watched(*queries, stop=settings.get("stop"))


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
