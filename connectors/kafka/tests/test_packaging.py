"""How the connector's jar reaches Spark."""

from __future__ import annotations

import zipfile

import pytest
from pyspark.sql import SparkSession

import oncelog.spark
import oncelog_kafka
from oncelog.errors import UsageError
from oncelog_kafka import packaging
from oncelog_kafka.data_source import KafkaDataSource
from tests.support.servers.kafka import require_shims
from tests.support.spark.packaging_contract import PackagingContract


class TestPackaging(PackagingContract):
    package = oncelog_kafka
    packaging = packaging

    def require_jar(self) -> None:
        require_shims()


def test_the_jar_carries_kafkas_client_under_its_own_name_and_nothing_of_sparks() -> None:
    require_shims()
    names = zipfile.ZipFile(oncelog_kafka.jars()).namelist()
    classes = {name for name in names if name.endswith(".class")}

    assert all(name.startswith("io/oncelog/kafka/") for name in classes)
    assert "io/oncelog/kafka/relocated/clients/consumer/KafkaConsumer.class" in classes


def test_a_session_with_both_jars_may_be_asked_for_again_by_either_package(spark: SparkSession) -> None:
    """Each leaves its own jar alone in the session's settings, and the context's say what was loaded."""
    for package in (oncelog.spark, oncelog_kafka, oncelog.spark):
        assert package.configure(SparkSession.builder).getOrCreate() is spark


@pytest.mark.parametrize("question", ["schema", "reader", "streamReader", "writer", "streamWriter"])
def test_a_spark_without_the_jar_says_how_to_bring_it(question: str) -> None:
    """Spark then finds the Python half under the name."""
    arguments = {"schema": (), "reader": (None,), "streamReader": (None,)}.get(question, (None, False))

    with pytest.raises(UsageError, match=r"the Kafka connector.s jar is not in this Spark.*before that, not after it"):
        getattr(KafkaDataSource({"topic": "t"}), question)(*arguments)
