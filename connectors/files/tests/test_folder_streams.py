"""Queries into the sink, from start to end: what a reader that is not ours finds, and what `read` finds."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

import oncelog_files
from folder_worlds import is_visible, visible
from oncelog.cli import main
from oncelog.errors import UsageError
from oncelog.spark.kit.ledgers import close_ledgers
from oncelog.testing.target_contract import at
from oncelog_files.crash_points import FilesCrashPoint
from tests.support.spark.faults import failing_once
from tests.support.spark.json_queries import JsonQuery
from tests.support.spark.queries import forget_last_commit, run_available
from tests.support.spark.staging import left_staging

ALGORITHM = "mapreduce.fileoutputcommitter.algorithm.version"


class Query(JsonQuery):
    """A query into a folder."""

    schema = "id int, day string"

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        super().__init__(spark, folder)
        self.out = folder / "out"

    def run(self, df: DataFrame | None = None, **more: Any) -> None:
        """Write what there is; see `run_into`."""
        self.run_into(oncelog_files.sink(**{"path": str(self.out), **more}), df)

    def whole(self, **options: Any) -> list[tuple[Any, ...]]:
        """The rows of whole batches."""
        return sorted(
            map(tuple, oncelog_files.read(self.spark, str(self.out), **options).select("id", "day").collect())
        )


@pytest.fixture
def query(spark: SparkSession, tmp_path: Path) -> Iterator[Query]:
    yield Query(spark, tmp_path)
    close_ledgers()


def test_rows_are_there_once_though_spark_runs_the_batch_again(query: Query) -> None:
    query.add({"id": 1, "day": "a"}, {"id": 2, "day": "b"})
    query.add({"id": 3, "day": "a"})
    query.run(transactionalIdPrefix="flights")
    assert sorted((report.rows, report.is_replay) for report in query.reports) == [(1, False), (2, False)]

    forget_last_commit(query.checkpoint)
    query.run(transactionalIdPrefix="flights")

    assert [report.is_replay for report in query.reports] == [True]
    assert visible(query.out, "id", "day") == query.whole() == [(1, "a"), (2, "b"), (3, "a")]
    assert sorted(row.id for row in query.spark.read.parquet(str(query.out)).collect()) == [1, 2, 3]
    assert left_staging(query.out) == []
    assert (query.out / "_oncelog" / "ledger").is_dir(), "the ledger is in the folder"
    manifests = [json.loads(file.read_text()) for file in (query.out / "_oncelog/manifests").rglob("*.json")]
    assert sorted((one["prefix"], one["batch_id"]) for one in manifests) == [("flights", 0), ("flights", 1)]
    assert sorted(one["rows"] for one in manifests) == [1, 2]


def test_the_command_line_tells_of_the_ledger_in_the_folder(query: Query) -> None:
    query.add({"id": 1, "day": "a"})
    query.run(transactionalIdPrefix="flights")

    command = ["--znodes", str(query.out / "_oncelog" / "ledger"), "--json", "batch", "show", "flights"]
    (found,) = json.loads(CliRunner().invoke(main, command).stdout)["ledgers"]

    assert (found["target"], found["outcome"], found["last_batch_id"]) == ("files", "commit", 0)
    assert (found["is_over"], found["recovery"]) == (True, "writes its next batch")


@pytest.mark.sampled("files")
def test_partitions_become_folders_and_columns_again(query: Query) -> None:
    query.add({"id": 1, "day": "a/b: c"}, {"id": 2, "day": "d"}, {"id": 3})
    query.run(None, partitionBy="DAY", format="json", compression="gzip", **{"format.ignoreNullFields": "false"})
    query.add({"id": 4, "day": "d"})
    query.run(partitionBy="DAY", format="json", compression="gzip")

    shown = [file for file in query.out.rglob("*.json.gz") if is_visible(file, query.out)]
    assert sorted({file.parent.name for file in shown}) == [
        "DAY=__HIVE_DEFAULT_PARTITION__",
        "DAY=a%2Fb%3A c",
        "DAY=d",
    ]
    found = oncelog_files.read(query.spark, str(query.out), schema="id int, DAY string")
    assert sorted(map(tuple, found.select("id", "DAY").fillna("").collect())) == [
        (1, "a/b: c"),
        (2, "d"),
        (3, ""),
        (4, "d"),
    ]


@pytest.mark.sampled("files")
def test_a_task_that_is_tried_again_leaves_one_copy(query: Query) -> None:
    query.add({"id": 1, "day": "a"}, {"id": 2, "day": "b"})

    query.run(query.source().mapInArrow(failing_once(query.folder), "id int, day string"))

    assert list(query.folder.glob("failed-*"))
    assert [report.rows for report in query.reports] == [2]
    assert visible(query.out, "id", "day") == [(1, "a"), (2, "b")]


@pytest.mark.sampled("files")
def test_a_tasks_files_wait_for_the_others_whatever_the_session_says_of_committers(query: Query) -> None:
    """The second algorithm would put them to their place at once, those of a try that is repeated, too."""
    folder, seen = query.out, query.folder / "seen"

    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        task = TaskContext.get()
        while task is not None and task.partitionId() == 1 and not seen.exists():
            files = [str(file) for file in folder.rglob("part-00000-*.parquet")]
            committed = [file for file in files if "/_temporary/attempt_" not in file]
            if committed:
                seen.write_text(committed[0])
            time.sleep(0.02)

    query.add({"id": 1, "day": "a"}, {"id": 2, "day": "b"})
    rows = query.source().repartitionByRange(2, "id")
    query.spark.conf.set(ALGORITHM, "2")
    try:
        query.run(rows.mapInArrow(look, rows.schema))
    finally:
        query.spark.conf.unset(ALGORITHM)

    assert "/_temporary/" in seen.read_text()
    assert visible(query.out, "id", "day") == [(1, "a"), (2, "b")]


@pytest.mark.sampled("files")
def test_whole_batches_are_read_whole_while_one_is_on_its_way(query: Query) -> None:
    with pytest.raises(UsageError, match="no batch is in this folder yet"):
        query.whole()
    query.add({"id": 1, "day": "a"})
    query.run(sinkName="one")
    query.add({"id": 2, "day": "b"})
    seen: list[list[Any]] = []

    with at(FilesCrashPoint.SHOWN, lambda: seen.extend([visible(query.out, "id"), query.whole()])):
        query.run(sinkName="one")

    assert seen == [[(1,), (2,)], [(1, "a")]], "readers of files see the second batch already"
    assert query.whole() == [(1, "a"), (2, "b")]
    with pytest.raises(UsageError, match=r"no batch is in this folder yet.*prefix='another'"):
        query.whole(prefix="another")


@pytest.mark.sampled("files")
def test_several_sinks_share_a_folder_and_each_is_read_by_its_prefix(query: Query) -> None:
    query.add({"id": 1, "day": "a"})
    one = oncelog_files.sink(path=str(query.out), transactionalIdPrefix="q", sinkName="one")
    two = oncelog_files.sink(path=str(query.out), transactionalIdPrefix="q", sinkName="two", format="json")

    def write(batch: DataFrame, batch_id: int) -> None:
        one(batch, batch_id)
        two(batch.selectExpr("id + 10 AS id", "day"), batch_id)

    run_available(query.source().writeStream.foreachBatch(write), query.checkpoint)

    assert (query.whole(prefix="q.one"), query.whole(prefix="q.two")) == ([(1, "a")], [(11, "a")])
    with pytest.raises(UsageError, match=r"the batches have several formats.*\['json', 'parquet'\]"):
        query.whole()


@pytest.mark.sampled("files")
def test_a_stateful_query_may_write_files(query: Query) -> None:
    query.add({"id": 1, "day": "a"}, {"id": 1, "day": "a"}, {"id": 2, "day": "b"})
    query.add({"id": 1, "day": "a"}, {"id": 3, "day": "c"})

    query.run(query.source().dropDuplicates(["id"]))
    forget_last_commit(query.checkpoint)
    query.run(query.source().dropDuplicates(["id"]))

    assert [report.is_replay for report in query.reports] == [True]
    assert visible(query.out, "id") == [(1,), (2,), (3,)]
