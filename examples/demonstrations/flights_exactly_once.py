"""Real flights, a streaming query that is killed with SIGKILL again and again, and a check of every row.

Two pipelines read the same flights from a topic, while a loader writes them in transactions and aborts every fifth.
Both look for late departures. One writes them with oncelog's sink; the other appends parquet files in foreachBatch, as
is usual today. Both are killed at the same seven moments of a micro-batch. Then every row of both outputs is compared
with the CSV that the flights came from.

    python examples/demonstrations/flights_exactly_once.py        # or: make run

Writes build/flights.html; logs, checkpoints and the programs' output are in build/flights. Exits with 1 unless
oncelog's output is exactly right.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path

import pyarrow as pa
from rich.console import Console

from flights import audit, command, data, experiment, page, table, truth
from flights.audit import Result
from flights.experiment import ONCELOG, PARQUET, Pipeline
from flights.folders import Folders
from flights.kills import KILLS
from flights.progress import Progress
from flights.story import Story

BUILD = Path(__file__).resolve().parents[2] / "build"
WORK = BUILD / "flights"
PAGE = BUILD / "flights.html"


async def main(console: Console) -> int:
    shutil.rmtree(WORK, ignore_errors=True)
    with Progress(console) as progress:
        with progress.phase("The truth, from the CSV"):
            flights = data.read()
            expected = truth.late_departures(flights)

        with progress.phase(f"Two pipelines, each killed {len(KILLS)} times"):
            async with asyncio.TaskGroup() as beside_each_other:
                ours = beside_each_other.create_task(run(ONCELOG, progress, flights, expected))
                theirs = beside_each_other.create_task(run(PARQUET, progress, flights, expected))

        with progress.phase("The audit"):
            results = [judge(ONCELOG, ours.result(), expected), judge(PARQUET, theirs.result(), expected)]

    table.show(console, results)
    page.write(PAGE, flights.num_rows, results, progress.phases)
    console.print(f"Timeline and table: {PAGE}", soft_wrap=True)
    return 0 if results[0].findings.is_exact else 1


async def run(pipeline: Pipeline, progress: Progress, flights: pa.Table, expected: pa.Table) -> Story:
    with progress.lane(pipeline.name, flights.num_rows, expected.num_rows) as lane:
        return await experiment.run(pipeline, Folders(WORK / pipeline.name), lane)


def judge(pipeline: Pipeline, story: Story, expected: pa.Table) -> Result:
    with pipeline.reader(Folders(WORK / pipeline.name)) as reader:
        return Result(story, audit.judge(expected, reader.look(), len(story.half_batches)))


if __name__ == "__main__":
    sys.exit(command.run(main))
