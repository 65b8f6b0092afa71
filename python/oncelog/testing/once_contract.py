"""Tests of what `oncelog.spark.once` asks of your two functions, to derive from.

    class TestMyStore(OnceContract):
        world_class = MyStore

They need pytest and PySpark, and write a few rows with the columns `id int, value string`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from oncelog.extras import extras

with extras("spark,testing", part="oncelog.testing.once_contract"):
    import pytest
    from pyspark.sql import DataFrame, SparkSession

Row = tuple[int, str]

FIRST: tuple[Row, ...] = ((1, "a"), (2, "b"), (3, "c"))
SECOND: tuple[Row, ...] = ((4, "d"), (5, "e"))


class OnceWorld(ABC):
    """An empty store, and your functions on it.

    Attributes:
        folder: the test's own.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def write(self, df: DataFrame, token: str) -> object:
        """Your function that writes a batch."""

    @abstractmethod
    def was_written(self, token: str) -> bool:
        """Your function that says whether it was written."""

    @abstractmethod
    def rows(self) -> list[Row]:
        """The rows that a reader sees now, in any order."""

    def close(self) -> None:  # noqa: B027 - most worlds have nothing to close
        """Clean up after the test."""


class OnceContract:
    """The tests; a subclass only has to set `world_class`."""

    world_class: ClassVar[type[OnceWorld]]

    @pytest.fixture
    def world(self, tmp_path: Path) -> Iterator[OnceWorld]:
        found = self.world_class(tmp_path)
        yield found
        found.close()

    def test_a_token_is_known_once_its_rows_are_visible(self, world: OnceWorld) -> None:
        assert not world.was_written("orders.0.aa")

        world.write(_frame(FIRST), "orders.0.aa")

        assert world.was_written("orders.0.aa")
        assert not world.was_written("orders.0.ab")
        assert sorted(world.rows()) == sorted(FIRST)

    def test_each_token_brings_its_rows(self, world: OnceWorld) -> None:
        world.write(_frame(FIRST), "orders.0.aa")
        world.write(_frame(SECOND), "orders.1.bb")

        assert sorted(world.rows()) == sorted(FIRST + SECOND)
        assert world.was_written("orders.1.bb")

    @pytest.mark.parametrize("rows", [FIRST, SECOND], ids=["same", "others"])
    def test_a_token_that_is_written_again_changes_nothing(self, world: OnceWorld, rows: Sequence[Row]) -> None:
        world.write(_frame(FIRST), "orders.0.aa")

        with suppress(Exception):  # it may refuse, or do nothing
            world.write(_frame(rows), "orders.0.aa")

        assert sorted(world.rows()) == sorted(FIRST)
        assert world.was_written("orders.0.aa")

    def test_a_token_that_comes_behind_a_newer_one_changes_nothing(self, world: OnceWorld) -> None:
        """An old driver may wake up at any time, and write what its successors wrote long ago."""
        world.write(_frame(FIRST), "orders.0.aa")
        world.write(_frame(SECOND), "orders.1.bb")

        with suppress(Exception):  # it may refuse, or do nothing
            world.write(_frame(FIRST), "orders.0.aa")

        assert sorted(world.rows()) == sorted(FIRST + SECOND)

    def test_a_write_that_fails_in_the_middle_leaves_nothing_and_can_be_tried_again(self, world: OnceWorld) -> None:
        with pytest.raises(Exception):  # noqa: B017, PT011 - whatever the error becomes
            world.write(_broken(), "orders.0.aa")

        assert not world.was_written("orders.0.aa")
        assert world.rows() == []
        world.write(_frame(FIRST), "orders.0.aa")
        assert sorted(world.rows()) == sorted(FIRST)

    def test_of_two_drivers_that_write_a_token_at_a_time_one_does(self, world: OnceWorld) -> None:
        frames = [_frame(FIRST), _frame(FIRST)]

        def write(df: DataFrame) -> None:
            with suppress(Exception):  # the one that comes too late may fail
                world.write(df, "orders.0.aa")

        with ThreadPoolExecutor(len(frames)) as drivers:
            list(drivers.map(write, frames))

        assert sorted(world.rows()) == sorted(FIRST)
        assert world.was_written("orders.0.aa")

    def test_a_batch_without_rows_is_written_as_well(self, world: OnceWorld) -> None:
        world.write(_frame(()), "orders.0.aa")

        assert world.was_written("orders.0.aa")
        assert world.rows() == []


def _frame(rows: Sequence[Row]) -> DataFrame:
    return SparkSession.builder.getOrCreate().createDataFrame(list(rows), "id int, value string").repartition(2)


def _broken() -> DataFrame:
    """A batch of which the last row fails, in a task of its own."""
    df = SparkSession.builder.getOrCreate().range(0, 100, 1, 2)
    failing = "IF(id = 99, raise_error('this row fails on purpose'), concat('value ', id)) AS value"
    return df.selectExpr("CAST(id AS int) AS id", failing)
