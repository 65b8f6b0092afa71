"""The stream reader of Spark 4.0 and 4.1, called as oncelog's jar calls it. `make versions` runs real queries."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from oncelog.errors import UsageError
from oncelog.runtime import Log
from oncelog.spark import schema
from oncelog.spark.asked_stream import QUESTION, Answer, AskedStreamReader
from oncelog.spark.kit.options import Use
from oncelog.spark.options import parse_source_options
from tests.support.log.logs import TOPIC, numbered, started, write_committed

Offset = dict[str, Any]


def write(log: Log, count: int, number: int = 0) -> None:
    with started(log, f"writer-{number}") as producer:
        write_committed(producer, *numbered("a", count), number=number)


def reader(log: Log, **more: str) -> AskedStreamReader:
    given = {"path": log.path, "subscribe": TOPIC, "startingOffsets": "earliest", **more}
    columns = schema.read_schema(include_headers=False)
    return AskedStreamReader(parse_source_options(given, Use.STREAM_READ), columns)


def ask(made: AskedStreamReader, question: str, start: Offset) -> Offset | None:
    """The answer, on the way that it takes: a pickle that calls a function with a text."""
    (answer,) = made.partitions(start, {QUESTION: question})
    assert isinstance(answer, Answer)
    assert answer.text.encode() in pickle.dumps(answer)
    found: Offset | None = json.loads(answer.text)
    return found


def begun(made: AskedStreamReader) -> Offset:
    start = made.initialOffset()
    assert ask(made, "latestOffset", start) == start
    return start


def counts(made: AskedStreamReader, question: str, start: Offset) -> list[int]:
    """The rows of each batch, up to where nothing is new."""
    found = []
    while (end := ask(made, question, start)) != start:
        assert end is not None
        batches = (batch for task in made.partitions(start, end) for batch in made.read(task))
        found.append(sum(batch.num_rows for batch in batches))
        start = end
    return found


def test_batches_are_limited_as_the_options_say_but_for_a_trigger_that_takes_all(log: Log) -> None:
    write(log, 7)
    made = reader(log, maxOffsetsPerTrigger="3")
    start = begun(made)

    assert counts(made, "latestOffset", start) == [3, 3, 1]
    assert counts(made, "latestOffsetOfAll", start) == [7]


def test_a_batch_waits_for_the_least_rows_that_the_options_say(log: Log) -> None:
    write(log, 3)
    made = reader(log, minOffsetsPerTrigger="5", maxTriggerDelay="1h")
    start = begun(made)

    assert counts(made, "latestOffset", start) == []
    assert counts(made, "latestOffsetOfAll", start) == [3]


def test_what_comes_after_available_now_is_not_read(log: Log) -> None:
    write(log, 2)
    made = reader(log)
    assert ask(made, "prepareForTriggerAvailableNow", {}) is None
    start = begun(made)
    write(log, 5, number=1)

    assert counts(made, "latestOffset", start) == [2]


def test_the_latest_offset_is_reported(log: Log) -> None:
    made = reader(log)
    start = begun(made)
    assert ask(made, "reportLatestOffset", {}) == start
    write(log, 1)
    assert ask(made, "reportLatestOffset", {}) == ask(made, "latestOffset", start)


def test_a_question_of_another_version_is_refused(log: Log) -> None:
    with pytest.raises(UsageError, match="have different versions"):
        ask(reader(log), "whatever", {})


def test_without_the_jar_a_stream_says_what_it_needs(log: Log) -> None:
    with pytest.raises(UsageError, match=r"need oncelog's jar.*configure.*--jars"):
        reader(log).latestOffset()
