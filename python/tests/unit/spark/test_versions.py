"""Which versions of Spark are let in."""

from __future__ import annotations

import pytest

from oncelog.errors import UsageError
from oncelog.spark.versions import check_version


@pytest.mark.parametrize("version", ["4.0.0", "4.0.5", "4.1.4", "4.3.0", "4.4.0.dev1"])
def test_spark_4_is_let_in(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize("version", ["3.5.8", "5.0.0", "41.0"])
def test_another_spark_is_refused_in_one_sentence(version: str) -> None:
    with pytest.raises(UsageError, match=rf"runs on Spark 4.0 to 4.3, but this is {version}; install a supported "):
        check_version(version)
