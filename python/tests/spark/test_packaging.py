"""How oncelog's jar reaches Spark."""

from __future__ import annotations

import zipfile
from pathlib import Path

import oncelog.spark
from oncelog.spark import packaging
from tests.support.spark.packaging_contract import PackagingContract
from tests.support.spark.readers import require_jar


class TestPackaging(PackagingContract):
    package = oncelog.spark
    packaging = packaging

    def require_jar(self) -> None:
        require_jar()


def test_the_jar_is_small_and_holds_nothing_of_others() -> None:
    require_jar()
    names = zipfile.ZipFile(oncelog.spark.jars()).namelist()

    assert all(name.startswith("io/oncelog/spark/") for name in names if name.endswith(".class"))
    assert Path(oncelog.spark.jars()).stat().st_size < 200_000
