"""Real flights, a streaming query that is killed with SIGKILL again and again, and an audit of every row.

Two pipelines read the same flights from a topic, while a loader writes them in transactions and aborts every fifth.
Both look for late departures. One writes them with oncelog's sink; the other, as is usual today, appends parquet files
in foreachBatch. Both die at the same seven moments of a micro-batch. Then every row of both outputs is compared with
the CSV that the flights came from.

    python examples/flights_exactly_once.py        # or: make run

Writes build/flights.html; what the runs leave (logs, checkpoints, what the processes printed) is in build/flights.
Exits with 1 unless oncelog's output is exactly the truth.
"""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

from rich.console import Console

from flights import audit, data, experiment, page, table, truth
from flights.audit import Result
from flights.folders import Folders
from flights.processes import ProgramFailedError
from flights.progress import Progress

BUILD = Path(__file__).resolve().parents[1] / "build"


def main(console: Console) -> int:
    work = BUILD / "flights"
    shutil.rmtree(work, ignore_errors=True)

    flights = data.read()
    expected = truth.late_departures(flights)

    results = []
    with Progress(console, flights.num_rows, expected.num_rows) as progress:
        for pipeline in (experiment.ONCELOG, experiment.PARQUET):
            folders = Folders(work / pipeline.name)
            with progress.phase(f"{pipeline.name} under kill -9"):
                story = experiment.run(pipeline, folders, progress)
            with progress.phase(f"audit of {pipeline.name}"), pipeline.reader(folders) as reader:
                results.append(Result(story, audit.judge(expected, reader.look(), len(story.half_batches))))

    table.show(console, results)
    report = page.write(BUILD / "flights.html", flights.num_rows, results, progress.phases)
    console.print(f"The timeline is in {report.relative_to(Path.cwd())}")
    return 0 if results[0].findings.is_exact else 1


def _stop(*_: object) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)
    terminal = Console()
    try:
        sys.exit(main(terminal))
    except ProgramFailedError as problem:
        terminal.print(str(problem), style="red", markup=False)
        sys.exit(2)
    except KeyboardInterrupt:
        terminal.print("Stopped; nothing is left running.")
        sys.exit(130)
