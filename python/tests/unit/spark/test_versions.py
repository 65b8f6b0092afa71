"""Which versions of Spark are let in."""

from __future__ import annotations

import pytest

from oncelog.errors import UsageError
from oncelog.spark.versions import check_version


@pytest.mark.parametrize("version", ["4.0.0", "4.0.5", "4.1.4", "4.3.0", "4.4.0.dev1"])
def test_spark_4_is_let_in(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize(
    ("version", "age"), [("3.5.9", "too old"), ("2.4", "too old"), ("5.0.0", "too new"), ("41.0", "too new")]
)
def test_another_spark_is_refused_in_one_sentence(version: str, age: str) -> None:
    with pytest.raises(UsageError, match=rf"PySpark {version} is {age}: oncelog runs on Spark 4.0 to 4.3; "):
        check_version(version)
