"""How the connector's jar reaches Spark."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import oncelog.spark
import oncelog_kafka
from oncelog.errors import UsageError
from oncelog_kafka import packaging
from tests.support.servers.kafka import require_shims


def test_jar_carries_kafkas_client_under_its_own_name_and_nothing_of_sparks() -> None:
    require_shims()
    names = zipfile.ZipFile(oncelog_kafka.jars()).namelist()
    classes = {name for name in names if name.endswith(".class")}
    assert all(name.startswith("io/oncelog/kafka/") for name in classes)
    assert "io/oncelog/kafka/relocated/clients/consumer/KafkaConsumer.class" in classes


def test_jar_that_is_not_built_is_an_error_that_says_how(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(packaging, "JAR", tmp_path / "missing.jar")
    with pytest.raises(UsageError, match="make shims"):
        oncelog_kafka.jars()


def test_session_that_runs_without_the_jar_is_refused(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "other.jar"
    other.touch()
    monkeypatch.setattr(packaging, "JAR", other)
    with pytest.raises(UsageError, match=r"ADD JAR does not help.*other\.jar"):
        oncelog_kafka.configure(SparkSession.builder)


def test_session_that_runs_with_the_jar_may_be_asked_for_again(spark: SparkSession) -> None:
    assert oncelog_kafka.configure(SparkSession.builder).getOrCreate() is spark


def test_session_with_both_jars_may_be_asked_for_again_by_either_package(spark: SparkSession) -> None:
    """Each leaves its own jar alone in the session's settings, and the context's say what was loaded."""
    for package in (oncelog.spark, oncelog_kafka, oncelog.spark):
        assert package.configure(SparkSession.builder).getOrCreate() is spark


def test_configure_keeps_the_jars_that_were_named_before(monkeypatch: pytest.MonkeyPatch) -> None:
    require_shims()
    monkeypatch.setattr(SparkSession, "getActiveSession", classmethod(lambda cls: None))
    builder = SparkSession.Builder().config("spark.jars", "/a.jar,/b.jar")
    for _ in range(2):
        oncelog_kafka.configure(builder)
    assert builder._options["spark.jars"] == f"/a.jar,/b.jar,{oncelog_kafka.jars()}"
