"""A driver is killed with its JVM at named points of a batch; the next one leaves exactly one copy.

Each life of the query recovers what the one before left, and is the next to die.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, NestedField, StringType

from lakes import (
    BEFORE_THE_DECISION,
    BEHIND_THE_DECISION,
    catalog_in,
    create_delta,
    create_iceberg,
    delta_rows,
    iceberg_rows,
    left_folders,
    left_iceberg_folders,
)
from oncelog.crash_points import CrashPoint
from oncelog_tables.crash_points import TablesCrashPoint
from tests.support.docs.figures import guarantees
from tests.support.harness.parts import require_java
from tests.support.harness.waiting import until
from tests.support.spark.lives import Lives
from tests.support.spark.processes import Program

PASSED = (CrashPoint.SINK_PLAN, *BEFORE_THE_DECISION, *BEHIND_THE_DECISION)
"""Every point that a batch passes."""

IN_THE_TABLE = (TablesCrashPoint.COMMITTED, CrashPoint.SINK_DONE)

ICEBERG = Schema(NestedField(1, "id", IntegerType()), NestedField(2, "value", StringType()))

ROWS = 10
"""Of a batch."""


class World(Lives):
    """A query that is killed again and again.

    Attributes:
        written: the rows so far.
    """

    def __init__(self, folder: Path, kind: str) -> None:
        super().__init__(folder)
        self.kind = kind
        self.written: list[tuple[int, str]] = []
        self.table = folder / "table"
        self._options = {"znodes": str(folder / "ledger"), "transactionalIdPrefix": "killed"}
        if kind == "delta":
            self._options["path"] = str(self.table)
            create_delta(self.table, pa.schema({"id": pa.int32(), "value": pa.string()}), partition_by=["value"])
        else:
            catalog = catalog_in(folder)
            self._options.update({f"catalog.{name}": value for name, value in catalog.items()})
            self._options |= {"table": "lake.table", "catalog": "lake"}
            parted = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "value"))
            create_iceberg(catalog, "lake.table", ICEBERG, partition_spec=parted)

    def write(self) -> None:
        rows = [(len(self.written) + at, f"value {at % 2}") for at in range(ROWS)]
        lines = [json.dumps({"id": number, "value": value}) for number, value in rows]
        self.put(len(self.written), "\n".join(lines))
        self.written += rows

    def live(self, point: str) -> Program:
        self._lives += 1
        self.mark.touch()
        settings = {"format": self.kind, "source": str(self.folder / "in"), "sink": self._options}
        return self._start("table_copier", settings, point)

    def recover(self) -> None:
        """Everything is there once, and nothing else is left."""
        self.wait_until(lambda: len(self.found()) >= len(self.written))
        assert self.found() == self.written
        until(lambda: not self._left())

    def found(self) -> list[tuple[int, str]]:
        rows = delta_rows(self.table) if self.kind == "delta" else iceberg_rows(self._metadata())
        return sorted((row["id"], row["value"]) for row in rows)

    def _left(self) -> list[str]:
        return left_folders(self.table) if self.kind == "delta" else left_iceberg_folders(self._metadata())

    def _metadata(self) -> str:
        with closing(sqlite3.connect(self.folder / "catalog.db")) as catalog:
            ((found,),) = catalog.execute("SELECT metadata_location FROM iceberg_tables").fetchall()
        return str(found)


@pytest.fixture
def world(tmp_path: Path, kind: str) -> Iterator[World]:
    require_java()
    found = World(tmp_path, kind)
    yield found
    found.end()


def test_the_guarantees_say_how_many_points_there_are() -> None:
    assert f"; {len(PASSED)} of Delta's and of Iceberg's" in guarantees()


def test_every_crash_point_of_the_sink_is_walked_through() -> None:
    assert set(TablesCrashPoint) <= set(PASSED)


@pytest.mark.walk("a killed driver leaves one copy in a target")
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_driver_that_is_killed_at_any_point_leaves_exactly_one_copy(world: World) -> None:
    world.write()
    for point in PASSED:
        world.die(point)
        expected = world.written if point in IN_THE_TABLE else world.written[:-ROWS]
        assert world.found() == expected, point
    world.live(CrashPoint.SINK_DONE)
    world.recover()
