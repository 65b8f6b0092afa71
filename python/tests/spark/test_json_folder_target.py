"""The example of a target in docs/guides/extending-target.md: its contract, and a query that writes through it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from json_folder_target import JsonFolderSink
from oncelog.crash_points import CrashPoint
from oncelog.spark.kit.ledgers import close_ledgers
from oncelog.testing.target_contract import StoppedOnPurposeError, at, stop
from tests.style.tree import ROOT
from tests.support.docs.blocks import programs
from tests.support.spark.queries import forget_last_commit
from tests.support.spark.spark_home import environment, jvm_options


@pytest.mark.sampled("packages")
def test_the_tests_that_the_page_shows_pass_in_a_folder_that_holds_nothing_else(tmp_path: Path) -> None:
    target, tests = programs(ROOT / "docs/guides/extending-target.md")
    (tmp_path / "json_folder_target.py").write_text(target.code)
    (tmp_path / "test_json_folder_target.py").write_text(tests.code)
    quick = f"--master local[2] --conf spark.ui.enabled=false --driver-java-options '{jvm_options()}' pyspark-shell"

    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, **environment(), "PYSPARK_SUBMIT_ARGS": quick},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_query_that_is_killed_and_started_again_leaves_each_row_once(spark: SparkSession, tmp_path: Path) -> None:
    source, out, checkpoint = tmp_path / "in", tmp_path / "out", tmp_path / "checkpoint"
    source.mkdir()
    out.mkdir()

    def run(**more: Any) -> None:
        rows = spark.readStream.schema("value string").option("maxFilesPerTrigger", 1).text(str(source))
        sink = JsonFolderSink(str(out), str(tmp_path / "ledger"), "copier")
        query = rows.writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
        try:
            query.trigger(availableNow=True).start().awaitTermination()
        finally:
            close_ledgers()  # queries leave that to the end of their process

    written = []
    for number, point in enumerate([CrashPoint.ROUND_DECIDE, CrashPoint.ROUND_DECIDED, CrashPoint.SINK_DONE]):
        (source / f"{number}.txt").write_text(f"row-{number}\n")
        written.append(f"row-{number}")
        with at(point, stop), pytest.raises(Exception, match=StoppedOnPurposeError.__name__):
            run()
        run()
        assert sorted(read(out)) == written
    forget_last_commit(checkpoint)
    run()

    assert sorted(read(out)) == written


def read(folder: Path) -> list[str]:
    return [json.loads(line)["value"] for file in folder.glob("*.json") for line in file.read_text().splitlines()]
