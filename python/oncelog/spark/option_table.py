"""The table of the options of the embedded log's source and sinks; kit/options.py explains the rows."""

from __future__ import annotations

from collections.abc import Callable

from oncelog import limits
from oncelog.spark.kit import values
from oncelog.spark.kit.options import (
    EVERYWHERE,
    SINKS,
    SOURCE,
    STREAMING_SINKS,
    Option,
    Use,
    sink_name_option,
    takeover_option,
)
from oncelog.spark.positions import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    OFFSETS_SHAPE,
    AtOffsets,
    Bound,
    NoMatch,
    Position,
    parse_assignment,
    parse_offsets,
    parse_timestamps,
)
from oncelog.types import IsolationLevel

CODECS = ("null", "lz4", "zstd")


def _isolation_level(text: str) -> IsolationLevel:
    return IsolationLevel(values.choice(*IsolationLevel)(text))


def _no_match(text: str) -> NoMatch:
    return NoMatch(values.choice(*NoMatch)(text))


def _position(*bounds: Bound, forbidden_offset: int | None = None) -> Callable[[str], Position]:
    """A parser of positions: one of the given names, or offsets as JSON without `forbidden_offset`."""
    expected = f"{', '.join(bounds)}, or JSON of the shape {OFFSETS_SHAPE}"
    if forbidden_offset is not None:
        expected += f" without {forbidden_offset}"

    def parse(text: str) -> Position:
        name = text.strip().lower()
        if name in bounds:
            return Bound(name)
        try:
            offsets = parse_offsets(text)
        except ValueError:
            raise ValueError(expected) from None
        if forbidden_offset in offsets.values():
            raise ValueError(expected)
        return AtOffsets(offsets)

    return parse


_STREAM_READ = frozenset({Use.STREAM_READ})
_BATCH_READ = frozenset({Use.BATCH_READ})
_STREAM_WRITE = frozenset({Use.STREAM_WRITE})

