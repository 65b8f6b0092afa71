"""Alerts on the metrics of the catalogue, and the file of rules that Prometheus reads."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from oncelog.version import REPOSITORY, __version__

PAGES: Final = (f"{REPOSITORY}/blob/v{__version__}/" if REPOSITORY else "") + "docs/operations/symptoms"
"""Where the runbook of this version has a page for each symptom: its address, or its folder in the source tree."""


HELD_SECONDS: Final = 900
UNDECIDED_SECONDS: Final = 3600
INVISIBLE_SECONDS: Final = 300
UPKEEP_SECONDS: Final = 86_400
"""How old an open transaction, a batch that is not decided, a decided one that is not visible, and the last upkeep may
be before an alert fires."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert.

    Attributes:
        name: as the catalogue's metrics name it.
        expr: in PromQL; true where something is wrong.
        lasts: how long it must be true.
        severity: ``page`` for what loses time or data now, ``ticket`` for what can wait until morning.
        summary: what is wrong, and what to do first. Prometheus fills in labels.
        page: of the runbook: the name of its file, without ``.md``.
    """

    name: str
    expr: str
    lasts: str
    severity: str
    summary: str
    page: str

    @property
    def runbook_url(self) -> str:
        """Where its page can be read, which Prometheus sends along with the alert."""
        return f"{PAGES}/{self.page}.md"


def grown(counter: str, window: str) -> str:
    """The expression that a counter grew, also if it was not there before: `increase` does not see its first value."""
    return f"(({counter} - {counter} offset {window}) or {counter}) > 0"


ALERTS: Final = (
    Alert(
        "OncelogExporterCannotRead",
        "oncelog_up == 0",
        "2m",
        "page",
        "The exporter cannot read what it watches: see its log for the error.",
        "exporter-cannot-read",
    ),
    Alert(
        "OncelogReadersStandStill",
        f"oncelog_topic_undecided_age_seconds > {HELD_SECONDS}",
        "1m",
        "page",
        "Readers of {{ $labels.topic }} are stuck at an open transaction: run oncelog topic describe.",
        "readers-stand-still",
    ),
    Alert(
        "OncelogTransactionHangs",
        'oncelog_transactions{state="overdue"} > 0 or oncelog_rounds{state="overdue"} > 0',
        "5m",
        "page",
        "A transaction exceeded its timeout and nobody aborted it: run oncelog gc.",
        "transaction-hangs",
    ),
    Alert(
        "OncelogPreparedForLong",
        "oncelog_transactions_oldest_prepared_age_seconds > 3600",
        "5m",
        "page",
        "A prepared transaction has waited for an hour and never times out: find the program that holds its token.",
        "prepared-transaction",
    ),
    Alert(
        "OncelogLagGrows",
        "(min_over_time(oncelog_group_lag_offsets[15m]) > 0 and delta(oncelog_group_lag_offsets[15m]) > 0) or "
        "(min_over_time(oncelog_source_offsets_behind[15m]) > 0 and delta(oncelog_source_offsets_behind[15m]) > 0)",
        "15m",
        "ticket",
        "{{ $labels.group }}{{ $labels.query }} falls further behind.",
        "lag-grows",
    ),
    Alert(
        "OncelogGroupBeyondLog",
        "oncelog_group_partitions_beyond_log > 0",
        "5m",
        "page",
        "{{ $labels.group }} has committed offsets beyond the log end: was the log restored from an older copy?",
        "group-beyond-log",
    ),
    Alert(
        "OncelogUpkeepMissing",
        f"oncelog_collection_generation_age_seconds > {UPKEEP_SECONDS}",
        "1h",
        "ticket",
        "oncelog gc has not run for a day, or a writer keeps it from deleting files: run oncelog gc --dry-run.",
        "upkeep-missing",
    ),
    Alert(
        "OncelogBatchUndecided",
        f"oncelog_batch_undecided_age_seconds > {UNDECIDED_SECONDS}",
        "5m",
        "ticket",
        "A batch of {{ $labels.prefix }} has been undecided for an hour: check that its query is running.",
        "batch-undecided",
    ),
    Alert(
        "OncelogBatchNotVisible",
        f"oncelog_batch_decided_not_visible_age_seconds > {INVISIBLE_SECONDS}",
        "1m",
        "page",
        "A batch of {{ $labels.prefix }} is decided and not visible: start its query, or run oncelog batch complete.",
        "batch-not-visible",
    ),
    Alert(
        "OncelogQueryFailed",
        grown("oncelog_query_failures_total", "10m"),
        "0m",
        "page",
        "The query {{ $labels.query }} ended with an error.",
        "query-failed",
    ),
    Alert(
        "OncelogBatchRefused",
        grown('oncelog_sink_batches_total{result="refused"}', "10m"),
        "0m",
        "page",
        "The ledger refuses batches of {{ $labels.prefix }}: the query's error says what to do.",
        "batch-refused",
    ),
    Alert(
        "OncelogParticipantsLost",
        grown("oncelog_sink_participants_rewritten_total", "1h"),
        "0m",
        "ticket",
        "Parts of decided batches of {{ $labels.prefix }} were lost and written again: raise the transaction timeout.",
        "parts-lost",
    ),
)


def render_rules(alerts: Iterable[Alert], group: str = "oncelog") -> str:
    """The file of rules, in YAML: texts are quoted as in JSON, which YAML reads."""
    lines = ["groups:", f"  - name: {group}", "    rules:"]
    for one in alerts:
        lines += [
            f"      - alert: {one.name}",
            f"        expr: {json.dumps(one.expr)}",
            f"        for: {one.lasts}",
            f"        labels: {{severity: {one.severity}}}",
            f"        annotations: {{summary: {json.dumps(one.summary)}, runbook_url: {json.dumps(one.runbook_url)}}}",
        ]
    return "\n".join(lines) + "\n"


def render_markdown_table(alerts: Iterable[Alert]) -> str:
    """The alerts as a Markdown table, with links to their pages."""
    lines = ["| alert | severity | true for | expression |", "|---|---|---|---|"]
    lines += [
        f"| [`{one.name}`](../operations/symptoms/{one.page}.md) | {one.severity} | {one.lasts} | `{one.expr}` |"
        for one in alerts
    ]
    return "\n".join(lines) + "\n"
