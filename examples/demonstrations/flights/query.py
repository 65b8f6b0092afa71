"""The process that is killed: late departures go to the topic `delayed`, exactly once.

Run as ``python -m flights.query <folders> <attempt> [<crash point>]``.
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame
from pyspark.sql.functions import lit, struct, to_json

import oncelog
from flights import kills, pipeline
from flights.data import FIELDS
from flights.folders import DELAYED, GROUP, Folders
from oncelog.crash_points import CrashPoint


def batch_writer(folders: Folders) -> pipeline.WriteBatch:
    """A foreachBatch function that writes a batch to the topic, and its source offsets to the group, or nothing."""
    write = oncelog.spark.sink(**folders.log_options, topic=DELAYED, groupId=GROUP, transactionalIdPrefix=DELAYED)

    def write_batch(late: DataFrame, batch_id: int) -> None:
        value = to_json(struct(lit(batch_id).alias("batch"), *FIELDS))
        write(late.select("key", value.alias("value")), batch_id)

    return write_batch


def main(argument: str, attempt: str, crash_point: str = "") -> None:
    folders = Folders.given(argument)
    if crash_point:
        kills.arm_crash_point(CrashPoint(crash_point), folders.mark(int(attempt)))
    pipeline.run(folders, int(attempt), batch_writer(folders))


if __name__ == "__main__":
    main(*sys.argv[1:])
