"""``oncelog gc``: regular maintenance of a log, since there is no server that does it."""

from __future__ import annotations

from itertools import count

import click

from oncelog.cli.output import as_json, duration, plural, progress, show, show_json, size
from oncelog.cli.shell import Command, Settings
from oncelog.clients.maintenance import UpkeepReport


@click.command(cls=Command, example="oncelog gc --dry-run")
@click.option("--dry-run", is_flag=True, help="Show which records and files would be removed, and change nothing.")
@click.pass_obj
def gc(settings: Settings, dry_run: bool) -> None:
    """Do the regular maintenance of a log.

    Aborts transactions that have exceeded their timeout, writes the control markers of decided ones, applies the
    retention of all topics, expires idle transactional ids and offsets, and removes unreferenced files.

    Safe at any time, even while others write and read. A file is removed at the earliest an hour after a run found it
    unreferenced, and never while a write that began before is still running. Run it regularly, for example every hour.
    """
    with settings.open() as log, progress("looking at files") as advance:
        total, done = log.admin.count_files(), count(1)
        report = log.admin.upkeep(dry_run=dry_run, on_file=lambda name: advance(next(done), total))
    if settings.as_json:
        show_json({"dry_run": dry_run, **as_json(report)})
        return
    for line in _story(report, dry_run=dry_run):
        show(line)


def _story(report: UpkeepReport, *, dry_run: bool) -> list[str]:
    files = report.collected
    would = "would remove" if dry_run else "removed"
    lines = [f"aborted {overdue.owner}: overdue" for overdue in report.timed_out]
    lines += [
        f"{would} {plural(part.records, 'record')} ({size(part.size_bytes)}) of {part.partition} by retention; "
        f"the log begins at {part.log_start}"
        for part in report.removed
    ]
    if not dry_run:
        expired = [
            (len(report.expired_transactional_ids), "transactional id"),
            (len(report.expired_groups), "group"),
            (report.expired_producers, "idle producer"),
        ]
        lines += [f"expired {plural(number, noun)}" for number, noun in expired if number]
    lines.append(f"{would} {plural(len(files.removed), 'file')} ({size(files.size_bytes)})")
    lines += [f"  {name}" for name in files.removed] if dry_run else []
    lines += [
        f"current files are kept while {hold.writer} is running, for {duration(hold.age_ms)} so far: {hold.owner}"
        for hold in files.held_by
    ]
    if files.waiting:
        lines.append(f"{plural(len(files.waiting), 'unreferenced file')} must wait for a later run")
    lines += [f"not a file of oncelog, ignored: {name}" for name in files.foreign]
    return lines
