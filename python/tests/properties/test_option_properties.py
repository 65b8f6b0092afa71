"""Any text given as an option either is the documented value or an error that names the option."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import InvalidOptionError
from oncelog.spark.kit.options import Use
from oncelog.spark.option_table import OPTIONS
from oncelog.spark.options import parse_sink_options, parse_source_options
from oncelog.spark.positions import AtOffsets, AtTimestamps, parse_offsets
from oncelog.types import IsolationLevel, TopicPartition
from tests.support import strategies

LEAST: dict[Use, dict[str, object]] = {
    Use.STREAM_READ: {"path": "/log", "subscribe": "t"},
    Use.BATCH_READ: {"path": "/log", "subscribe": "t"},
    Use.FOREACH_BATCH: {"path": "/log"},
    Use.STREAM_WRITE: {"path": "/log", "checkpointLocation": "/c"},
    Use.BATCH_WRITE: {"path": "/log"},
}
SOURCES = (Use.STREAM_READ, Use.BATCH_READ)
SPACE = st.sampled_from(["", " ", "\t", "  "])

texts = strategies.any_texts(12) | st.text('0123456789-+_.smhdtrue{}[]":,\\ ', max_size=14)
topics = st.text("abc._-", min_size=1, max_size=4)
partitions = st.integers(0, 999)
offsets = st.dictionaries(
    topics, st.dictionaries(partitions, st.integers(-2, 2**63 - 1), min_size=1, max_size=3), min_size=1, max_size=3
)


def parse(use: Use, options: dict[str, object]) -> Any:
    return parse_source_options(options, use) if use in SOURCES else parse_sink_options(options, use)


@pytest.mark.parametrize("use", Use)
@given(data=st.data())
def test_any_text_as_any_option_is_read_or_refused_with_the_name_of_an_option(use: Use, data: st.DataObject) -> None:
    option = data.draw(st.sampled_from([option for option in OPTIONS if use in option.uses]))
    text = data.draw(texts)

    try:
        parse(use, {**LEAST[use], option.name: text})
    except InvalidOptionError as error:
        named = [*error.fields, *(str(value) for value in error.fields.values())]
        assert any(known.name in value for known in OPTIONS for value in named)


@pytest.mark.parametrize("use", Use)
@given(
    name=strategies.any_texts(12),
    value=texts | st.booleans() | st.integers() | strategies.integers() | st.none() | strategies.floats(),
)
def test_any_name_is_known_in_any_case_or_refused_by_itself(use: Use, name: str, value: object) -> None:
    known = {option.name.lower() for option in OPTIONS if use in option.uses}
    if name.lower() in known or value is None:
        return

    with pytest.raises(InvalidOptionError) as refused:
        parse(use, {**LEAST[use], name: value})
    assert refused.value.fields["option"].lower() == name.lower()


@given(st.integers(1, 10**18 - 1), SPACE, SPACE, st.sampled_from(["", "0", "000"]))
def test_a_whole_number_is_read_with_spaces_and_zeros_and_as_a_number(
    number: int, before: str, after: str, zeros: str
) -> None:
    for given_value in (f"{before}{zeros}{number}{after}", number):
        options = {**LEAST[Use.STREAM_READ], "maxOffsetsPerTrigger": given_value}
        assert parse(Use.STREAM_READ, options).max_offsets_per_trigger == number


@given(texts | st.integers().map(str) | st.integers(2**62, 10**40).map(str))
def test_what_is_read_as_a_whole_number_is_that_number(text: str) -> None:
    options = {**LEAST[Use.STREAM_READ], "minPartitions": text}

    if text.strip().isascii() and text.strip().isdigit() and 0 < int(text) < 2**63:
        assert parse(Use.STREAM_READ, options).min_partitions == int(text)
    else:
        with pytest.raises(InvalidOptionError, match="minPartitions"):
            parse(Use.STREAM_READ, options)


@given(st.integers(0, 10**9), st.sampled_from(["ms", "s", "m", "min", "h", "d", ""]), SPACE)
def test_a_duration_is_milliseconds(number: int, unit: str, space: str) -> None:
    factor = {"ms": 1, "": 1, "s": 10**3, "m": 60 * 10**3, "min": 60 * 10**3, "h": 3600 * 10**3, "d": 86400 * 10**3}
    options = {**LEAST[Use.STREAM_READ], "maxTriggerDelay": f"{space}{number}{space}{unit.upper()}{space}"}

    assert parse(Use.STREAM_READ, options).max_trigger_delay_ms == number * factor[unit]


@given(offsets, st.booleans())
def test_offsets_as_json_are_the_offsets(wanted: dict[str, dict[int, int]], spaced: bool) -> None:
    text = json.dumps(wanted, indent=1 if spaced else None)
    named = {TopicPartition(topic, number): offset for topic, one in wanted.items() for number, offset in one.items()}
    options = {**LEAST[Use.STREAM_READ], "startingOffsets": text}

    assert parse_offsets(text) == named
    assert parse(Use.STREAM_READ, options).starting == AtOffsets(named)
    options = {**LEAST[Use.STREAM_READ], "startingOffsetsByTimestamp": text}
    if min(named.values()) >= 0:
        assert parse(Use.STREAM_READ, options).starting == AtTimestamps(named)
    else:
        with pytest.raises(InvalidOptionError, match="startingOffsetsByTimestamp"):
            parse(Use.STREAM_READ, options)


@given(st.sampled_from(IsolationLevel), st.booleans(), SPACE)
def test_words_are_read_in_any_case(level: IsolationLevel, flag: bool, space: str) -> None:
    found = parse(
        Use.BATCH_READ,
        {
            **LEAST[Use.BATCH_READ],
            "ISOLATIONLEVEL": f"{space}{level.upper()}",
            "failondataloss": str(flag).upper() + space,
            "includeHeaders": flag,
        },
    )

    assert (found.isolation_level, found.fail_on_data_loss, found.include_headers) == (level, flag, flag)
