"""Every public call of the connector names the argument that is of a wrong type, before it does anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

import oncelog_kafka
from oncelog.errors import InvalidOptionError, UsageError
from oncelog_kafka.options import OPTIONS
from tests.support.harness.doors import VALUES, Door, doors_of, wrong_calls

DOORS = [door for door in doors_of([oncelog_kafka]) if door.parameters]


def test_the_walk_finds_what_users_call() -> None:
    assert {"KafkaSink", "KafkaSink.__call__", "oncelog_kafka.packaging.configure"} <= {door.name for door in DOORS}


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_a_wrong_type_is_refused_by_the_name_of_its_argument_and_nothing_happened(door: Door, tmp_path: Path) -> None:
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "znodes": str(tmp_path / "ledger"), "topic": "flights"}
    sink = [oncelog_kafka.sink(**options)] if door.owner else []
    good = [SparkSession.builder, object.__new__(ClassicDataFrame)]  # which no call comes to look at

    for name, label, given in wrong_calls(door, good):
        with pytest.raises(UsageError) as refused:
            door.function(*sink, **given)
        assert name in str(refused.value), label

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", [option.name for option in OPTIONS])
def test_an_option_of_a_wrong_type_is_refused_by_its_name(option: str) -> None:
    for label, make in VALUES.items():
        if not isinstance(make(), str | int | None):
            with pytest.raises(InvalidOptionError, match=option):
                oncelog_kafka.sink(**{option: make()})
                pytest.fail(label)
