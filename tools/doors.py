"""Tries each public part of oncelog that needs an extra, without any extra installed. Prints each fault on one line.

The interpreter under test runs it, so it imports only what it tries. Packages that the arguments name are hidden first,
as if they were not installed.
"""

from __future__ import annotations

import sys

DOORS = {
    "from oncelog.spark import configure": "spark",
    "from oncelog.spark import jars": "spark",
    "from oncelog.spark import sink": "spark",
    "from oncelog.spark import OncelogDataSource": "spark",
    "from oncelog.spark.kit.sink import ForeachBatchSink": "spark",
    "import oncelog_kafka; oncelog_kafka.sink()": "spark,kafka",
    "import oncelog_kafka; oncelog_kafka.configure(None)": "spark,kafka",
    "import oncelog_kafka; oncelog_kafka.jars()": "spark,kafka",
    "import oncelog_kafka.cli.commands": "kafka",
    "import oncelog_postgres; oncelog_postgres.sink()": "spark,postgres",
    "import oncelog_files; oncelog_files.sink()": "spark",
    "import oncelog_tables; oncelog_tables.delta()": "spark,delta",
    "import oncelog_tables; oncelog_tables.iceberg()": "spark,iceberg",
    "import oncelog_search; oncelog_search.sink()": "spark,search",
    "import oncelog.testing.target_contract": "testing",
    "import oncelog.testing.znode_store_contract": "testing",
    "import oncelog.znodes.zookeeper": "zookeeper",
    "import oncelog.znodes.postgres": "postgres",
    "import oncelog.znodes.replicated.s3": "s3",
}
"""What a user types, and the extras that the error must name."""


def fault(typed: str, extras: str) -> str | None:
    """What is wrong with the result of what a user typed; None if nothing is."""
    try:
        exec(typed, {})
    except ModuleNotFoundError as problem:
        if f": install oncelog[{extras}] " in str(problem) and "\n" not in str(problem):
            return None
        return f"{typed}: does not say to install oncelog[{extras}]: {problem}"
    return f"{typed}: works without the extras {extras}"


def main(hidden: list[str]) -> int:
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # an import of None raises ModuleNotFoundError
    faults = [found for found in (fault(*door) for door in DOORS.items()) if found]
    sys.stderr.writelines(f"{found}\n" for found in faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
