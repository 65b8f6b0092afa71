"""The table of all options: one row says where a name counts, how its text is read, its default and its meaning.

Validation (`options.py`), its errors and the docs are made from these rows; nothing else states a name or a default.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from oncelog import limits
from oncelog.arguments import check_name
from oncelog.errors import UsageError
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


class Use(StrEnum):
    """What an option is given to. The values are what errors call it."""

    STREAM_READ = "readStream"
    BATCH_READ = "read"
    FOREACH_BATCH = "foreachBatch(sink(...))"
    STREAM_WRITE = "writeStream.format"
    BATCH_WRITE = "write"


SOURCE = frozenset({Use.STREAM_READ, Use.BATCH_READ})
STREAMING_SINKS = frozenset({Use.FOREACH_BATCH, Use.STREAM_WRITE})
SINKS = STREAMING_SINKS | {Use.BATCH_WRITE}
EVERYWHERE = SOURCE | SINKS


@dataclass(frozen=True, slots=True)
class Option:
    """One row of the table.

    Attributes:
        name: the documented spelling.
        uses: where it may be given.
        parse: text to value; raises ValueError with what it expected.
        doc: its meaning, one line.
        default: text that counts when the option is not given; None if nothing does.
        default_doc: what the docs show as the default, where that is not `default`.
    """

    name: str
    uses: frozenset[Use]
    parse: Callable[[str], Any]
    doc: str
    default: str | None = None
    default_doc: str = ""


# Readers of values ----------------------------------------------------------------------------------------------------


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("a text that is not empty")
    return text.strip()


def _boolean(text: str) -> bool:
    if text.strip().lower() not in {"true", "false"}:
        raise ValueError("true or false")
    return text.strip().lower() == "true"


def _positive(text: str) -> int:
    if not re.fullmatch(r"\s*0*[1-9][0-9]{0,17}\s*", text):
        raise ValueError("a whole number above 0, of 18 digits at most")
    return int(text)


def _timestamp_ms(text: str) -> int:
    if not re.fullmatch(r"\s*[0-9]{1,18}\s*", text):
        raise ValueError("milliseconds since 1970, such as 1700000000000")
    return int(text)


_DURATION_UNITS_MS = {"ms": 1, "": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def _duration_ms(text: str) -> int:
    """Spark's notation of durations; a bare number is milliseconds."""
    match = re.fullmatch(r"\s*([0-9]{1,10})\s*(ms|s|m|min|h|d|)\s*", text.lower())
    if match is None:
        raise ValueError("a duration such as 15m, 30s or 500ms")
    return int(match[1]) * _DURATION_UNITS_MS[match[2]]


