"""How oncelog's jar reaches Spark."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

import oncelog.spark
from oncelog.spark import packaging
from tests.support.spark import spark_home
from tests.support.spark.jobs import submitted
from tests.support.spark.packaging_contract import PackagingContract
from tests.support.spark.processes import Program
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


@pytest.mark.programs
def test_a_submitted_program_is_told_to_name_the_jar_and_runs_where_it_is_named(tmp_path: Path) -> None:
    require_jar()
    submit = [str(spark_home.lean_spark_home() / "bin" / "spark-submit"), "--master", "local[1]"]
    job = [str(Path(submitted.__file__))]

    for folder in ("without", "with"):
        (tmp_path / folder).mkdir()
    with Program([*submit, *job], tmp_path / "without", "job") as without:
        assert without.wait() != 0
        assert 'spark-submit --jars "$(oncelog jars)"' in without.last_lines()
    with Program([*submit, "--jars", oncelog.spark.jars(), *job], tmp_path / "with", "job") as named:
        assert named.wait() == 0, named.last_lines()
