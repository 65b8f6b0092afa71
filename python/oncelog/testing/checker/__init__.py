"""Judges a history of what clients of a log did: a log that is exactly once has no history with an anomaly.

    report = judge(read(["copier.jsonl", "reader.jsonl"]))
    if not report.is_clean:
        raise SystemExit(str(report))

or ``python -m oncelog.testing.checker FILE...``. What is looked for is in `findings.Anomaly`; what a history is, in
`oncelog.testing.history`. The checker knows nothing of how a log works: it believes only what clients were answered.
An unknown outcome may be either, but of a whole transaction. What a history does not tell (no final reader, no plans)
is not judged: `Report.counts` says what there was.

Time and memory grow with the runs of a history, not with its records.
"""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.testing.checker.columns import Columns, Outcome
from oncelog.testing.checker.findings import Anomaly, Finding, Report
from oncelog.testing.checker.groups import GroupChecks
from oncelog.testing.checker.places import Places
from oncelog.testing.checker.readers import ReaderChecks
from oncelog.testing.checker.records import RecordChecks
from oncelog.testing.history import Event

__all__ = ["Anomaly", "Finding", "Report", "judge"]


def judge(events: Iterable[Event]) -> Report:
    """Look for anomalies.

    Args:
        events: of all processes; those of one process in their order, a completion behind its invocation.

    Raises:
        UsageError: it is no history: a call is completed twice or was never made, or a number is out of range.
    """
    columns = Columns(events)
    places = Places(columns)
    report = Report(_counts(columns, places))
    records = RecordChecks(columns, places)
    for checks in (records, ReaderChecks(columns, places), GroupChecks(columns, places, records.is_judged())):
        for finding in checks.all():
            report.add(finding)
    return report


def _counts(columns: Columns, places: Places) -> dict[str, int]:
    committed = places.outcome[places.transaction] == Outcome.COMMITTED
    outcomes = [transaction.outcome for transaction in columns.transactions]
    return {
        "events": columns.events,
        "transactions": len(outcomes),
        "committed": outcomes.count(Outcome.COMMITTED),
        "aborted": outcomes.count(Outcome.ABORTED),
        "of unknown outcome": outcomes.count(Outcome.UNKNOWN),
        "records written": int(columns.writes["count"].sum()),
        "records committed": int(places.count[places.written.segment[committed]].sum()),
        "records in the log": int(places.count[places.is_seen].sum()),
        "records read": int(columns.reads["count"].sum()),
        "readers": len(columns.readers),
        "polls": len(columns.polls),
        "plans": len(columns.plans),
        "group fetches": len(columns.fetches),
    }
