"""A folder passes the contract of targets, as every other place that batches are written to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from folder_worlds import FilesWorld
from oncelog.testing.target_contract import TargetContract, TargetWorld

pytestmark = pytest.mark.sampled("files")


class TestFilesTarget(TargetContract):
    @pytest.fixture
    def world(self, tmp_path: Path, spark: SparkSession) -> Iterator[TargetWorld]:
        found = FilesWorld(tmp_path, spark)
        yield found
        assert found.left() == []
        found.close()
