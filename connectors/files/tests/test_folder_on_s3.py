"""A folder in a bucket, by S3A on a real S3 server: a driver is killed around its moves, which are copies there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.dataset as arrow
import pytest
from pyarrow import fs as arrow_fs

from killed_folders import IN_PLACE, ROWS, World
from oncelog_files.crash_points import FilesCrashPoint
from tests.support.harness.parts import require_java
from tests.support.servers.s3 import BUCKET, SECRET, S3Server, running_server
from tests.support.servers.s3a import s3a_settings

POINTS = (FilesCrashPoint.LISTED, FilesCrashPoint.SHOW, FilesCrashPoint.SHOWN, FilesCrashPoint.PUBLISHED)


class BucketWorld(World):
    """The same, in a bucket, with the ledger beside it."""

    def __init__(self, folder: Path, server: S3Server) -> None:
        super().__init__(folder)
        self._server = server
        self._bucket = arrow_fs.S3FileSystem(
            endpoint_override=f"http://127.0.0.1:{server.port}", access_key="tests", secret_key=SECRET
        )

    def sink(self) -> dict[str, str]:
        return {**super().sink(), "path": f"s3a://{BUCKET}/out", "znodes": str(self.folder / "ledger")}

    def spark(self) -> dict[str, str]:
        return s3a_settings(self._server)

    def found(self) -> list[tuple[Any, ...]]:
        files = [name for name in self._names("out", recursive=True) if name.endswith(".parquet")]
        shown = [name for name in files if "/_oncelog/" not in name]
        if not shown:
            return []
        rows = arrow.dataset(shown, filesystem=self._bucket, format="parquet").to_table(columns=["id", "value"])
        return sorted(tuple(row.values()) for row in rows.to_pylist())

    def is_clean(self) -> bool:
        return self._names("out/_oncelog/staging", recursive=True) == []

    def _names(self, folder: str, *, recursive: bool) -> list[str]:
        chosen = arrow_fs.FileSelector(f"{BUCKET}/{folder}", allow_not_found=True, recursive=recursive)
        return [info.path for info in self._bucket.get_file_info(chosen) if info.is_file]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[BucketWorld]:
    require_java()
    with running_server(tmp_path) as server:
        found = BucketWorld(tmp_path, server)
        yield found
        found.end()


@pytest.mark.slow
@pytest.mark.walk("a killed driver leaves one copy in a target")
def test_a_driver_that_is_killed_among_copies_leaves_exactly_one_copy_in_the_bucket(world: BucketWorld) -> None:
    world.walk(POINTS, lambda point: world.written if point in IN_PLACE else world.written[:-ROWS])
