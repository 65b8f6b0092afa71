"""A driver is killed with its JVM at named points of a batch; the next one leaves exactly one copy.

Each life of the query recovers what the one before left, and is the next to die.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, TruncateTransform
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
from tests.support.spark.lives import Lives, walks
from tests.support.spark.processes import Program

PASSED = (CrashPoint.SINK_PLAN, *BEFORE_THE_DECISION, *BEHIND_THE_DECISION)
"""Every point that a batch passes."""

IN_THE_TABLE = (TablesCrashPoint.COMMITTED, CrashPoint.SINK_DONE)

ICEBERG = Schema(NestedField(1, "id", IntegerType()), NestedField(2, "value", StringType()))

ROWS = 10
"""Of a batch."""


class World(Lives):
    """A query that is killed again and again.

    Args:
        kind: of the table.
        replaces: whether a batch replaces half of the rows of the one before.

    Attributes:
        batches: that were written, each with its rows.
    """

    def __init__(self, folder: Path, kind: str, *, replaces: bool) -> None:
        super().__init__(folder)
        self.kind = kind
        self.replaces = replaces
        self.batches: list[list[tuple[int, str]]] = []
        self.table = folder / "table"
        self._options = {"znodes": str(folder / "ledger"), "transactionalIdPrefix": "killed"}
        if replaces:
            self._options |= {"mode": "upsert", "keyColumns": "id"}
        if kind == "delta":
            self._options["path"] = str(self.table)
            create_delta(self.table, pa.schema({"id": pa.int32(), "value": pa.string()}), partition_by=["value"])
        else:
            catalog = catalog_in(folder)
            self._options.update({f"catalog.{name}": value for name, value in catalog.items()})
            self._options |= {"table": "lake.table", "catalog": "lake"}
            by_value = PartitionField(2, 1000, IdentityTransform(), "value")
            by_id = PartitionField(1, 1000, TruncateTransform(3), "ids")
            parted = PartitionSpec(by_id if replaces else by_value)
            create_iceberg(catalog, "lake.table", ICEBERG, partition_spec=parted)

    def write(self) -> None:
        number = len(self.batches)
        first = number * (ROWS // 2 if self.replaces else ROWS)
        rows = [(first + at, f"value {(number + at) % 2}") for at in range(ROWS)]
        self.put(number, "\n".join(json.dumps({"id": one, "value": value}) for one, value in rows))
        self.batches.append(rows)

    def expected(self, batches: int) -> list[tuple[int, str]]:
        """The rows that the first batches leave."""
        rows = [row for batch in self.batches[:batches] for row in batch]
        return sorted(dict(rows).items()) if self.replaces else sorted(rows)

    def live(self, point: str) -> Program:
        self._lives += 1
        self.mark.touch()
        return self._copy(f"oncelog_tables:{self.kind}", self._options, point, TablesCrashPoint)

    def recover(self) -> None:
        """Everything is there once, and nothing else is left."""
        expected = self.expected(len(self.batches))
        self.wait_until(lambda: len(self.found()) >= len(expected))
        assert self.found() == expected
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
def world(tmp_path: Path, kind: str, mode: str) -> Iterator[World]:
    require_java()
    found = World(tmp_path, kind, replaces=mode == "upsert")
    yield found
    found.end()


def test_the_guarantees_say_how_many_points_there_are() -> None:
    assert f"; {len(PASSED)} of Delta's and of Iceberg's, each by append and by upsert" in guarantees()


def test_every_crash_point_of_the_sink_is_walked_through() -> None:
    assert set(TablesCrashPoint) <= set(PASSED)


@pytest.mark.walk("a killed driver leaves one copy in a target")
@pytest.mark.parametrize("points", walks(PASSED))
@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_driver_that_is_killed_at_any_point_leaves_exactly_one_copy(world: World, points: Sequence[str]) -> None:
    world.walk(points, lambda point: world.expected(len(world.batches) - (point not in IN_THE_TABLE)))