OPTIONS: tuple[Option, ...] = (
    Option(
        "path",
        EVERYWHERE,
        values.text,
        "Folder of the log, or `s3://bucket/folder` together with `znodes`.",
        default_doc="required",
    ),
    Option(
        "znodes",
        EVERYWHERE,
        values.text,
        "Where the metadata is: `postgresql://user@host:port/database` or `zk://host:port,.../chroot` for several "
        "hosts, `s3` next to the files of a log in a bucket with one or two writers, or `sqlite:/a/file`.",
        default_doc="SQLite in `path`",
    ),
    Option("subscribe", SOURCE, values.words, "Topics to read, separated by commas.", default_doc="one of these three"),
    Option(
        "subscribePattern",
        SOURCE,
        values.pattern,
        "Reads all topics whose whole name matches, including topics created later.",
    ),
    Option("assign", SOURCE, parse_assignment, 'Partitions to read: `{"topic":[0,1]}`.'),
    Option(
        "startingOffsets",
        _STREAM_READ,
        _position(Bound.EARLIEST, Bound.LATEST, Bound.GROUP),
        "Where a new query starts: `earliest`, `latest`, `group` (what `groupId` committed), or offsets as JSON, "
        "-2 for the earliest and -1 for the latest. A query with a checkpoint continues where it was.",
        default=Bound.LATEST,
    ),
    Option(
        "startingOffsets",
        _BATCH_READ,
        _position(Bound.EARLIEST, Bound.GROUP, forbidden_offset=LATEST_OFFSET),
        "Where the read starts: `earliest`, `group`, or offsets as JSON.",
        default=Bound.EARLIEST,
    ),
    Option("startingTimestamp", SOURCE, values.timestamp_ms, "Starts at the first record at or after this time (ms)."),
    Option(
        "startingOffsetsByTimestamp", SOURCE, parse_timestamps, 'The same for each partition: `{"topic":{"0":1000}}`.'
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        SOURCE,
        _no_match,
        "For a partition without a record at or after the time: `error`, or `latest` to start at its end.",
        default=NoMatch.ERROR,
    ),
    Option(
        "endingOffsets",
        _BATCH_READ,
        _position(Bound.LATEST, forbidden_offset=EARLIEST_OFFSET),
        "Where the read ends: `latest`, or offsets as JSON, -1 for the latest.",
        default=Bound.LATEST,
    ),
    Option(
        "endingTimestamp", _BATCH_READ, values.timestamp_ms, "Ends before the first record at or after this time (ms)."
    ),
    Option("endingOffsetsByTimestamp", _BATCH_READ, parse_timestamps, "The same for each partition."),
    Option(
        "isolationLevel",
        SOURCE,
        _isolation_level,
        "`read_committed`, or `read_uncommitted` to see open and aborted transactions too.",
        default=IsolationLevel.READ_COMMITTED,
    ),
    Option(
        "maxOffsetsPerTrigger", SOURCE, values.positive, "The most rows of one micro-batch. A batch read ignores it."
    ),
    Option(
        "minOffsetsPerTrigger",
        SOURCE,
        values.positive,
        "Waits until this many rows are available. Batch reads, `availableNow` and `once` do not wait.",
    ),
    Option(
        "maxTriggerDelay",
        SOURCE,
        values.duration_ms,
        "The longest wait for `minOffsetsPerTrigger`.",
        default="15m",
    ),
    Option("minPartitions", SOURCE, values.positive, "Splits the read into at least this many tasks."),
    Option(
        "groupId",
        SOURCE,
        values.name,
        "A consumer group. A stream commits its progress to it, so lag is visible outside Spark. "
        "`startingOffsets=group` starts at its offsets; for a sink's group, after its last decided batch.",
    ),
    Option(
        "failOnDataLoss",
        SOURCE,
        values.boolean,
        "`true`: fail when records to be read are gone, or a topic was deleted or is no longer selected. `false`: "
        "continue without them.",
        default="true",
    ),
    Option("includeHeaders", SOURCE, values.boolean, "Adds the column `headers`.", default="false"),
    Option(
        "topic",
        SINKS,
        values.text,
        "Topic of all rows. It takes precedence over a column `topic`.",
        default_doc="the column `topic`",
    ),
    Option(
        "transactionalIdPrefix",
        STREAMING_SINKS,
        values.prefix,
        "Names the sink's history. The transactional ids are `prefix-<partition>`. Set it: with the default, a deleted "
        f"checkpoint goes unnoticed. {values.PREFIX_RULE}",
        default_doc="the query id",
    ),
    Option(
        "roundTimeoutMs",
        SINKS,
        values.positive,
        "Anyone may abort an undecided batch whose driver gave no sign of life for this long (ms).",
        default=str(limits.ROUND_TIMEOUT_MS),
    ),
    Option(
        "groupId",
        STREAMING_SINKS,
        values.name,
        "The source offsets of a batch become visible in this consumer group together with its rows. Needs a "
        "`transactionalIdPrefix`, and sources with the same `groupId` that read from the sink's own log.",
    ),
    sink_name_option(STREAMING_SINKS),
    takeover_option(STREAMING_SINKS),
    Option("codec", SINKS, values.choice(*CODECS), f"`{'`, `'.join(CODECS)}`.", default=limits.DEFAULT_CODEC),
    Option(
        "checkpointLocation",
        _STREAM_WRITE,
        values.text,
        "Spark's own. Give it here rather than in Spark's configuration, where the sink cannot see it.",
        default_doc="required",
    ),
    Option("queryName", _STREAM_WRITE, values.text, "Spark's own, set by `queryName(...)`."),
)

SYNONYMS = {
    "kafka.group.id": "groupId",
    "kafka.isolation.level": "isolationLevel",
    "kafka.transactional.id": "transactionalIdPrefix",
    "kafka.compression.type": "codec",
    "compression": "codec",
    "topics": "subscribe",
}
"""From options of Spark's connectors and Kafka's clients to their names here."""
