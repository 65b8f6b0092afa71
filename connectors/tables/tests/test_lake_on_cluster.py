"""A stage of the sink that Spark runs again, on executors of their own."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakes import create_delta, delta_rows, left_folders
from tests.support.spark.reruns import Rerun, RerunContract

pytestmark = pytest.mark.walk("tasks that die, or run twice, leave one copy")


class World(Rerun):
    """Such a query into a Delta table."""

    def __init__(self, folder: Path) -> None:
        self._table = folder / "table"
        create_delta(self._table, pa.schema({"id": pa.int32(), "value": pa.string()}))
        super().__init__(folder, "oncelog_tables:delta", {"path": str(self._table), "znodes": str(folder / "ledger")})

    def found(self) -> list[tuple[object, ...]]:
        return sorted((row["id"], row["value"]) for row in delta_rows(self._table))

    def left(self) -> list[str]:
        return left_folders(self._table)


class TestDeltaOnCluster(RerunContract):
    @pytest.fixture
    def world(self, tmp_path: Path) -> World:
        return World(tmp_path)
