"""Field ids in the files of a batch: an Iceberg table's own at every depth, none for Delta, never the DataFrame's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import index_by_id
from pyspark.sql import SparkSession

from lakes import DeltaWorld, IcebergWorld
from oncelog.spark import packaging
from oncelog_tables import nested_ids
from oncelog_tables.jobs import SparkJob

STRUCT = pa.struct([pa.field("x", pa.int32()), pa.field("names", pa.list_(pa.list_(pa.string())))])
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("one", STRUCT),
        pa.field("many", pa.list_(STRUCT)),
        pa.field("by_name", pa.map_(pa.string(), STRUCT)),
        pa.field("of_maps", pa.map_(pa.int32(), pa.map_(pa.string(), pa.float64()))),
    ]
)
VALUES = """
named_struct('x', 1, 'names', array(array('a'), null)) one, array(one, null) many, map('k', one) by_name,
map(1, map('k', 0.5D)) of_maps
"""


@pytest.fixture
def iceberg(tmp_path: Path) -> Iterator[IcebergWorld]:
    found = IcebergWorld(tmp_path, SCHEMA)
    yield found
    found.close()


def job(spark: SparkSession) -> SparkJob:
    rows = spark.sql(f"SELECT id, {VALUES} FROM range(1)").withMetadata("id", {"parquet.field.id": 77}).coalesce(1)
    assert rows.schema["id"].metadata == {"parquet.field.id": 77}
    return SparkJob(rows)


def ids_in(folder: Path) -> dict[int, str]:
    """The ids in the only file below a folder, with the names of their fields."""
    (file,) = folder.rglob("part-*.parquet")
    return dict(_ids(pq.read_metadata(file).schema.to_arrow_schema()))


def _ids(fields: Iterable[pa.Field]) -> Iterator[tuple[int, str]]:
    for field in fields:
        if (found := (field.metadata or {}).get(b"PARQUET:field_id")) is not None:
            yield int(found), field.name
        kind = field.type
        if pa.types.is_map(kind):
            yield from _ids([kind.key_field, kind.item_field])
        elif pa.types.is_nested(kind):
            yield from _ids(kind.field(number) for number in range(kind.num_fields))


def test_each_field_of_an_iceberg_table_has_its_id(iceberg: IcebergWorld, spark: SparkSession) -> None:
    iceberg.run_job(0, job(spark))

    wanted = {field_id: field.name for field_id, field in index_by_id(iceberg.loaded().schema()).items()}
    assert len(wanted) == 24
    assert ids_in(iceberg.folder) == wanted
    one = {"x": 1, "names": [["a"], None]}
    rows = iceberg.loaded().scan().to_arrow().to_pylist()
    assert rows == [{"id": 0, "one": one, "many": [one, None], "by_name": [("k", one)], "of_maps": [(1, [("k", 0.5)])]}]


def test_files_of_a_delta_table_have_none(spark: SparkSession, tmp_path: Path) -> None:
    world = DeltaWorld(tmp_path, SCHEMA)
    world.run_job(0, job(spark))
    world.close()

    assert ids_in(world.folder) == {}


def test_a_session_that_began_without_the_jar_loads_it(
    iceberg: IcebergWorld, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one does in which no class of the jar is found by the thread's own loader."""
    asked: list[str] = []
    has = nested_ids._has

    def not_at_first(jvm: object, loader: object) -> bool:
        asked.append("loader")
        return len(asked) == 3 and has(jvm, loader)

    monkeypatch.setattr(nested_ids, "_has", not_at_first)
    before = set(spark._jsc.sc().listJars().mkString("\n").splitlines())
    iceberg.run_job(0, job(spark))

    added = set(spark._jsc.sc().listJars().mkString("\n").splitlines()) - before
    assert [jar.rpartition("/")[2] for jar in added] in ([packaging.JAR.name], [])
    assert len(asked) == 3
    assert len(ids_in(iceberg.folder)) == 24
