"""The example of a target in docs/guides/extending-target.md: its contract, and a query that writes through it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyspark.sql import DataFrame, SparkSession

from json_folder_target import LEDGERS, JsonFolder, JsonFolderSink
from oncelog.crash_points import CrashPoint
from oncelog.metadata import open_metadata
from oncelog.ports import ZnodeStore
from oncelog.spark.kit.receipts import ReceiptsTarget
from oncelog.testing.target_contract import StoppedOnPurposeError, TargetContract, TargetWorld, at, stop
from tests.support.spark.queries import forget_last_commit


class JsonFolderWorld(TargetWorld):
    spark: ClassVar[SparkSession]

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.store: ZnodeStore = open_metadata(str(folder / "ledger"))
        (folder / "out").mkdir()

    def target(self) -> ReceiptsTarget[DataFrame]:
        return ReceiptsTarget(self.store, LEDGERS, JsonFolder(self.folder / "out"))

    def job(self, values: Sequence[str]) -> DataFrame:
        return self.spark.createDataFrame([(value,) for value in values], "value string").coalesce(2)

    def visible(self) -> list[str]:
        return read(self.folder / "out")

    def close(self) -> None:
        self.store.close()


def read(folder: Path) -> list[str]:
    return [json.loads(line)["value"] for file in folder.glob("*.json") for line in file.read_text().splitlines()]


class TestJsonFolder(TargetContract):
    world_class = JsonFolderWorld

    @pytest.fixture(autouse=True)
    def _spark(self, spark: SparkSession) -> None:
        JsonFolderWorld.spark = spark


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
            if sink._target is not None:
                sink._target.store.close()  # queries leave that to the end of their process

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
