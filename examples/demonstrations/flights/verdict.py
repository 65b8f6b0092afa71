"""The end of a run whose only pipeline is oncelog's: the audit, and what the log's own verification finds."""

from __future__ import annotations

import pyarrow as pa
from rich.console import Console

from flights import audit, table
from flights.audit import Result
from flights.folders import Folders
from flights.progress import Progress
from flights.reading import TopicReader
from flights.story import Story


def tell(console: Console, progress: Progress, story: Story, folders: Folders, expected: pa.Table) -> int:
    """Judge a run and print what was found; returns the exit status of the example.

    Args:
        console: to print on.
        progress: of the run, which gets a phase more.
        story: of the run.
        folders: of the run.
        expected: the truth.
    """
    with progress.phase("The audit"), TopicReader(folders) as reader, folders.open_log() as log:
        findings = audit.judge(expected, reader.look(), len(story.half_batches))
        problems = log.admin.verify().problems
    table.show(console, [Result(story, findings)])
    console.print(
        f"{story.transactions} transactions were loaded, {story.aborted} of them aborted. The reader beside the query "
        f"looked {story.looks} times. The log's own verification found {len(problems)} problems.",
        highlight=False,
        soft_wrap=True,
    )
    for problem in problems:
        console.print(f"  {problem}", style="red", markup=False)
    return 0 if findings.is_exact and not problems else 1
