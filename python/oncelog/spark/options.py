"""What users ask of the source and of the sinks, checked and typed.

`parse_source_options` and `parse_sink_options` read what a user gave by the rows of `option_table.py`. Spark hands
names over in lower case, so they match in any case, and every error answers in the documented spelling. Nothing here
looks at a log: whether topics exist and positions name the partitions that are read is found out later.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from oncelog.errors import InvalidOptionError
from oncelog.spark.option_table import OPTIONS, SYNONYMS, Option, Use
from oncelog.spark.positions import AtOffsets, AtTimestamp, AtTimestamps, Bound, NoMatch, Position
from oncelog.types import IsolationLevel, TopicPartition


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What the source was asked for. Exactly one of the three selections of topics is set."""

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


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What a sink was asked for.

    Attributes:
        topic: of all rows; None if each row names its own.
        transactional_id_prefix: None for the query id.
        sink_name: None unless given.
        checkpoint_location: as the user gave it to `writeStream`; None at the other doors.
    """

    path: str
    znodes: str | None
    topic: str | None
    transactional_id_prefix: str | None
    round_timeout_ms: int
    group_id: str | None
    sink_name: str | None
    takeover: str | None
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
    given = _Given(options, use)
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
        raise InvalidOptionError("startingOffsets=group starts at what a group committed; name it", missing="groupId")
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
    given = _Given(options, use)
    given.require("path")
    parsed = SinkOptions(
        path=given.value("path"),
        znodes=given.value("znodes"),
        topic=given.value("topic"),
        transactional_id_prefix=given.value("transactionalIdPrefix"),
        round_timeout_ms=given.value("roundTimeoutMs"),
        group_id=given.value("groupId"),
        sink_name=given.value("sinkName"),
        takeover=given.value("takeover"),
        codec=given.value("codec"),
        checkpoint_location=given.value("checkpointLocation"),
    )
    if use is Use.STREAM_WRITE and parsed.checkpoint_location is None:
        raise InvalidOptionError(
            "the sink reads the query's checkpoint: give its location as an option of writeStream, as Spark's "
            "configuration does not reach the sink",
            missing="checkpointLocation",
        )
    for dependent in ("groupId", "takeover"):
        if given.has(dependent) and parsed.transactional_id_prefix is None:
            raise InvalidOptionError(
                "this option needs a prefix that outlives the query id",
                option=dependent,
                missing="transactionalIdPrefix",
            )
    return parsed


# Checks ---------------------------------------------------------------------------------------------------------------


class _Given:
    """The options a user gave, each known, in its place and well-formed."""

    def __init__(self, options: Mapping[str, object], use: Use) -> None:
        self._use = use
        self._rows = {option.name: option for option in OPTIONS if use in option.uses}
        self._texts: dict[str, str] = {}
        for key, raw in options.items():
            if raw is None:
                continue
            option = self._row(key)
            if option.name in self._texts:
                raise InvalidOptionError("the option is given twice", option=option.name)
            self._texts[option.name] = _as_text(option.name, raw)
        self._values = {name: self._parsed(option) for name, option in self._rows.items()}

    def has(self, name: str) -> bool:
        return name in self._texts

    def value(self, name: str) -> Any:
        """The value given, else the default, else None (also where the option does not count)."""
        return self._values.get(name)

    def require(self, name: str) -> None:
        if not self.has(name):
            raise InvalidOptionError("a required option is missing", option=name, use=self._use.value)

    def only_one_of(self, *names: str, required: bool = False) -> str | None:
        """The one of `names` that is given."""
        given = [name for name in names if self.has(name)]
        if len(given) > 1:
            raise InvalidOptionError("these options exclude each other; give one of them", given=given)
        if required and not given:
            raise InvalidOptionError("one of these options is required", one_of=list(names), use=self._use.value)
        return given[0] if given else None

    def _row(self, key: str) -> Option:
        for option in self._rows.values():
            if option.name.lower() == key.lower():
                return option
        elsewhere = [option for option in OPTIONS if option.name.lower() == key.lower()]
        if elsewhere:
            raise InvalidOptionError(
                "the option does not count here",
                option=elsewhere[0].name,
                use=self._use.value,
                counts_for=sorted(use.value for option in elsewhere for use in option.uses),
            )
        raise InvalidOptionError("unknown option", option=key, use=self._use.value, **self._suggestion(key))

    def _suggestion(self, key: str) -> dict[str, str]:
        """The nearest name that counts here, if any is near; snake_case is near its camelCase."""
        names = {name.lower(): name for name in self._rows}
        synonym = SYNONYMS.get(key.lower())
        if synonym in self._rows:
            return {"did_you_mean": synonym}
        near = difflib.get_close_matches(key.lower().replace("_", ""), names, n=1)
        return {"did_you_mean": names[near[0]]} if near else {}

    def _parsed(self, option: Option) -> Any:
        text = self._texts.get(option.name, option.default)
        if text is None:
            return None
        try:
            return option.parse(text)
        except ValueError as problem:
            raise InvalidOptionError(
                "the option's value is malformed", option=option.name, value=text, expected=str(problem)
            ) from None


def _as_text(name: str, raw: object) -> str:
    """Spark passes text; Python callers may pass numbers and bools as well."""
    if isinstance(raw, bool):
        return str(raw).lower()
    if isinstance(raw, str) or (isinstance(raw, int) and raw.bit_length() < 64):
        return str(raw)
    raise InvalidOptionError(
        "the option's value must be text, a whole number of 64 bits or a bool", option=name, value=raw
    )


def _starting(given: _Given) -> Position:
    name = given.only_one_of("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
    strategy = "startingOffsetsByTimestampStrategy"
    by_time = name in {"startingTimestamp", "startingOffsetsByTimestamp"}
    if given.has(strategy) and not by_time:
        raise InvalidOptionError("the option needs a time to start at", option=strategy, missing="startingTimestamp")
    return _chosen(given, name or "startingOffsets", given.value(strategy))


def _ending(given: _Given) -> Position:
    name = given.only_one_of("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
    return _chosen(given, name or "endingOffsets", NoMatch.LATEST)


def _chosen(given: _Given, name: str, no_match: NoMatch) -> Position:
    value = given.value(name)
    if name.endswith("Timestamp") and isinstance(value, dict):
        return AtTimestamps(value, no_match)
    if name.endswith("Timestamp"):
        return AtTimestamp(value, no_match)
    position: Position = value
    return position


def _check_order(starting: Position, ending: Position) -> None:
    """Both ends given one by one: the same partitions, and no start behind its end."""
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
                "the start is behind the end", options=options, partition=str(partition), start=start, end=end
            )
