"""How oncelog's jar reaches Spark."""

from __future__ import annotations

import os
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

import oncelog.spark
from oncelog.errors import UsageError
from oncelog.spark import packaging
from oncelog.spark.packaging import Jar
from tests.support.spark import spark_home
from tests.support.spark.jobs import submitted
from tests.support.spark.packaging_contract import PackagingContract
from tests.support.spark.processes import Program
from tests.support.spark.readers import require_jar

pytestmark = pytest.mark.sampled("packages")


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


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("io.oncelog.NotThere", r"without a jar, which cannot be added later \(neither ADD JAR nor stop\(\) helps\)"),
        (
            "org.apache.spark.sql.SparkSession",
            f"a jar of oncelog {pyspark.__version__}, but this Python package is oncelog {oncelog.__version__}",
        ),
    ],
    ids=["without", "another"],
)
def test_a_spark_that_started_without_the_jar_or_with_another_one_is_refused(
    spark: SparkSession, tmp_path: Path, entry: str, problem: str
) -> None:
    """Spark's own class stands for one of a jar of another version: a manifest says the version of either."""
    jar = Jar(tmp_path / "a.jar", "a jar", entry)
    jar.path.touch()

    with pytest.raises(UsageError, match=problem):
        packaging.with_jar(SparkSession.builder, jar)


@pytest.mark.slow
def test_workers_run_the_programs_interpreter_though_the_path_leads_to_another(tmp_path: Path) -> None:
    """As a notebook's kernel and cron start it: by the interpreter's path, in no activated environment."""
    require_jar()
    wrong = tmp_path / "bin" / "python3"
    wrong.parent.mkdir()
    wrong.write_text("#!/bin/sh\nexit 1\n")
    wrong.chmod(0o755)
    variables = {name: value for name, value in spark_home.environment().items() if not name.startswith("PYSPARK_")}
    variables["PATH"] = f"{wrong.parent}:{os.environ['PATH']}"

    with Program([sys.executable, str(Path(submitted.__file__))], tmp_path, "job", {**os.environ, **variables}) as job:
        assert job.wait() == 0, job.last_lines()


@pytest.mark.slow
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
