"""The flights in a bucket that has the whole log, a query that is killed with SIGKILL, and a check of every row.

An S3 server keeps the log's files and, by puts of which one wins, its metadata, so that nothing else is needed. The
query of `flights_exactly_once.py` reads what a loader writes in transactions, every fifth of which is aborted, and
writes the late departures with oncelog's sink. It dies at the same seven moments of a micro-batch, and a few times a
minute the server stands still for two seconds. At the end every row is compared with the CSV of the flights.

    python examples/demonstrations/flights_in_a_bucket.py        # or: make demo WHAT=bucket

The server is SeaweedFS, a process on this machine, which is gone afterwards. What the run leaves is in build/bucket.
Exits with 1 unless the query's output is exactly right.
"""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from flights import command, data, experiment, truth, verdict
from flights.folders import Folders
from flights.kills import KILLS, Kill
from flights.pauses import standing_still
from flights.progress import Progress
from oncelog.crash_points import CrashPoint
from oncelog.testing.s3_server import running_server

WORK = Path(__file__).resolve().parents[2] / "build" / "bucket"


def moment(kill: Kill) -> str:
    """Where a kill hits the query. In a bucket, where steps are dear, one appends and decides."""
    return CrashPoint.ROUND_APPEND if kill.oncelog is CrashPoint.ROUND_APPENDED else kill.oncelog


PIPELINE = replace(experiment.ONCELOG, name="bucket", moment=moment, batches_between_kills=1)
"""A batch takes longer there. The one that shows that the query is back is enough to find it at work."""


async def main(console: Console) -> int:
    shutil.rmtree(WORK, ignore_errors=True)
    with Progress(console) as progress:
        with progress.phase("The truth, from the CSV"):
            flights = data.read()
            expected = truth.late_departures(flights)

        with running_server(WORK / "server") as server:
            folders = Folders(WORK / "run", znodes="s3", bucket=server.url())
            with (
                progress.phase(f"A pipeline on a bucket, killed {len(KILLS)} times"),
                progress.lane(PIPELINE.name, flights.num_rows, expected.num_rows) as lane,
                standing_still(server),
            ):
                story = await experiment.run(PIPELINE, folders, lane)
            return verdict.tell(console, progress, story, folders, expected)


if __name__ == "__main__":
    sys.exit(command.run(main))
