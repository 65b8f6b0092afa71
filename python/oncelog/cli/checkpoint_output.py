"""What the commands ``oncelog checkpoint`` show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from oncelog.checkpoints.checking import Finding, Places
from oncelog.checkpoints.folder import Checkpoint
from oncelog.checkpoints.positions import Position, SourceKind
from oncelog.checkpoints.renewal import NewCheckpoint
from oncelog.checkpoints.standing import SinkLedger, standing_of
from oncelog.cli.output import duration, plural, printable, quoted, show, show_fields, show_json, show_table
from oncelog.cli.shell import Settings
from oncelog.znodes.clock import wall_ms


def show_checkpoint(settings: Settings, found: Checkpoint, ledgers: Sequence[SinkLedger]) -> None:
    """Show what a checkpoint says, and the ledgers of its query."""
    standing = standing_of(found, ledgers)
    if settings.as_json:
        show_json({"checkpoint": _as_json(found), "standing": standing, "ledgers": ledgers})
        return
    newest = None if found.planned is None else found.entries.get(found.planned)
    show_fields(
        [
            ("folder", found.storage.location),
            ("query", found.query_id),
            ("offset log", None if newest is None else newest.version),
            ("planned batch", found.planned),
            ("committed batch", found.committed),
            ("a restart", _restart(found)),
            ("its standing", standing.value),
            ("newest file", f"{duration(_age_ms(found))} old"),
            ("state of", ", ".join(f"operator {one}" for one in found.operators) or None),
        ]
    )
    _show_sources(found)
    for ledger in ledgers:
        show()
        show_fields(
            [
                ("ledger", f"{ledger.prefix} of {ledger.target}"),
                ("last decided batch", ledger.last_batch_id),
                ("newest round", None if ledger.batch_id is None else f"batch {ledger.batch_id}, {ledger.outcome}"),
                ("a restart", ledger.recovery),
            ]
        )
    for one in found.damaged:
        show(f"damaged: {printable(one.file)} is {one.damage}: {printable(one.detail)}")


def _restart(found: Checkpoint) -> str:
    return f"runs batch {found.next_batch} again" if found.runs_again else f"plans batch {found.next_batch}"


def _age_ms(found: Checkpoint) -> int:
    return max(0, wall_ms() - found.newest_ms)


def _show_sources(found: Checkpoint) -> None:
    for source in found.known_sources:
        start, end, known = found.start(source), found.end(source), found.newest(source)
        show()
        initial = [("initial", found.initial[source])] if source in found.initial else []
        show_fields([("source", source), ("kind", None if known is None else known.kind), *initial])
        if known is not None and known.kind is SourceKind.OTHER:
            show_fields([("start", None if start is None else start.text), ("end", None if end is None else end.text)])
        elif known is not None:
            _show_rows(_rows(start, end))


def _show_rows(rows: Sequence[dict[str, Any]]) -> None:
    cells = [(row["partition"], row["start"], row["end"], row["topic"]) for row in rows]
    show_table(("partition>", "start>", "end>", "topic"), cells, empty="no topic yet")
    ids = {row["topic"]: row["topic_id"] for row in rows if row["topic_id"] is not None}
    if ids:
        show()
        show_table(("id", "of the topic"), [(topic_id, name) for name, topic_id in ids.items()], empty="")


def _rows(start: Position | None, end: Position | None) -> list[dict[str, Any]]:
    """Every partition with the offsets between which the next batch reads; the end is None if it is not planned."""
    starts = {} if start is None else start.everywhere
    ends = {} if end is None else end.everywhere
    found = []
    for name in sorted(starts.keys() | ends.keys()):
        first, last = starts.get(name), ends.get(name)
        partitions = {**({} if first is None else first.offsets), **({} if last is None else last.offsets)}
        known = last or first
        found += [
            {
                "topic": name,
                "partition": number,
                "start": None if first is None else first.offsets.get(number),
                "end": None if last is None else last.offsets.get(number),
                "topic_id": None if known is None else known.topic_id,
            }
            for number in sorted(partitions)
        ]
    return found


def _as_json(found: Checkpoint) -> dict[str, Any]:
    newest = None if found.planned is None else found.entries.get(found.planned)
    sources = []
    for source in found.known_sources:
        start, end, known = found.start(source), found.end(source), found.newest(source)
        sources.append(
            {
                "source": source,
                "kind": None if known is None else known.kind,
                "cluster_id": None if known is None else known.cluster_id,
                "partitions": _rows(start, end),
                "start": None if start is None else start.text,
                "end": None if end is None else end.text,
                "initial": found.initial.get(source),
            }
        )
    return {
        "folder": found.storage.location,
        "query_id": found.query_id,
        "offset_log": None if newest is None else newest.version,
        "planned_batch": found.planned,
        "committed_batch": found.committed,
        "next_batch": found.next_batch,
        "runs_again": found.runs_again,
        "newest_file_age_ms": _age_ms(found),
        "operators": found.operators,
        "sources": sources,
        "damaged": found.damaged,
    }


def show_findings(
    settings: Settings, found: Checkpoint, findings: Sequence[Finding], ledgers: Sequence[SinkLedger], places: Places
) -> None:
    """Show what does not fit, and what was not compared."""
    known = map(found.newest, found.sources)
    kinds = sorted({one.kind for one in known if one is not None} - places.keys())
    if settings.as_json:
        document = {"fits": not findings, "findings": findings, "not_compared": kinds}
        show_json({**document, "ledgers": [one.prefix for one in ledgers]})
        return
    for one in findings:
        show_fields(
            [
                ("problem", one.problem),
                ("where", one.where),
                ("found", one.found),
                ("a restart", one.restart),
                ("what to do", one.remedy),
            ]
        )
        show()
    for kind in kinds:
        show(f"not compared: sources of {kind}")
    if not ledgers:
        show("not compared: no ledger of this query was named")
    show(f"{plural(len(findings), 'problem')}" if findings else "it fits")


def show_new(settings: Settings, old: Checkpoint, done: NewCheckpoint) -> None:
    """Show what was written."""
    if settings.as_json:
        show_json({"written": done})
        return
    show(f"wrote {quoted(done.folder)}: the query continues with batch {done.next_batch}")
    for source in done.changed:
        show(f"source {printable(source)} has other offsets than before")
    if done.committed_batch is not None:
        show(f"batch {done.committed_batch} is decided, so it is committed there")
    if done.dropped_batch is not None:
        show(f"batch {done.dropped_batch} was not decided, so it is not there")
    for one in done.lost:
        show(f"lost: {printable(one.topic)}-{one.partition} from {one.start} to {one.end}")
    for one in done.left_behind:
        show(f"not read: {printable(one.topic)}-{one.partition} of the former topic from {one.start} on")
    for name in done.operators:
        show(f"the state of operator {name} was copied as it is")
    show(f"start the query only from there, never again from {quoted(old.storage.location)}")
