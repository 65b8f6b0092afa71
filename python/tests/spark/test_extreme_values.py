"""Values at the edges of their types in the embedded log: every text and every binary value is stored unchanged."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import oncelog
from oncelog.runtime import Log
from oncelog.spark import jvm_tasks, schema
from oncelog.spark.kit.options import Use
from oncelog.spark.log_target import Job, LogTarget
from oncelog.spark.logs import close_logs
from oncelog.spark.options import parse_sink_options
from oncelog.testing.extreme_values import ExtremeValue
from oncelog.testing.target_contract import PREFIX
from oncelog.testing.value_contract import ValueContract, ValueWorld
from tests.support.log.logs import TOPIC, values


class LogValueWorld(ValueWorld):
    """A topic of a log: its rows are bytes."""

    column = "value"

    def __init__(self, folder: Path, spark: SparkSession, log: Log) -> None:
        super().__init__(folder, spark)
        self.log = log

    def create(self, column: str, type_: str) -> bool:
        if column != self.column or type_ not in ("string", "binary"):
            return False
        self.log.create_topic(TOPIC)
        return True

    def target(self) -> LogTarget:
        given = {"path": self.log.path, "topic": TOPIC, "transactionalIdPrefix": PREFIX}
        return LogTarget(self.log, parse_sink_options(given, Use.FOREACH_BATCH))

    def rows_job(self, rows: DataFrame) -> Job:
        return partial(jvm_tasks.run_job, schema.to_sink_columns(rows, TOPIC))

    def read(self, column: str) -> list[Any]:
        return list(values(self.log, topic=TOPIC))

    def expected(self, value: ExtremeValue) -> Any:
        (row,) = self.spark.sql(f"SELECT CAST({value.sql} AS binary)").collect()
        return None if row[0] is None else bytes(row[0])


class TestValuesInALog(ValueContract):
    @pytest.fixture
    def world(self, tmp_path: Path, spark: SparkSession) -> Iterator[ValueWorld]:
        with oncelog.open(tmp_path / "log") as log:
            yield LogValueWorld(tmp_path, spark, log)
            close_logs()
