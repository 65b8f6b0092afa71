"""Tests of what a target does with values at the edges of their types, to derive from. They need pytest and PySpark.

    class TestValuesInMyStore(ValueContract):
        @pytest.fixture
        def world(self, tmp_path: Path, spark: SparkSession) -> Iterator[ValueWorld]:
            yield MyValueWorld(tmp_path, spark)

A store need not take every value. What it does not take is refused before the batch is decided, by an error that names
the column: a decided batch that cannot be committed would stop the query for good. What it takes, a reader sees
unchanged. The reader of a world must share no code with the target.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from itertools import count
from math import isnan
from pathlib import Path
from typing import Any

from oncelog.extras import extras

with extras("spark,testing", part="oncelog.testing.value_contract"):
    import pytest
    from pyspark.sql import DataFrame, SparkSession

from oncelog.errors import OncelogError
from oncelog.testing.extreme_values import EXTREME_VALUES, ODD_COLUMN_NAMES, UNSPEAKABLE, ExtremeValue
from oncelog.testing.target_contract import TargetWorld


class ValueWorld(TargetWorld):
    """A store for rows with a column of any type, its ledger, and drivers.

    Attributes:
        column: the name of the column in the tests of values; errors must name it.
    """

    column = "the value"

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        super().__init__(folder)
        self.spark = spark
        self._batch_ids = count()

    @abstractmethod
    def create(self, column: str, type_: str) -> bool:
        """Create an empty table with one column, of this type in Spark's DDL; the drivers write into it from now on.

        Returns:
            False if the store has no such type, or no column can have such a name: there is nothing to test.
        """

    @abstractmethod
    def rows_job(self, rows: DataFrame) -> Any:
        """The job that writes these rows, as the sink makes it."""

    @abstractmethod
    def read(self, column: str) -> list[Any]:
        """The column of all rows, as a reader without oncelog sees it now."""

    def expected(self, value: ExtremeValue) -> Any:
        """What a reader sees of a value that the store took: the value, unless the store has another form for it."""
        return value.python

    def write(self, rows: DataFrame) -> None:
        """Write the rows as the next batch."""
        batch_id = next(self._batch_ids)
        self.run_job(batch_id, self.rows_job(rows))

    def is_decided(self) -> bool:
        """Whether a batch was decided."""
        target: Any = self.target()
        found = target.ledgers.read(target.store, self.prefix)
        return found is not None and found.last is not None

    def job(self, values: Any) -> Any:
        return self.rows_job(self.spark.createDataFrame([(value,) for value in values], "value string"))

    def visible(self) -> list[str]:
        return self.read("value")


class ValueContract:
    """The tests; a subclass has the fixture `world`."""

    @pytest.mark.parametrize("value", EXTREME_VALUES, ids=lambda value: value.name.replace(" ", "-"))
    def test_an_extreme_value_is_read_back_or_refused_before_the_decision(
        self, world: ValueWorld, value: ExtremeValue
    ) -> None:
        if not world.create(world.column, value.type):
            return

        found = written_or_refused(world, world.spark.sql(f"SELECT {value.sql} AS `{world.column}`"), world.column)

        if found is not None:
            expected = world.expected(value)
            assert expected is not UNSPEAKABLE, f"the sink took a value that no reader can see: {found}"
            read = [narrowed(one) if value.type == "float" else one for one in found]
            assert [is_same(one, expected) for one in read] == [True], f"{found} is not {expected!r}"

    @pytest.mark.parametrize(
        "value",
        [ExtremeValue("text", "string", "'a'", "a"), ExtremeValue("array", "array<int>", "array(1)", [1])],
        ids=lambda value: value.name,
    )
    def test_rows_without_a_value_stay_where_they_are_among_others(
        self, world: ValueWorld, value: ExtremeValue
    ) -> None:
        if not world.create(world.column, value.type):
            return
        rows = f"NULL, {value.sql}, NULL, NULL, {value.sql}, NULL"

        batch = world.spark.sql(f"SELECT explode(array({rows})) AS `{world.column}`")

        found = written_or_refused(world, batch, world.column)

        if found is not None:
            assert sorted(found, key=str) == sorted([None] * 4 + [world.expected(value)] * 2, key=str)

    @pytest.mark.parametrize("column", ODD_COLUMN_NAMES, ids=lambda column: repr(column)[:20])
    def test_a_column_of_any_name_is_written_or_refused_by_its_name(self, world: ValueWorld, column: str) -> None:
        if not world.create(column, "string"):
            return
        quoted = column.replace("`", "``")

        found = written_or_refused(world, world.spark.sql(f"SELECT 'a' AS `{quoted}`"), column)

        assert found in (None, ["a"])


def written_or_refused(world: ValueWorld, rows: DataFrame, column: str) -> list[Any] | None:
    """Write a batch; what a reader sees then, or None if it was refused as it must be."""
    try:
        world.write(rows)
    except OncelogError as problem:
        refusal = str(problem)
    else:
        return world.read(column)
    assert not world.is_decided(), f"the batch was decided before it was refused: {refusal}"
    assert column in refusal or repr(column)[1:-1] in refusal, f"the error names no column: {refusal}"
    assert world.read(column) == []
    return None


def narrowed(value: float | None) -> float | None:
    """A number of 32 bits, of which a reader may see as few digits as tell it from others."""
    return None if value is None else float(struct.unpack("f", struct.pack("f", value))[0])


def is_same(found: Any, expected: Any) -> bool:
    """Whether a value was read back unchanged: NaN is NaN, and -0.0 is not 0.0."""
    if isinstance(expected, float) and isinstance(found, float):
        return (isnan(found) and isnan(expected)) or repr(found) == repr(expected)
    return bool(found == expected and type(found is None) is type(expected is None))
