"""Options as users give them: every mistake has an error of its own, and no credentials are repeated."""

from __future__ import annotations

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import oncelog_files
from oncelog.errors import InvalidOptionError, UsageError
from oncelog.spark.kit.folders import ledger_inside
from oncelog_files.batch_sink import FilesSink
from oncelog_files.options import OPTIONS
from tests.support.harness.marked_secrets import assert_hidden, given


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "a required option is missing.*option='path'"),
        ({"path": " "}, "malformed.*option='path'.*a text that is not empty"),
        ({"path": "/data/*/out"}, "malformed.*option='path'.*a folder, without"),
        ({"path": "/out", "format": "delta"}, "malformed.*option='format'.*one of parquet, orc, json"),
        ({"path": "/out", "mode": "overwrite"}, "malformed.*option='mode'.*one of append"),
        ({"path": "/out", "partitionBy": "year,"}, "names of columns, separated by commas"),
        ({"path": "/out", "partition_by": "year"}, "unknown option.*did_you_mean='partitionBy'"),
        ({"path": "/out", "codec": "zstd"}, "unknown option.*option='codec'"),
        ({"path": "/out", "format.path": "/other"}, "not an option of Spark's writer .*option='format.path'"),
        ({"path": "/out", "format.*": "x"}, r"not an option of Spark's writer .*option='format.\*'"),
        ({"path": "/out", "compression": "zstd", "format.Compression": "gzip"}, "given twice.*'format.Compression'"),
        ({"path": "/out", "format.header": 1.5}, "must be text, a whole number .*option='format.header'"),
        ({"path": "/out", "takeover": "id"}, "needs a transactionalIdPrefix"),
    ],
)
def test_options_that_are_wrong_are_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOptionError, match=said):
        oncelog_files.sink(**options)


@pytest.mark.parametrize("path", ["s3a://key:hunter2@bucket/out", "hdfs://hunter2@host/out"])
def test_credentials_in_the_path_are_refused_and_not_repeated(path: str) -> None:
    with pytest.raises(InvalidOptionError, match="must not contain credentials") as refused:
        oncelog_files.sink(path=path, znodes="/ledger")

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("path", "ledger"),
    [
        ("/data/out", "/data/out/_oncelog/ledger"),
        ("file:/data/out", "/data/out/_oncelog/ledger"),
        ("file:///data/out a", "/data/out a/_oncelog/ledger"),
        ("out", f"{Path.cwd()}/out/_oncelog/ledger"),
    ],
)
def test_the_ledger_of_a_local_folder_is_in_it(path: str, ledger: str) -> None:
    assert oncelog_files.sink(path=path).options.znodes is None
    assert ledger_inside(path, is_local=True) == ledger


@pytest.mark.parametrize("path", ["hdfs://host/out", "s3a://bucket/out"])
def test_the_ledger_of_a_folder_elsewhere_needs_a_place(path: str) -> None:
    sink = oncelog_files.sink(path=path)

    with pytest.raises(InvalidOptionError, match="name its place with znodes") as refused:
        sink.open()

    assert refused.value.fields == {"missing": "znodes", "path": path}


def test_a_sink_can_be_pickled_and_shows_its_options() -> None:
    sink = oncelog_files.sink(
        path="hdfs://host/out",
        znodes="/ledger",
        format="CSV",
        partitionBy="year, month",
        compression="gzip",
        **{"format.header": True},
    )
    revived: FilesSink = pickle.loads(pickle.dumps(sink))

    assert revived.options == sink.options
    assert (sink.options.format, sink.options.partition_by) == ("csv", ("year", "month"))
    assert sink.options.writer == {"compression": "gzip", "header": "true"}
    assert sink.options.znodes == "/ledger"
    assert "partition_by=('year', 'month')" in repr(sink)


def test_whole_batches_need_a_session() -> None:
    with pytest.raises(UsageError, match=r"read by a SparkSession .*found='str'"):
        oncelog_files.read("spark", "/out")


def test_no_option_shows_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    sinks = given(OPTIONS, {"path": "/out", "format": "parquet"})

    assert_hidden(((one, partial(oncelog_files.sink, **one)) for one in sinks), caplog)
