"""A table of PostgreSQL passes the contract of targets, as every other place that batches are written to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.testing.target_contract import TargetContract, TargetWorld
from tests.support.servers.postgres import PostgresServer
from worlds import PostgresWorld


class TestPostgresTarget(TargetContract):
    @pytest.fixture
    def world(self, tmp_path: Path, postgres: PostgresServer) -> Iterator[TargetWorld]:
        found = PostgresWorld(tmp_path, postgres)
        yield found
        assert found.left() == []
        found.close()
