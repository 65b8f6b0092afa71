"""A stage of the sink that Spark runs again, on executors of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from folder_worlds import visible
from tests.support.spark.reruns import Rerun, RerunContract
from tests.support.spark.staging import left_staging

pytestmark = pytest.mark.walk("tasks that die, or run twice, leave one copy")


class World(Rerun):
    """Such a query into a folder."""

    def __init__(self, folder: Path) -> None:
        self._out = folder / "out"
        super().__init__(folder, "oncelog_files:sink", {"path": str(self._out)})

    def found(self) -> list[tuple[object, ...]]:
        return visible(self._out, "id", "value")

    def left(self) -> list[str]:
        return left_staging(self._out)


class TestFolderOnCluster(RerunContract):
    @pytest.fixture
    def world(self, tmp_path: Path) -> World:
        return World(tmp_path)
