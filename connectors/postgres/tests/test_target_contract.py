"""A table of PostgreSQL passes the contract of targets, as every other place that batches are written to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from oncelog.testing.target_contract import TargetContract, TargetWorld
from tests.support.servers.postgres import PostgresServer
from worlds import PostgresWorld


class _World(TargetContract):
    options: ClassVar[dict[str, Any]]

    @pytest.fixture
    def world(self, tmp_path: Path, postgres: PostgresServer) -> Iterator[TargetWorld]:
        found = PostgresWorld(tmp_path, postgres, **self.options)
        yield found
        assert found.left() == []
        found.close()


class TestPostgresTarget(_World):
    options: ClassVar[dict[str, Any]] = {}


class TestTransactionsOfTasks(_World):
    options: ClassVar[dict[str, Any]] = {"transaction": "task"}
