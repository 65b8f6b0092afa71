"""The example of a target passes the contract of every target."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from json_folder_target import LEDGERS, JsonFolder
from oncelog.batches.committables import CommitterTarget
from oncelog.metadata import open_metadata
from oncelog.testing.target_contract import TargetContract, TargetWorld


class JsonFolderWorld(TargetWorld):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.store = open_metadata(str(folder / "ledger"))
        self.out = folder / "out"
        self.out.mkdir()

    def target(self) -> CommitterTarget[DataFrame]:
        return CommitterTarget(self.store, LEDGERS, lambda _: JsonFolder(self.out))

    def job(self, values: Sequence[str]) -> DataFrame:
        spark = SparkSession.builder.getOrCreate()
        return spark.createDataFrame([(value,) for value in values], "value string").coalesce(2)

    def visible(self) -> list[str]:
        lines = [line for file in self.out.glob("*.json") for line in file.read_text().splitlines()]
        return [json.loads(line)["value"] for line in lines]

    def close(self) -> None:
        self.store.close()


class TestJsonFolder(TargetContract):
    world_class = JsonFolderWorld
