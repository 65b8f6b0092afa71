"""An Iceberg table passes the contract of targets, as every other place that batches are written to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakes import IcebergValueWorld, IcebergWorld
from oncelog.testing.target_contract import TargetContract, TargetWorld
from oncelog.testing.value_contract import ValueContract, ValueWorld


@pytest.mark.variant(by="iceberg")
@pytest.mark.usefixtures("spark")
class TestIcebergTarget(TargetContract):
    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[TargetWorld]:
        found = IcebergWorld(tmp_path)
        yield found
        assert found.left() == []
        found.close()


@pytest.mark.variant(by="upserts")
@pytest.mark.usefixtures("spark")
class TestIcebergTargetOfUpserts(TargetContract):
    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[TargetWorld]:
        found = IcebergWorld(tmp_path, key_columns=("value",))
        yield found
        assert found.left() == []
        found.close()


class TestValuesInAnIcebergTable(ValueContract):
    @pytest.fixture
    def world(self, tmp_path: Path, spark: SparkSession) -> Iterator[ValueWorld]:
        found = IcebergValueWorld(tmp_path, spark)
        yield found
        found.close()
