"""A Delta table passes the contract of targets, as every other place that batches are written to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lakes import DeltaWorld
from oncelog.testing.target_contract import TargetContract, TargetWorld


@pytest.mark.usefixtures("spark")
class TestDeltaTarget(TargetContract):
    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[TargetWorld]:
        found = DeltaWorld(tmp_path)
        yield found
        assert found.left() == []
        found.close()


@pytest.mark.variant(by="upserts")
@pytest.mark.usefixtures("spark")
class TestDeltaTargetOfUpserts(TargetContract):
    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[TargetWorld]:
        found = DeltaWorld(tmp_path, key_columns=("value",))
        yield found
        assert found.left() == []
        found.close()
