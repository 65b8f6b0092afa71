"""``oncelog log``: dump, verify."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import click

from oncelog.cli.completion import TOPIC
from oncelog.cli.output import (
    as_json,
    moment,
    plural,
    printable,
    progress,
    readable,
    show,
    show_json,
    show_json_stream,
    show_table,
    size,
)
from oncelog.cli.owners import producer_text
from oncelog.cli.shell import ExitCode, Group, Settings
from oncelog.clients.dump import Dumped, DumpedBatch, DumpedMarker, DumpedRecord
from oncelog.log.verification import Problem
from oncelog.types import IsolationLevel, Outcome

STATES = {Outcome.COMMIT: "committed", Outcome.ABORT: "aborted", Outcome.OPEN: "undecided", None: "plain"}
COLOURS = {Outcome.COMMIT: "green", Outcome.ABORT: "red", Outcome.OPEN: "yellow", None: None}


@click.group(cls=Group, example="oncelog log tail flights --follow")
def log() -> None:
    """The log's contents: records, control markers, files."""


@log.command(example="oncelog log dump flights --partition 0 --from 100 --limit 20")
@click.argument("topic", type=TOPIC)
@click.option(
    "--isolation",
    type=click.Choice([level.value for level in IsolationLevel]),
    default=IsolationLevel.READ_COMMITTED.value,
    show_default=True,
    help="read_committed ends at the last stable offset and shows an aborted batch in one line; read_uncommitted "
    "goes to the log end and shows the records of aborted and undecided batches.",
)
@click.option("--partition", type=click.IntRange(min=0), help="Only this one.")
@click.option("--from", "start", type=click.IntRange(min=0), help="The first offset; needs one partition.")
@click.option("--limit", type=click.IntRange(min=0), help="The largest number of entries.")
@click.option("--headers", is_flag=True, help="Show the headers of records.")
@click.pass_obj
def dump(
    settings: Settings,
    topic: str,
    isolation: str,
    partition: int | None,
    start: int | None,
    limit: int | None,
    headers: bool,
) -> None:
    """Show everything in a topic, partition by partition.

    Shows records, aborted batches and control markers; `oncelog log tail` only shows records.

    Keys and values are shown as text if they are text, otherwise as hex.
    """
    with settings.open() as opened:
        found = opened.admin.dump(topic, isolation_level=isolation, partition=partition, start=start)
        entries = islice(found, limit)
        if settings.as_json:
            rows = (_json_of(entry, with_headers=headers) for entry in entries)
            show_json_stream({"topic": topic, "isolation_level": isolation}, "entries", rows)
        else:
            for line in _lines(entries, with_headers=headers):
                show(line)


def _lines(entries: Iterator[Dumped], *, with_headers: bool) -> Iterator[str]:
    for entry in entries:
        match entry:
            case DumpedRecord():
                yield _record_line(entry, with_headers=with_headers)
            case DumpedBatch():
                last = entry.base_offset + entry.count - 1
                place = _place(entry.topic, entry.partition, f"{entry.base_offset}-{last}")
                what = f"aborted batch of {plural(entry.count, 'record')} by producer {producer_text(entry.producer)}"
                yield f"{place}  {click.style(what, fg='red')}"
            case DumpedMarker():
                place = _place(entry.topic, entry.partition, str(entry.offset))
                what = f"{entry.outcome} marker of producer {producer_text(entry.producer)}, from {entry.first_offset}"
                yield f"{place}  {click.style(what, fg='cyan')}"


def _record_line(entry: DumpedRecord, *, with_headers: bool) -> str:
    record = entry.record
    state = click.style(f"{STATES[entry.outcome]:<9}", fg=COLOURS[entry.outcome])
    content = f"{readable(record.key)} = {readable(record.value)}"
    if with_headers and record.headers:
        content += f"  [{', '.join(f'{printable(name)}: {readable(value)}' for name, value in record.headers)}]"
    place = _place(record.topic, record.partition, str(record.offset))
    return f"{place}  {moment(record.timestamp_ms)}  {state}  {content}"


def _place(topic: str, partition: int, offsets: str) -> str:
    return f"{topic}-{partition} {offsets:>8}"


def _json_of(entry: Dumped, *, with_headers: bool) -> dict[str, Any]:
    match entry:
        case DumpedRecord():
            record: dict[str, Any] = as_json(entry.record)
            headers = [{"name": name, "value": value} for name, value in entry.record.headers]
            fields = {"kind": "record", **record, "state": STATES[entry.outcome]}
            fields |= {"headers": headers} if with_headers else {}
            if not with_headers:
                del fields["headers"]
            return fields | {"producer": entry.producer, "sequence": entry.sequence, "owner": entry.owner}
        case DumpedBatch():
            return {"kind": "aborted_batch", **as_json(entry)}
        case DumpedMarker():
            return {"kind": "marker", **as_json(entry)}


@log.command(example="oncelog log verify")
@click.pass_obj
def verify(settings: Settings) -> ExitCode:
    """Check that the log is complete and undamaged.

    Checks that the file of each index entry exists and has the right CRC and count, that no offset is missing, that
    all listed owners exist, and that all znodes can be read. Exit code 1 if anything is wrong.
    """
    with settings.open() as opened, progress("verifying") as advance:
        found = opened.admin.verify(on_progress=advance)
    if settings.as_json:
        show_json({"is_sound": not found.problems, **as_json(found)})
    else:
        rows = [_problem_cells(problem) for problem in found.problems]
        if rows:
            show_table(("damage", "where", "offsets", "file or znode, and what is wrong"), rows, empty="")
            show()
        show(
            f"{plural(found.partitions, 'partition')}, {plural(found.entries, 'index entry')}, "
            f"{plural(found.records, 'record')}, {size(found.size_bytes)}: "
            + (plural(len(found.problems), "problem") if rows else "all sound")
        )
    return ExitCode.PROBLEM if found.problems else ExitCode.OK


def _problem_cells(problem: Problem) -> tuple[object, ...]:
    where = None if problem.topic is None else f"{problem.topic}-{problem.partition}"
    has_range = problem.start_offset is not None and problem.end_offset is not None
    offsets = f"{problem.start_offset}-{(problem.end_offset or 0) - 1}" if has_range else None
    text = problem.detail if problem.place is None else f"{problem.place}: {problem.detail}"
    return problem.damage, where, offsets, text