def _choice(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.strip().lower() not in allowed:
            raise ValueError(f"one of {', '.join(allowed)}")
        return text.strip().lower()

    return parse


def _isolation_level(text: str) -> IsolationLevel:
    return IsolationLevel(_choice(*IsolationLevel)(text))


def _no_match(text: str) -> NoMatch:
    return NoMatch(_choice(*NoMatch)(text))


def _topics(text: str) -> tuple[str, ...]:
    topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not topics:
        raise ValueError("topic names, separated by commas")
    return topics


def _pattern(text: str) -> str:
    try:
        with warnings.catch_warnings(action="ignore", category=FutureWarning):  # [[ may be a nested set some day
            re.compile(_text(text))
    except (re.error, ValueError, OverflowError, RecursionError):
        raise ValueError("a regular expression that whole topic names match") from None
    return text.strip()


def _name(text: str) -> str:
    try:
        return check_name("name", _text(text))
    except UsageError as error:
        raise ValueError(f"a name that a path can hold: {error}") from None


def _prefix(text: str) -> str:
    prefix = _name(text)
    if re.search(r"-[0-9]+$", prefix):
        raise ValueError("a text that does not end in -<digits>, as the transactional ids of a prefix do")
    return prefix


def _position(*bounds: Bound, forbidden_offset: int | None = None) -> Callable[[str], Position]:
    """A reader of positions that takes the given names, or offsets as JSON without the forbidden stand-in."""
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


# The table ------------------------------------------------------------------------------------------------------------

_STREAM_READ = frozenset({Use.STREAM_READ})
_BATCH_READ = frozenset({Use.BATCH_READ})
_STREAM_WRITE = frozenset({Use.STREAM_WRITE})

OPTIONS: tuple[Option, ...] = (
    Option(
        "path",
        EVERYWHERE,
        _text,
        "Folder of the log, or `s3://bucket/folder` with `znodes` elsewhere.",
        default_doc="required",
    ),
    Option(
        "znodes",
        EVERYWHERE,
        _text,
        "Where the metadata is: `zk://host:port,.../chroot` for several hosts, or `sqlite:/a/file`.",
        default_doc="SQLite in `path`",
    ),
    Option("subscribe", SOURCE, _topics, "Topics to read, separated by commas.", default_doc="one of these three"),
    Option("subscribePattern", SOURCE, _pattern, "Reads all topics whose whole name matches, also ones created later."),
    Option("assign", SOURCE, parse_assignment, 'Partitions to read: `{"topic":[0,1]}`.'),
    Option(
        "startingOffsets",
        _STREAM_READ,
        _position(Bound.EARLIEST, Bound.LATEST, Bound.GROUP),
        "Where a new query starts: `earliest`, `latest`, `group` (what `groupId` committed), or offsets as JSON, "
        "-2 for the earliest and -1 for the latest. A query with a checkpoint goes on where it was.",
        default=Bound.LATEST,
    ),
    Option(
        "startingOffsets",
        _BATCH_READ,
        _position(Bound.EARLIEST, Bound.GROUP, forbidden_offset=LATEST_OFFSET),
        "Where the read starts: `earliest`, `group`, or offsets as JSON.",
        default=Bound.EARLIEST,
    ),
    Option("startingTimestamp", SOURCE, _timestamp_ms, "Starts at the first record at or after this time (ms)."),
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
    Option("endingTimestamp", _BATCH_READ, _timestamp_ms, "Ends before the first record at or after this time (ms)."),
    Option("endingOffsetsByTimestamp", _BATCH_READ, parse_timestamps, "The same for each partition."),
    Option(
        "isolationLevel",
        SOURCE,
        _isolation_level,
        "`read_committed`, or `read_uncommitted` to see open and aborted transactions too.",
        default=IsolationLevel.READ_COMMITTED,
    ),
    Option("maxOffsetsPerTrigger", SOURCE, _positive, "Most rows of one micro-batch. A batch read ignores it."),
    Option(
        "minOffsetsPerTrigger",
        SOURCE,
        _positive,
        "Waits until so many rows are there. Batch reads, `availableNow` and `once` do not.",
    ),
    Option(
        "maxTriggerDelay",
        SOURCE,
        _duration_ms,
        "Waits for `minOffsetsPerTrigger` no longer than this.",
        default="15m",
    ),
    Option("minPartitions", SOURCE, _positive, "Splits the read into at least so many tasks."),
    Option(
        "groupId",
        SOURCE,
        _name,
        "A consumer group: `startingOffsets=group` starts at its offsets (of a sink's group, behind its last decided "
        "batch), and a stream commits its progress to it, so that lag shows outside Spark.",
    ),
    Option(
        "failOnDataLoss",
        SOURCE,
        _boolean,
        "Fails when records to be read are gone, or a topic was deleted or is no longer selected; `false` goes on "
        "without them.",
        default="true",
    ),
    Option("includeHeaders", SOURCE, _boolean, "Adds the column `headers`.", default="false"),
    Option("topic", SINKS, _text, "Topic of all rows, before a column `topic`.", default_doc="the column `topic`"),
    Option(
        "transactionalIdPrefix",
        STREAMING_SINKS,
        _prefix,
        "Names the sink's history; `prefix-<partition>` are its transactional ids. Name one: with the default a "
        "deleted checkpoint goes unnoticed.",
        default_doc="the query id",
    ),
    Option(
        "roundTimeoutMs",
        SINKS,
        _positive,
        "After this long without a sign of life from its driver anyone may abort an undecided batch.",
        default=str(limits.ROUND_TIMEOUT_MS),
    ),
    Option(
        "groupId",
        STREAMING_SINKS,
        _name,
        "The source offsets of a batch become visible in this consumer group together with its rows. Needs a "
        "`transactionalIdPrefix`, and sources with the same group that read the log that the sink writes.",
    ),
    Option(
        "sinkName",
        STREAMING_SINKS,
        _prefix,
        "Tells apart the sinks of one query: the history of each is then kept under `<prefix>.<sinkName>`.",
    ),
    Option("takeover", STREAMING_SINKS, _text, "Id of the query whose history under the prefix this query continues."),
    Option("codec", SINKS, _choice(*CODECS), f"`{'`, `'.join(CODECS)}`.", default=limits.DEFAULT_CODEC),
    Option(
        "checkpointLocation",
        _STREAM_WRITE,
        _text,
        "Spark's own. Give it here rather than in Spark's configuration, where the sink cannot see it.",
        default_doc="required",
    ),
    Option("queryName", _STREAM_WRITE, _text, "Spark's own, set by `queryName(...)`."),
)

SYNONYMS = {
    "kafka.bootstrap.servers": "path",
    "kafka.group.id": "groupId",
    "kafka.isolation.level": "isolationLevel",
    "kafka.transactional.id": "transactionalIdPrefix",
    "kafka.compression.type": "codec",
}
"""Options of Spark's Kafka connector that are called otherwise here, for those who come from there."""


# Docs -----------------------------------------------------------------------------------------------------------------

_USES_DOC = {
    EVERYWHERE: "all",
    SOURCE: "source",
    SINKS: "sinks",
    STREAMING_SINKS: "streaming sinks",
    _STREAM_READ: "source, stream",
    _BATCH_READ: "source, batch",
    _STREAM_WRITE: "sink `writeStream.format`",
}


def render_markdown_table(uses: Collection[Use] = tuple(Use)) -> str:
    """The options that count for any of `uses`, as a Markdown table."""
    rows = [
        f"| `{option.name}` | {_USES_DOC[option.uses]} | {_default_doc(option)} | {option.doc} |"
        for option in OPTIONS
        if option.uses & frozenset(uses)
    ]
    return "\n".join(["| option | for | default | meaning |", "|---|---|---|---|", *rows]) + "\n"


def _default_doc(option: Option) -> str:
    if option.default_doc:
        return option.default_doc
    return "-" if option.default is None else f"`{option.default}`"
