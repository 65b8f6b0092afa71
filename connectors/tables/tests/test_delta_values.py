"""Values at the edges of their types in Delta tables: added, replaced and as partitions; see `ValueContract`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everybody's name for it
from pyspark.sql.types import StructType

from lakes import DeltaWorld, delta_files, delta_rows, left_folders
from oncelog import metadata
from oncelog.errors import InvalidRecordError, UsageError
from oncelog.testing.extreme_values import ExtremeValue
from oncelog.testing.value_contract import ValueContract, ValueWorld
from oncelog_tables.batch_sink import TableTarget
from oncelog_tables.delta_tables import DeltaTables
from oncelog_tables.jobs import SparkJob
from oncelog_tables.ledgers import DELTA_LEDGERS


class DeltaValues(ValueWorld):
    """A Delta table with a column of any type, to which rows are added."""

    partitioned_by = False
    is_key = False

    def __init__(self, folder: Path, spark: SparkSession) -> None:
        super().__init__(folder, spark)
        self.store = metadata.open_metadata(str(folder / "ledger"))
        self.table = folder / "table"
        self.key_columns: list[str] = []

    def create(self, column: str, type_: str) -> bool:
        quoted = column.replace("`", "``")
        schema = StructType.fromDDL(f"`{quoted}` {type_}, number INT")
        assert isinstance(schema, StructType)
        by = [column] if self.partitioned_by else None
        try:
            DeltaTable.create(str(self.table), Schema.from_json(schema.json()), partition_by=by)
        except DeltaError:
            return False  # Delta has no such column
        self.key_columns = [column] if self.is_key else []
        return True

    def target(self) -> TableTarget:
        return TableTarget(self.store, DELTA_LEDGERS, DeltaTables({}), str(self.table), self.key_columns)

    def rows_job(self, rows: DataFrame) -> SparkJob:
        return SparkJob(rows.withColumn("number", F.lit(1)))

    def read(self, column: str) -> list[Any]:
        """As delta-rs reads it, which skips files by their statistics."""
        if not self.partitioned_by:
            return [row[column] for row in map(_with_dicts, delta_rows(self.table))]
        return [row[column] for row in DeltaTable(str(self.table)).to_pyarrow_table().to_pylist()]

    def broken_job(self) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        assert left_folders(self.table) == []
        self.store.close()


class DeltaKeys(DeltaValues):
    """The same, whose rows are replaced by that column."""

    is_key = True


class DeltaPartitions(DeltaValues):
    """The same, and the table is partitioned by that column."""

    partitioned_by = True

    def expected(self, value: ExtremeValue) -> Any:
        return None if value.python == "" else value.python


class DeltaKeyPartitions(DeltaPartitions):
    is_key = True


def _with_dicts(row: dict[str, Any]) -> dict[str, Any]:
    """Maps as dicts."""
    is_map = {
        name: isinstance(value, list) and all(isinstance(one, tuple) for one in value) for name, value in row.items()
    }
    return {name: dict(value) if value and is_map[name] else value for name, value in row.items()}


class DeltaValueContract(ValueContract):
    kind: type[DeltaValues] = DeltaValues

    @pytest.fixture
    def world(self, tmp_path: Path, spark: SparkSession) -> Iterator[ValueWorld]:
        found = self.kind(tmp_path, spark)
        yield found
        found.close()


class TestValuesOfDelta(DeltaValueContract):
    kind = DeltaValues


@pytest.mark.variant(by="upserts")
class TestKeysOfDelta(DeltaValueContract):
    kind = DeltaKeys


@pytest.mark.variant(by="partitions")
class TestPartitionsOfDelta(DeltaValueContract):
    kind = DeltaPartitions


@pytest.mark.variant(by="partitions of upserts")
class TestPartitionsOfDeltaUpserts(DeltaValueContract):
    kind = DeltaKeyPartitions


# What readers skip ----------------------------------------------------------------------------------------------------

LAST = "\U0010ffff"


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("string", [f"'{'a' * 32}{LAST}b'", "'a'"]),
        ("string", [f"'{LAST * 40}'", f"'{LAST * 39}a'"]),
        ("string", [f"'{'é' * 31}{LAST}'", f"'{'é' * 32}{LAST}'"]),
        ("timestamp", ["TIMESTAMP'9999-12-31 23:59:59.999999Z'", "TIMESTAMP'0001-01-01 00:00:00.000001Z'"]),
        ("timestamp_ntz", ["TIMESTAMP_NTZ'9999-12-31 23:59:59.999001'"]),
        ("timestamp_ntz", ["TIMESTAMP_NTZ'9999-12-31 23:59:59.999'"]),
        ("struct<a: timestamp>", ["struct(TIMESTAMP'9999-12-31 23:59:59.999999Z' AS a)"]),
        ("date", ["DATE'9999-12-31'", "DATE'0001-01-01'"]),
    ],
)
def test_statistics_bound_the_values_of_their_file(
    spark: SparkSession, tmp_path: Path, kind: str, values: list[str]
) -> None:
    world = DeltaValues(tmp_path, spark)
    world.create("c", kind)
    rows = spark.sql(" UNION ALL ".join(f"SELECT {value} AS c" for value in values)).coalesce(1)

    world.write(rows)

    (action,) = delta_files(world.table).values()
    stats = json.loads(action["stats"], parse_float=Decimal)
    for row in delta_rows(world.table):
        path, value = ("a", row["c"]["a"]) if isinstance(row["c"], dict) else ("c", row["c"])
        of = {name: stats[name].get("c", {}) if path == "a" else stats[name] for name in ("minValues", "maxValues")}
        least, greatest = (_parsed(bound.get(path), value) for bound in of.values())
        assert least <= value <= greatest
    world.close()


def _parsed(bound: Any, value: Any) -> Any:
    """A bound in the type of the value; the value if there is none."""
    return value if bound is None else bound if isinstance(value, str) else type(value).fromisoformat(bound)


# Folders of partitions ------------------------------------------------------------------------------------------------

NAMED = pa.schema({"p": pa.string(), "id": pa.int64()})
HIVE = "__HIVE_DEFAULT_PARTITION__"


def texts(spark: SparkSession, *values: str | None) -> SparkJob:
    rows = spark.createDataFrame([(value, at) for at, value in enumerate(values)], "p string, id bigint")
    return SparkJob(rows)


@pytest.mark.parametrize("is_upsert", [False, True])
def test_texts_of_partitions_that_look_like_no_value_are_kept(
    spark: SparkSession, tmp_path: Path, is_upsert: bool
) -> None:
    values = [f"={HIVE}", f"=={HIVE}", f"a{HIVE}", "=", "=a", "..", ".x", "null", "a\\b ", None]
    values += [] if is_upsert else [HIVE]
    world = DeltaWorld(tmp_path, NAMED, ("id",) if is_upsert else (), partition_by=["p"])

    world.run_job(0, texts(spark, *values))

    assert [row["p"] for row in sorted(world.rows(), key=lambda row: int(row["id"]))] == values
    read = DeltaTable(str(world.table)).to_pyarrow_table().to_pylist()
    assert {row["id"]: row["p"] for row in read} == dict(enumerate(values))
    world.close()


@pytest.mark.parametrize(
    ("is_upsert", "value", "is_taken"),
    [
        (False, "x" * 253, True),
        (False, "x" * 254, False),
        (False, "é" * 126, True),
        (False, "/" * 85, False),
        (False, "a\0b", False),
        (True, "x" * 253, True),
        (True, "x" * 254, False),
        (True, "é" * 42, True),
        (True, "é" * 43, False),
        (True, "-" * 85, False),
        (True, HIVE, False),
    ],
)
def test_texts_of_partitions_that_no_folder_can_be_named_after_are_refused_before_the_decision(
    spark: SparkSession, tmp_path: Path, is_upsert: bool, value: str, is_taken: bool
) -> None:
    world = DeltaWorld(tmp_path, NAMED, ("id",) if is_upsert else (), partition_by=["p"])

    if not is_taken:
        with pytest.raises(InvalidRecordError, match=r"cannot be the name of a folder.*column='p', most_bytes=255"):
            world.run_job(0, texts(spark, "a", value))
        value = "a"
    world.run_job(0, texts(spark, value), "run-2")

    assert [row["p"] for row in world.rows()] == [value]
    assert world.left() == []
    world.close()


def test_a_partition_whose_folders_readers_would_pass_over_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    world = DeltaWorld(tmp_path, pa.schema({".p": pa.string(), "id": pa.int64()}), partition_by=[".p"])
    rows = spark.sql("SELECT 'a' AS `.p`, 1L AS id")

    with pytest.raises(UsageError, match=r"begins with a dot.*columns=\['\.p'\]"):
        world.run_job(0, SparkJob(rows))
    assert world.left() == []
    world.close()
