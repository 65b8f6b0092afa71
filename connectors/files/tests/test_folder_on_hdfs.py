"""A folder on a real HDFS: the contract of targets, and a NameNode that is killed between decision and commit."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from folder_worlds import FilesWorld, visible
from oncelog.errors import FileUnavailableError
from oncelog.spark.kit.spark_files import SparkFiles
from oncelog.spark.kit.staged_names import STAGING
from oncelog.testing.target_contract import FIRST, SECOND, TargetContract, at
from oncelog_files import options as sink_options
from oncelog_files.batch_sink import FilesTarget
from oncelog_files.crash_points import FilesCrashPoint
from tests.support.servers.hdfs import HdfsServer, running_hdfs

pytestmark = [pytest.mark.slow, pytest.mark.sampled("files")]


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    """A server that the tests of this module share."""
    with running_hdfs(tmp_path_factory.mktemp("hdfs")) as server:
        yield server


class HdfsWorld(FilesWorld):
    """A folder on HDFS; a reader without Spark gets a copy of it."""

    _numbers = itertools.count()

    def __init__(self, folder: Path, spark: SparkSession, hdfs: HdfsServer) -> None:
        super().__init__(folder, spark)
        self.url = f"{hdfs.url}/data/{next(self._numbers)}"
        self.files = SparkFiles(spark, self.url)

    def target(self) -> FilesTarget:
        return FilesTarget(self.store, sink_options.parse({"path": self.url, "znodes": self.ledger, **self.options}))

    def visible(self) -> list[str]:
        copy = self.folder / f"copy-{next(self._numbers)}"
        jvm: Any = self.spark._jvm
        path = jvm.org.apache.hadoop.fs.Path
        if self.files.is_folder(""):
            self.files._fs.copyToLocalFile(False, path(self.url), path(f"file:{copy}"), True)
        return [value for (value,) in visible(copy, "value")]

    def left(self) -> list[str]:
        return [left for of in self.files.names(STAGING) for left in self.files.names(f"{STAGING}/{of}")]


class TestFilesTargetOnHdfs(TargetContract):
    @pytest.fixture
    def world(self, tmp_path: Path, spark: SparkSession, hdfs: HdfsServer) -> Iterator[HdfsWorld]:
        found = HdfsWorld(tmp_path, spark, hdfs)
        yield found
        assert found.left() == []
        found.close()


def test_a_name_node_that_dies_is_waited_for_by_a_restart(tmp_path: Path, spark: SparkSession) -> None:
    with running_hdfs(tmp_path) as hdfs:
        world = HdfsWorld(tmp_path, spark, hdfs)
        with at(FilesCrashPoint.WRITTEN, hdfs.kill), pytest.raises(FileUnavailableError, match="cannot be read"):
            world.run(0, FIRST)
        hdfs.start()
        assert not world.run(0, FIRST, "run-2").is_replay, "nothing was decided"

        with at(FilesCrashPoint.SHOW, hdfs.kill), pytest.raises(FileUnavailableError) as away:
            world.run(1, SECOND, "run-2")
        assert "the batch is decided: see that the file system is back" in str(away.value)
        hdfs.start()
        assert world.run(1, SECOND, "run-3").is_replay

        assert world.holds(FIRST, SECOND)
        assert world.left() == []
        world.close()
