"""The query of the cluster: the same one into the same sink, and its tasks run on the workers of a Spark master.

Run as ``python -m flights.cluster_query <folders> <attempt> <master>``.
"""

from __future__ import annotations

import sys

from flights import pipeline, query
from flights.cluster import EXECUTOR_MB
from flights.folders import Folders

SETTINGS = {
    "spark.executor.memory": f"{EXECUTOR_MB}m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": pipeline.JVM_OPTIONS,
}


def main(argument: str, attempt: str, master: str) -> None:
    folders = Folders.given(argument)
    pipeline.run(folders, int(attempt), query.batch_writer(folders), master=master, settings=SETTINGS)


if __name__ == "__main__":
    main(*sys.argv[1:])
