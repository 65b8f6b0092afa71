"""Every metric, as a table: docs/reference/metrics.md is made from it, and what is served is checked against it.

Names follow Prometheus: base units, a counter ends in ``_total``. No metric is about single records or transactional
ids, so the number of series grows with partitions, groups and sinks only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class MetricKind(StrEnum):
    """Prometheus' types."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: as a query names it. A unit is its last word, before ``_total``.
        doc: what its value says.
        labels: their names, in the order in which values are given.
        alert: the name of the alert that it is for, if there is one.
    """

    name: str
    kind: MetricKind
    doc: str
    labels: tuple[str, ...] = ()
    alert: str | None = None


def gauge(name: str, doc: str, *labels: str, alert: str | None = None) -> Metric:
    """A value that goes up and down."""
    return Metric(name, MetricKind.GAUGE, doc, labels, alert)


def counter(name: str, doc: str, *labels: str, alert: str | None = None) -> Metric:
    """A value that only grows, until its process ends."""
    return Metric(name, MetricKind.COUNTER, doc, labels, alert)


_PARTITION: Final = ("topic", "partition")
_OF_GROUP: Final = ("group", *_PARTITION)
_LEDGER: Final = ("target", "prefix")
_SINK: Final = ("query", "target", "prefix")
_SOURCE: Final = ("query", "source")

# The exporter itself --------------------------------------------------------------------------------------------------

UP = gauge(
    "oncelog_up",
    "1 if the exporter can read what it watches; if 0, it serves no metrics of that",
    alert="OncelogExporterCannotRead",
)
READS = counter("oncelog_exporter_reads_total", "Reads of what the exporter watches; at most one per second")
READ_ERRORS = counter("oncelog_exporter_read_errors_total", "Reads that failed or took too long", "error")
READ_SECONDS = gauge("oncelog_exporter_read_seconds", "Duration of the last successful read")
BUILD_INFO = gauge(
    "oncelog_build_info", "Always 1; the label is the version of oncelog that serves the page", "version"
)

EXPORTER: Final = (UP, READS, READ_ERRORS, READ_SECONDS, BUILD_INFO)

# Logs -----------------------------------------------------------------------------------------------------------------

LOG_INFO = gauge("oncelog_log_info", "Always 1; the label is the id of the log", "cluster_id")
TOPICS = gauge("oncelog_topics", "Number of topics")
TRANSACTIONAL_IDS = gauge("oncelog_transactional_ids", "Number of transactional ids in the log")
LOG_START = gauge("oncelog_partition_log_start_offset", "The first offset that retention has not removed", *_PARTITION)
LAST_STABLE = gauge(
    "oncelog_partition_last_stable_offset",
    "Last stable offset of the partition: where a read_committed reader of this partition alone stops",
    *_PARTITION,
)
LOG_END = gauge("oncelog_partition_log_end_offset", "The offset of the next record", *_PARTITION)
SIZE = gauge("oncelog_partition_size_bytes", "Size of the partition's record batches, compressed", *_PARTITION)
INDEX_FILES = gauge("oncelog_partition_index_files", "Index files that the partition's znode lists", *_PARTITION)
TAIL = gauge("oncelog_partition_unindexed_appends", "Appends that are not in an index file yet", *_PARTITION)
UNDECIDED_AGE = gauge(
    "oncelog_topic_undecided_age_seconds",
    "Age of the oldest open transaction or round with data in the topic, which blocks its readers; 0 for none",
    "topic",
    alert="OncelogReadersStandStill",
)
TRANSACTIONS = gauge(
    "oncelog_transactions",
    "Transactions of producers with data or offsets, by state: open, overdue (open beyond the timeout), "
    "prepared, decided (control markers not written yet)",
    "state",
    alert="OncelogTransactionHangs",
)
ROUNDS = gauge(
    "oncelog_rounds",
    "Rounds of micro-batches with data or offsets, by state: open, overdue, decided (control markers not written yet)",
    "state",
    alert="OncelogTransactionHangs",
)
OLDEST_PREPARED = gauge(
    "oncelog_transactions_oldest_prepared_age_seconds",
    "Age of the oldest prepared transaction, which never times out; 0 for none",
    alert="OncelogPreparedForLong",
)
GROUPS = gauge("oncelog_groups", "Number of consumer groups")
GROUP_OFFSET = gauge("oncelog_group_committed_offset", "The next offset that the group reads", *_OF_GROUP)
GROUP_LAG = gauge(
    "oncelog_group_lag_offsets",
    "Offsets between the committed one and the last stable offset; 0 if these are only markers and aborted records",
    *_OF_GROUP,
    alert="OncelogLagGrows",
)
GROUP_LAG_TO_END = gauge(
    "oncelog_group_lag_to_end_offsets", "The same up to the log end, including undecided data", *_OF_GROUP
)
GROUP_UNDECIDED = gauge("oncelog_group_undecided_partitions", "Partitions with an undecided offset", "group")
GROUP_BEYOND = gauge(
    "oncelog_group_partitions_beyond_log",
    "Partitions whose committed offset is beyond the log end, as after restoring an older copy of the log",
    "group",
    alert="OncelogGroupBeyondLog",
)
GENERATION = gauge("oncelog_collection_generation", "Generation of garbage collection, which `oncelog gc` raises")
GENERATION_AGE = gauge(
    "oncelog_collection_generation_age_seconds",
    "Time since the generation was raised; large if `oncelog gc` does not run, or a writer blocks it",
    alert="OncelogUpkeepMissing",
)
DEAD_FILES = gauge(
    "oncelog_collection_dead_files", "Files that the last `oncelog gc` found unreferenced and left for a later run"
)
DEAD_BYTES = gauge("oncelog_collection_dead_size_bytes", "Size of these files, which a later `oncelog gc` deletes")

LOG: Final = (
    LOG_INFO,
    TOPICS,
    TRANSACTIONAL_IDS,
    LOG_START,
    LAST_STABLE,
    LOG_END,
    SIZE,
    INDEX_FILES,
    TAIL,
    UNDECIDED_AGE,
    TRANSACTIONS,
    ROUNDS,
    OLDEST_PREPARED,
    GROUPS,
    GROUP_OFFSET,
    GROUP_LAG,
    GROUP_LAG_TO_END,
    GROUP_UNDECIDED,
    GROUP_BEYOND,
    GENERATION,
    GENERATION_AGE,
    DEAD_FILES,
    DEAD_BYTES,
)

# Ledgers --------------------------------------------------------------------------------------------------------------

BATCH_LAST = gauge("oncelog_batch_last_decided_id", "Id of the last decided batch; absent before the first", *_LEDGER)
BATCH_NEWEST = gauge("oncelog_batch_newest_id", "Id of the batch of the newest round", *_LEDGER)
BATCH_ROUND = gauge("oncelog_batch_round", "Number of the newest round, which increases with each attempt", *_LEDGER)
BATCH_STATE = gauge(
    "oncelog_batch_state",
    "1 for the state of the newest round, else 0: undecided, decided (not visible yet), visible, aborted",
    *_LEDGER,
    "state",
)
BATCH_UNDECIDED = gauge(
    "oncelog_batch_undecided_age_seconds",
    "Time since the driver last renewed the newest round, if it is undecided; else 0",
    *_LEDGER,
    alert="OncelogBatchUndecided",
)
BATCH_INVISIBLE = gauge(
    "oncelog_batch_decided_not_visible_age_seconds",
    "Time since the newest round was decided, if its batch is not visible yet; else 0",
    *_LEDGER,
    alert="OncelogBatchNotVisible",
)
BATCH_PARTS = gauge("oncelog_batch_parts", "Parts of the newest decided batch, such as files", *_LEDGER)

LEDGER: Final = (BATCH_LAST, BATCH_NEWEST, BATCH_ROUND, BATCH_STATE, BATCH_UNDECIDED, BATCH_INVISIBLE, BATCH_PARTS)

# Queries, in Spark's driver -------------------------------------------------------------------------------------------

QUERY_ACTIVE = gauge("oncelog_query_active", "1 while the query runs, 0 after it ended", "query")
QUERY_FAILURES = counter(
    "oncelog_query_failures_total",
    "Number of times that the query ended with an error",
    "query",
    alert="OncelogQueryFailed",
)
QUERY_PROGRESS = gauge(
    "oncelog_query_last_progress_timestamp_seconds", "Time of the query's last progress report", "query"
)
QUERY_BATCH = gauge("oncelog_query_last_batch_id", "Id of the batch in that report", "query")
QUERY_ROWS = counter("oncelog_query_input_rows_total", "Rows that the query has read", "query")
SOURCE_BEHIND = gauge(
    "oncelog_source_offsets_behind",
    "Offsets between the end of the last batch and the end of what the query may read, in the partition with the most",
    *_SOURCE,
    alert="OncelogLagGrows",
)
SOURCE_BEHIND_MEAN = gauge("oncelog_source_offsets_behind_mean", "The same, averaged over all partitions", *_SOURCE)
SOURCE_HELD = gauge(
    "oncelog_source_offsets_held",
    "Offsets beyond the last stable offset, which open transactions block (Kafka source only)",
    *_SOURCE,
)
SINK_BATCHES = counter(
    "oncelog_sink_batches_total",
    "Batches by result: written, replayed (decided before, and not written again), refused (by the ledger, because a "
    "newer run or another query writes), failed",
    *_SINK,
    "result",
    alert="OncelogBatchRefused",
)
SINK_ERRORS = counter("oncelog_sink_errors_total", "Errors of the sink by class", *_SINK, "error")
SINK_ROWS = counter("oncelog_sink_rows_total", "Rows written", *_SINK)
SINK_BYTES = counter("oncelog_sink_bytes_total", "Compressed size of these rows, if the target knows it", *_SINK)
SINK_PHASE = Metric(
    "oncelog_sink_phase_seconds",
    MetricKind.HISTOGRAM,
    "Duration of each phase of a batch: write, prepare, decide, commit",
    (*_SINK, "phase"),
)
SINK_PARTICIPANTS = counter("oncelog_sink_participants_total", "Transactions or files in decided batches", *_SINK)
SINK_REWRITTEN = counter(
    "oncelog_sink_participants_rewritten_total",
    "Participants that were lost after the decision and rewritten",
    *_SINK,
    alert="OncelogParticipantsLost",
)
SINK_ABORTED = counter(
    "oncelog_sink_transactions_aborted_total",
    "Aborted transactions of retries, speculative copies and older runs",
    *_SINK,
)

QUERY: Final = (
    QUERY_ACTIVE,
    QUERY_FAILURES,
    QUERY_PROGRESS,
    QUERY_BATCH,
    QUERY_ROWS,
    SOURCE_BEHIND,
    SOURCE_BEHIND_MEAN,
    SOURCE_HELD,
    SINK_BATCHES,
    SINK_ERRORS,
    SINK_ROWS,
    SINK_BYTES,
    SINK_PHASE,
    SINK_PARTICIPANTS,
    SINK_REWRITTEN,
    SINK_ABORTED,
)

# Stores, in any process -----------------------------------------------------------------------------------------------

STORE_STEP = Metric(
    "oncelog_store_step_seconds",
    MetricKind.HISTOGRAM,
    "Duration of steps on a znode store, including reads, the write, and retries after a conflict, by result: "
    "done, failed",
    ("result",),
)
STORE_WRITE = Metric(
    "oncelog_store_write_seconds",
    MetricKind.HISTOGRAM,
    "Duration of the writes of steps, one round trip each, by result: written, conflict (another write came first, so "
    "the step is retried), unanswered (the write may have happened; the step is retried), failed",
    ("result",),
)

STORE: Final = (STORE_STEP, STORE_WRITE)


def render_markdown_table(metrics: Iterable[Metric]) -> str:
    """The metrics as a Markdown table."""
    lines = ["| metric | type | labels | meaning | alert |", "|---|---|---|---|---|"]
    for one in metrics:
        labels = ", ".join(f"`{label}`" for label in one.labels) or "-"
        alert = "-" if one.alert is None else f"`{one.alert}`"
        lines.append(f"| `{one.name}` | {one.kind} | {labels} | {one.doc} | {alert} |")
    return "\n".join(lines) + "\n"
