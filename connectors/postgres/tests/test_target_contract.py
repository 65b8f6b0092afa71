"""A table of PostgreSQL passes the contract of targets, as every other place that batches are written to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from pyspark.sql import DataFrame, SparkSession

from oncelog import metadata
from oncelog.testing.target_contract import TargetContract, TargetWorld
from oncelog_postgres import options as sink_options
from oncelog_postgres.target import PostgresTarget
from tests.support.servers.postgres import PostgresServer
from worlds import new_table


class PostgresWorld(TargetWorld):
    spark: ClassVar[SparkSession]
    server: ClassVar[PostgresServer]

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.url = self.server.url()
        self.table = new_table(self.server, "value text")
        self.store = metadata.open_metadata(str(folder / "ledger"))

    def target(self) -> PostgresTarget:
        return PostgresTarget(self.store, sink_options.parse({"url": self.url, "table": self.table}))

    def job(self, values: Sequence[str]) -> DataFrame:
        return self.spark.createDataFrame([(value,) for value in values], "value string").coalesce(2)

    def visible(self) -> list[str]:
        return [str(value) for (value,) in self.server.ask(f"SELECT value FROM {self.table}")]

    def close(self) -> None:
        self.store.close()


class TestPostgresTarget(TargetContract):
    world_class = PostgresWorld

    @pytest.fixture(autouse=True)
    def _parts(self, spark: SparkSession, postgres: PostgresServer) -> None:
        PostgresWorld.spark, PostgresWorld.server = spark, postgres
