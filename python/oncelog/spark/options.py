"""The options of the source and of the sinks, checked and typed.

`parse_source_options` and `parse_sink_options` check a user's options against `option_table.py`. Nothing here looks at
a log: whether topics exist, and whether positions name the partitions that are read, is checked later.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from oncelog.errors import InvalidOptionError
from oncelog.spark.kit.options import Given, HistoryOptions, Use, history
from oncelog.spark.option_table import OPTIONS, SYNONYMS
from oncelog.spark.positions import AtOffsets, AtTimestamp, AtTimestamps, Bound, NoMatch, Position
from oncelog.types import IsolationLevel, TopicPartition


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a read. Exactly one of `subscribe`, `subscribe_pattern` and `assign` is set."""

    path: str
    znodes: str | None
    subscribe: tuple[str, ...] | None
    subscribe_pattern: str | None
    assign: tuple[TopicPartition, ...] | None
    starting: Position
    ending: Position
    isolation_level: IsolationLevel
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    group_id: str | None
    fail_on_data_loss: bool
    include_headers: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions(HistoryOptions):
    """The options of a write.

    Attributes:
        checkpoint_location: as the user gave it to `writeStream.format`; None for other writes.
    """

    path: str
    round_timeout_ms: int
    codec: str
    checkpoint_location: str | None


def parse_source_options(options: Mapping[str, object], use: Use) -> SourceOptions:
    """Read and check the options of the source.

    Args:
        options: names in any case, values as text, number or bool.
        use: `Use.STREAM_READ` or `Use.BATCH_READ`.

    Raises:
        InvalidOptionError: an option is unknown, malformed, misplaced, missing, or contradicts another one.
    """
    given = _given(options, use)
    given.require("path")
    given.only_one_of("subscribe", "subscribePattern", "assign", required=True)
    starting = _starting(given)
    ending = _ending(given) if use is Use.BATCH_READ else Bound.LATEST
    parsed = SourceOptions(
        path=given.value("path"),
        znodes=given.value("znodes"),
        subscribe=given.value("subscribe"),
        subscribe_pattern=given.value("subscribePattern"),
        assign=given.value("assign"),
        starting=starting,
        ending=ending,
        isolation_level=given.value("isolationLevel"),
        max_offsets_per_trigger=given.value("maxOffsetsPerTrigger"),
        min_offsets_per_trigger=given.value("minOffsetsPerTrigger"),
        max_trigger_delay_ms=given.value("maxTriggerDelay"),
        min_partitions=given.value("minPartitions"),
        group_id=given.value("groupId"),
        fail_on_data_loss=given.value("failOnDataLoss"),
        include_headers=given.value("includeHeaders"),
    )
    if starting is Bound.GROUP and parsed.group_id is None:
        raise InvalidOptionError("startingOffsets=group needs the option groupId", missing="groupId")
    least, most = parsed.min_offsets_per_trigger, parsed.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise InvalidOptionError(
            "minOffsetsPerTrigger is above maxOffsetsPerTrigger", minOffsetsPerTrigger=least, maxOffsetsPerTrigger=most
        )
    _check_order(starting, ending)
    return parsed


def parse_sink_options(options: Mapping[str, object], use: Use) -> SinkOptions:
    """Read and check the options of a sink.

    Args:
        options: names in any case, values as text, number or bool.
        use: `Use.FOREACH_BATCH`, `Use.STREAM_WRITE` or `Use.BATCH_WRITE`.

    Raises:
        InvalidOptionError: an option is unknown, malformed, misplaced, missing, or contradicts another one.
    """
    given = _given(options, use)
    given.require("path")
    parsed = SinkOptions(
        path=given.value("path"),
        round_timeout_ms=given.value("roundTimeoutMs"),
        codec=given.value("codec"),
        checkpoint_location=given.value("checkpointLocation"),
        **history(given),
    )
    if use is Use.STREAM_WRITE and parsed.checkpoint_location is None:
        raise InvalidOptionError(
            "the sink reads the query's checkpoint: give its location as an option of writeStream, because the sink "
            "cannot see Spark's configuration",
            missing="checkpointLocation",
        )
    return parsed


_BROKERS = "kafka.bootstrap.servers"


def _given(options: Mapping[str, object], use: Use) -> Given:
    named = next((name for name in options if name.lower() == _BROKERS), None)
    if named is not None:
        raise InvalidOptionError(
            "the format oncelog is the embedded log in the folder `path`, which has no brokers; for a Kafka cluster "
            "use the format oncelog-kafka",
            option=named,
            use=use.value,
        )
    return Given(options, OPTIONS, use, SYNONYMS)


def _starting(given: Given) -> Position:
    name = given.only_one_of("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
    strategy = "startingOffsetsByTimestampStrategy"
    by_time = name in {"startingTimestamp", "startingOffsetsByTimestamp"}
    if given.has(strategy) and not by_time:
        raise InvalidOptionError("the option needs a time to start at", option=strategy, missing="startingTimestamp")
    return _chosen(given, name or "startingOffsets", given.value(strategy))


def _ending(given: Given) -> Position:
    name = given.only_one_of("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
    return _chosen(given, name or "endingOffsets", NoMatch.LATEST)


def _chosen(given: Given, name: str, no_match: NoMatch) -> Position:
    value = given.value(name)
    if name.endswith("Timestamp") and isinstance(value, dict):
        return AtTimestamps(value, no_match)
    if name.endswith("Timestamp"):
        return AtTimestamp(value, no_match)
    position: Position = value
    return position


def _check_order(starting: Position, ending: Position) -> None:
    """If both ends are given per partition, they must name the same partitions, and no start may be after its end."""
    pairs: tuple[Mapping[TopicPartition, int], Mapping[TopicPartition, int]]
    if isinstance(starting, AtOffsets) and isinstance(ending, AtOffsets):
        pairs, options = (starting.offsets, ending.offsets), ["startingOffsets", "endingOffsets"]
    elif isinstance(starting, AtTimestamps) and isinstance(ending, AtTimestamps):
        pairs = (starting.timestamps_ms, ending.timestamps_ms)
        options = ["startingOffsetsByTimestamp", "endingOffsetsByTimestamp"]
    else:
        return
    starts, ends = pairs
    if starts.keys() != ends.keys():
        raise InvalidOptionError(
            "start and end must name the same partitions",
            options=options,
            in_one_only=sorted(map(str, starts.keys() ^ ends.keys())),
        )
    for partition, start in starts.items():
        end = ends[partition]
        if 0 <= end < start:
            raise InvalidOptionError(
                "the start is after the end", options=options, partition=str(partition), start=start, end=end
            )
