"""The copier of JSON rows: a query from a folder into an exactly-once sink, until it ends, fails, or is killed.

It may be killed at a crash point, once, as the copier on Spark may. On a cluster its rows may go through a fault in its
tasks.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from tests.support.spark.faults import FAULTS, shuffled
from tests.support.spark.jobs.deaths import die_at
from tests.support.spark.jobs.sessions import run_while_watched, spark_session


def main(settings: dict[str, Any]) -> None:
    """Run the query.

    Args:
        settings: its `source`, `checkpoint`, and the options of `sink`; the function `into` that makes the sink, as in
            `oncelog_files:sink`; see the functions that are called for the others.
    """
    if "crash_point" in settings:
        die_at(settings["crash_point"], Path(settings["mark"]), resolve_name(settings["points"]))
    own = {"spark.ui.showConsoleProgress": "false", **settings.get("spark", {})}
    with spark_session(settings.get("master", "local[2,4]"), own) as spark:
        reader = spark.readStream.options(**settings.get("read", {"maxFilesPerTrigger": 1}))
        rows = reader.schema("id int, value string").json(settings["source"])
        rows = shuffled(rows, settings.get("tasks", 2), drawn=settings.get("drawn", False))
        rows = rows.selectExpr(*settings.get("select", ["*"]))
        if "fault" in settings:
            rows = rows.mapInArrow(FAULTS[settings["fault"]](Path(settings["folder"])), rows.schema)
        sink = resolve_name(settings["into"])(**settings["sink"])
        writer = rows.writeStream.foreachBatch(sink).option("checkpointLocation", settings["checkpoint"])
        run_while_watched(writer.trigger(**settings.get("trigger", {"processingTime": "200 milliseconds"})).start())
        sys.stdout.write(f"{sink.last_report}\n")


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
