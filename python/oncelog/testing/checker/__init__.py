"""Checks a history of what the clients of a log did: an exactly-once log has no history with an anomaly.

    report = judge(read(["copier.jsonl", "reader.jsonl"]))
    if not report.is_clean:
        raise SystemExit(str(report))

or ``python -m oncelog.testing.checker FILE...``. `findings.Anomaly` lists what it looks for, and
`oncelog.testing.history` describes histories. The checker does not know how a log works: it uses only what clients were
answered. An unknown outcome may be either one, but the same for the whole transaction. What a history does not contain
(a final reader, plans) is not judged; `Report.counts` says what it contained.

Time and memory grow with the number of runs in a history, not with the number of records.
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
        events: of all processes; those of one process in order, with each completion after its invocation.

    Raises:
        UsageError: this is not a history: a completed call was never made or completed before, or a number is out of
            range.
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
