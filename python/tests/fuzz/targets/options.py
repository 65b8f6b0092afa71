"""Options of the source and the sinks, as Spark hands them over."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any

from oncelog.errors import InvalidOptionError
from oncelog.spark.kit.options import Use
from oncelog.spark.option_table import OPTIONS
from oncelog.spark.options import parse_sink_options, parse_source_options
from tests.fuzz.mutators import mutated_json, mutated_text, parsed
from tests.fuzz.target import Target, Verdict, expect, expect_typed

SOURCES: list[dict[str, Any]] = [
    {"path": "/logs/flights", "subscribe": "a,b", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "100"},
    {
        "path": "s3://bucket/folder",
        "znodes": "zk://h1:2181,h2/oncelog",
        "subscribePattern": "fl[a-z]+s{1,3}",
        "startingTimestamp": "1700000000000",
        "startingOffsetsByTimestampStrategy": "latest",
        "isolationLevel": "read_uncommitted",
        "includeHeaders": True,
        "failOnDataLoss": "false",
    },
    {
        "path": "x",
        "assign": '{"flights":[0,1,7]}',
        "startingOffsets": '{"flights":{"0":23,"1":-2}}',
        "minPartitions": 8,
    },
    {
        "path": "x",
        "subscribe": "a",
        "startingOffsetsByTimestamp": '{"a":{"0":1700000000000}}',
        "maxTriggerDelay": "15m",
    },
    {"path": "x", "subscribe": "a", "groupId": "g", "startingOffsets": "group", "minOffsetsPerTrigger": "5"},
]
SINKS: list[dict[str, Any]] = [
    {"path": "/logs/flights", "topic": "t", "checkpointLocation": "/c"},
    {
        "path": "x",
        "transactionalIdPrefix": "copier",
        "groupId": "g",
        "sinkName": "s1",
        "takeover": "q",
        "codec": "lz4",
        "roundTimeoutMs": 60_000,
        "checkpointLocation": "/c",
        "queryName": "q",
    },
]
NAMES = {option.name for option in OPTIONS}


class Options(Target):
    """Options with mutated names and values: the documented value, or an `InvalidOptionError` that names an option.

    Oracle: what is read has the declared type and is within bounds; what is not given has its default; and the same
    options in any case and order are read alike.
    """

    weight = 0.8

    def __init__(self, name: str, given: list[dict[str, Any]], parse: Callable[[Mapping[str, object]], object]) -> None:
        self.name = name
        self._given = given
        self._parse = parse

    def prepare(self) -> None:
        warnings.filterwarnings("ignore", category=FutureWarning)  # of regular expressions that mean what they say
        self.texts = [str(value) for given in self._given for value in given.values()]
        self.names = sorted(NAMES | {name for given in self._given for name in given})
        self.trees = [parsed(text) for text in self.texts if text.startswith("{")] or [[]]

    def valid(self) -> Iterable[bytes]:
        return [_encoded(given.items()) for given in self._given]

    def make(self, chance: Random) -> bytes:
        pairs = list(chance.choice(self._given).items())
        for _ in range(chance.choice((1, 1, 2))):
            at = chance.randrange(len(pairs))
            name, value = pairs[at]
            text = "1" if _is_long(value) else str(value)
            match chance.randrange(8):
                case 0:
                    del pairs[at]
                    pairs += [] if pairs else [(name, value)]
                case 1:
                    pairs[at] = (mutated_text(chance, name, self.names), value)
                case 2:
                    pairs.append((chance.choice(self.names), chance.choice(self.texts)))
                case 3:
                    pairs[at] = (name, chance.choice((None, True, 0, -1, 2**63, 10**5000, 1.5, [], "")))
                case 4 if text.startswith("{") and text in self.texts:
                    pairs[at] = (name, mutated_json(chance, text.encode(), self.trees).decode("utf-8", "replace"))
                case _:
                    pairs[at] = (name, mutated_text(chance, text, self.texts))
        return _encoded(pairs)

    def check(self, data: bytes) -> Verdict:
        try:
            pairs = [(name, int(value, 16) if is_long else value) for name, value, is_long in json.loads(data)]
        except (ValueError, TypeError):
            return Verdict.REFUSED  # made smaller until it is no input any more
        given = dict(pairs)
        try:
            found = self._parse(given)
        except InvalidOptionError as error:
            named = {text.lower() for field in error.fields.items() for value in field for text in _texts(value)}
            expect(
                any(name.lower() in named for name in (*self.names, *given)), "no option is named", fields=error.fields
            )
            return Verdict.REFUSED
        expect_typed(found, least=-2)
        lowered = {name.lower(): value for name, value in reversed(given.items())}
        if len(lowered) == len(given):
            expect(self._parse(lowered) == found, "the case or the order of names counts")
        self._expect_words(given, found)
        return Verdict.CORRECT

    def _expect_words(self, given: Mapping[str, Any], found: Any) -> None:
        """Values that are taken as they are."""
        by_name = {name.lower(): value for name, value in given.items() if isinstance(value, str)}
        for option, attribute in (
            ("path", "path"),
            ("topic", "topic"),
            ("groupid", "group_id"),
            ("takeover", "takeover"),
        ):
            if option in by_name and hasattr(found, attribute):
                expect(
                    getattr(found, attribute) == by_name[option].strip(), "another text than was given", option=option
                )
        for option, attribute in (
            ("maxoffsetspertrigger", "max_offsets_per_trigger"),
            ("roundtimeoutms", "round_timeout_ms"),
        ):
            if option in by_name and hasattr(found, attribute):
                expect(
                    getattr(found, attribute) == int(by_name[option]), "another number than was given", option=option
                )


def _encoded(pairs: Iterable[tuple[str, Any]]) -> bytes:
    """As JSON; Python writes no number of thousands of digits but in hexadecimal."""
    rows = [(name, hex(value) if _is_long(value) else value, _is_long(value)) for name, value in pairs]
    return json.dumps(rows).encode()


def _is_long(value: object) -> bool:
    return type(value) is int and value.bit_length() > 64


def _texts(value: object) -> Sequence[str]:
    return [value] if isinstance(value, str) else [str(item) for item in value] if isinstance(value, list) else []


def _source(options: Mapping[str, object]) -> object:
    return parse_source_options(options, Use.BATCH_READ if len(options) % 2 else Use.STREAM_READ)


def _sink(options: Mapping[str, object]) -> object:
    if "checkpointlocation" in map(str.lower, options):
        return parse_sink_options(options, Use.STREAM_WRITE)
    return parse_sink_options(options, Use.BATCH_WRITE if len(options) % 2 else Use.FOREACH_BATCH)


TARGETS: dict[str, Callable[[], Target]] = {
    "source-options": lambda: Options("source-options", SOURCES, _source),
    "sink-options": lambda: Options("sink-options", SINKS, _sink),
}
