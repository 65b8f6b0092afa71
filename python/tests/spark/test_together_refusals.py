"""What `together` refuses, before a query starts or at its first batch, with nothing written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import oncelog
import oncelog.spark
from oncelog.errors import InvalidOptionError, UsageError
from oncelog.spark.kit.sink import ForeachBatchSink
from oncelog.spark.logs import close_logs
from tests.support.log.logs import values
from tests.support.spark.queries import run_available

AnySink = ForeachBatchSink[Any, Any]


def into_log(path: object = "/log", **more: Any) -> AnySink:
    return oncelog.spark.sink(path=str(path), topic="out", **more)


def own(**more: Any) -> AnySink:
    return oncelog.spark.once(lambda _, __: None, lambda _: True, **more)


@pytest.mark.parametrize(
    "sinks",
    [(), (into_log(),), (into_log(), None), (into_log(), lambda df, batch_id: None), (into_log(), (own(), "rows"))],
    ids=["none", "one", "nothing", "a function", "a pair with a text"],
)
def test_anything_but_two_sinks_is_refused(sinks: tuple[Any, ...]) -> None:
    with pytest.raises(UsageError, match="together takes two or more sinks"):
        oncelog.spark.together(*sinks)


def test_a_sink_of_several_is_no_part_of_another_one() -> None:
    both = oncelog.spark.together(into_log(), own())

    with pytest.raises(UsageError, match=r"two or more sinks .*'TogetherSink'"):
        oncelog.spark.together(both, own(transactionalIdPrefix="other"))


def test_two_sinks_of_one_history_are_refused() -> None:
    with pytest.raises(InvalidOptionError, match=r"the same history; give each a sinkName.*sinkName='a'"):
        oncelog.spark.together(own(sinkName="a"), into_log(), own(sinkName="a"))

    oncelog.spark.together(own(sinkName="a"), into_log(), own(sinkName="b"))


@pytest.mark.parametrize(
    ("sinks", "places"),
    [
        ((own(znodes="/one"), own(sinkName="b", znodes="/two")), {"ledger": "/one", "other": "/two"}),
        ((own(znodes="/one"), into_log("/log")), {"ledger": "/log", "other": "/one"}),
        ((own(), own(sinkName="b", znodes="/two")), {"ledger": "where the first sink keeps it by default"}),
    ],
)
def test_two_places_of_the_ledger_are_refused(sinks: tuple[AnySink, ...], places: dict[str, str]) -> None:
    with pytest.raises(InvalidOptionError, match="together decides a batch in one ledger") as refused:
        oncelog.spark.together(*sinks)

    assert places.items() <= refused.value.fields.items()


def test_the_same_place_may_be_named_twice() -> None:
    oncelog.spark.together(own(znodes="/one"), own(sinkName="b", znodes="/one"))


@pytest.fixture
def rows(spark: SparkSession, tmp_path: Path) -> DataFrame:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"value": "a"}')
    return spark.readStream.schema("value string").json(str(tmp_path / "in"))


def test_two_logs_have_no_ledger_together(rows: DataFrame, tmp_path: Path) -> None:
    logs = [oncelog.open(tmp_path / name) for name in ("one", "other")]
    for log in logs:
        log.create_topic("out")
    both = oncelog.spark.together(into_log(tmp_path / "one"), into_log(tmp_path / "other", sinkName="b"))

    with pytest.raises(Exception, match="several logs, each of which has its own"):
        run_available(rows.writeStream.foreachBatch(both), tmp_path / "checkpoint")

    assert [values(log, topic="out") for log in logs] == [[], []]
    close_logs()
    for log in logs:
        log.close()


def test_a_function_that_makes_no_rows_is_named(rows: DataFrame, tmp_path: Path) -> None:
    count: Any = DataFrame.count
    both = oncelog.spark.together(own(znodes=str(tmp_path / "ledger")), (own(sinkName="b"), count))

    with pytest.raises(
        Exception, match=r"the function that is given with a sink must return a DataFrame .*returned='int'"
    ):
        run_available(rows.writeStream.foreachBatch(both), tmp_path / "checkpoint")

    assert not (tmp_path / "ledger").exists()
