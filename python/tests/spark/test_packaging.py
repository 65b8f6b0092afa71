"""How oncelog's jar reaches Spark."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import oncelog.spark
from oncelog.errors import UsageError
from oncelog.spark import packaging
from tests.support.spark import spark_home
from tests.support.spark.jobs import submitted
from tests.support.spark.processes import Program
from tests.support.spark.readers import require_jar


def test_the_jar_is_small_and_holds_nothing_of_others() -> None:
    require_jar()
    names = zipfile.ZipFile(oncelog.spark.jars()).namelist()

    assert all(name.startswith("io/oncelog/spark/") for name in names if name.endswith(".class"))
    assert Path(oncelog.spark.jars()).stat().st_size < 200_000


def test_a_jar_that_is_not_built_is_an_error_that_says_how(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(packaging, "JAR", tmp_path / "missing.jar")

    for ask in (oncelog.spark.jars, lambda: oncelog.spark.configure(SparkSession.builder)):
        with pytest.raises(UsageError, match="make shims"):
            ask()


def test_a_session_that_runs_without_the_jar_is_refused(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "other.jar"
    other.touch()
    monkeypatch.setattr(packaging, "JAR", other)

    with pytest.raises(UsageError, match=r"ADD JAR does not help.*other\.jar"):
        oncelog.spark.configure(SparkSession.builder)


def test_a_session_that_runs_with_the_jar_may_be_asked_for_again(spark: SparkSession) -> None:
    require_jar()

    assert oncelog.spark.configure(SparkSession.builder).getOrCreate() is spark


def test_the_jars_that_were_named_before_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    require_jar()
    monkeypatch.setattr(SparkSession, "getActiveSession", classmethod(lambda cls: None))
    builder = SparkSession.Builder().config("spark.jars", "/a.jar,/b.jar")

    for _ in range(2):
        oncelog.spark.configure(builder)

    assert builder._options["spark.jars"] == f"/a.jar,/b.jar,{oncelog.spark.jars()}"


# Where Spark runs before the program ----------------------------------------------------------------------------------


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


@pytest.mark.parametrize("where", ["builder", "environment"])
def test_a_session_of_spark_connect_is_told_that_jars_are_on_its_server(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_jar()
    builder = SparkSession.Builder()
    if where == "builder":
        builder = builder.remote("sc://localhost")
    else:
        monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")

    with pytest.raises(UsageError, match="jars on the server"):
        oncelog.spark.configure(builder)
