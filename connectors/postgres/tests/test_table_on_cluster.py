"""A stage of the sink that Spark runs again, on executors of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.servers.postgres import PostgresServer
from tests.support.spark.reruns import Rerun, RerunContract
from worlds import left_staging, new_table

pytestmark = [
    pytest.mark.walk("tasks that die, or run twice, leave one copy"),
    pytest.mark.parametrize("transaction", ["batch", "task"]),
]


class World(Rerun):
    """Such a query into a table."""

    def __init__(self, server: PostgresServer, folder: Path, transaction: str) -> None:
        self._server = server
        self._url = server.url()
        self._table = new_table(server, "id int NOT NULL, value text")
        sink = {"url": self._url, "table": self._table, "transaction": transaction}
        super().__init__(folder, "oncelog_postgres:sink", sink)

    def found(self) -> list[tuple[object, ...]]:
        return self._server.ask(f"SELECT id, value FROM {self._table} ORDER BY id")

    def left(self) -> list[object]:
        prepared = self._server.ask("SELECT gid FROM pg_prepared_xacts")
        return [*left_staging(self._server, self._url), *prepared]


class TestTableOnCluster(RerunContract):
    @pytest.fixture
    def world(self, postgres: PostgresServer, tmp_path: Path, transaction: str) -> World:
        return World(postgres, tmp_path, transaction)
