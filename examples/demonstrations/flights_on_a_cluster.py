"""The flights on a cluster, every part of which is killed with SIGKILL, and a check of every row.

Three ZooKeeper servers keep the log's metadata; its files are in a shared folder. A standalone Spark cluster, with a
master and a worker on each of two hosts, runs the query of `flights_exactly_once.py`: it reads what a loader writes in
transactions, every fifth of which is aborted, and writes the late departures with oncelog's sink. Meanwhile executors,
workers, the driver and ZooKeeper's leader are killed and replaced. At the end every row is compared with the CSV that
the flights came from.

    python examples/demonstrations/flights_on_a_cluster.py        # or: make demo WHAT=cluster

All servers run as processes on this machine, and are gone afterwards. Their output is in build/cluster. Exits with 1
unless the query's output is exactly right. Needs Linux, because it listens on 127.0.0.2 and reads /proc.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from rich.console import Console

from flights import cluster_experiment, command, data, truth, verdict
from flights.cluster_experiment import KILLS, NAME
from flights.folders import Folders
from flights.processes import PROC
from flights.progress import Progress
from oncelog.testing.zookeeper_server import running_ensemble

WORK = Path(__file__).resolve().parents[2] / "build" / "cluster"


async def main(console: Console) -> int:
    if not PROC.is_dir():
        raise SystemExit("this example needs Linux: it tells processes apart by /proc, and listens on 127.0.0.2")
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    with Progress(console) as progress:
        with progress.phase("The truth, from the CSV"):
            flights = data.read()
            expected = truth.late_departures(flights)

        with running_ensemble(WORK / "zookeeper") as ensemble:
            folders = Folders(WORK, ensemble.url())
            with (
                progress.phase(f"A pipeline on a cluster, of which parts are killed {len(KILLS)} times"),
                progress.lane(NAME, flights.num_rows, expected.num_rows) as lane,
            ):
                story = await cluster_experiment.run(ensemble, folders, lane)

            return verdict.tell(console, progress, story, folders, expected)


if __name__ == "__main__":
    sys.exit(command.run(main))
