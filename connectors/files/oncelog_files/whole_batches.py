"""Reads the files of whole batches: those that manifests name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812

from oncelog.errors import UsageError
from oncelog.spark.kit import staged_names
from oncelog.spark.kit.folders import check_folder
from oncelog.spark.kit.spark_files import SparkFiles

_SCHEMA = "prefix string, format string, files array<struct<name string>>, partitions map<string, string>"
"""Of a manifest, as far as it is needed here. Those that older versions wrote have no partitions."""


@dataclass(frozen=True, slots=True)
class _Batches:
    """What manifests say.

    Attributes:
        formats: of the files, sorted.
        files: their names.
        partitions: the types of the columns that are folders, by their names in lower case.
    """

    formats: list[str]
    files: list[str]
    partitions: dict[str, T.DataType]


def read_whole_batches(spark: Any, path: str, prefix: str | None, options: Mapping[str, Any]) -> DataFrame:
    """The rows of all batches of a folder, or of one prefix; see `oncelog_files.read`."""
    if not isinstance(spark, SparkSession):
        raise UsageError(
            "whole batches are read by a SparkSession that is not of Spark Connect", found=type(spark).__name__
        )
    files = SparkFiles(spark, check_folder("path", path))
    folder = staged_names.MANIFESTS if prefix is None else staged_names.manifests(prefix)
    found = _batches(spark, files.path(folder)) if files.is_folder(folder) else None
    if found is None or not found.files:
        raise UsageError(
            "no batch is in this folder yet; check path and prefix, or wait for the query's first batch",
            path=files.root,
            prefix=prefix,
        )
    if len(found.formats) > 1:
        raise UsageError("the batches have several formats; read those of one prefix", formats=found.formats)
    reader = spark.read.format(found.formats[0]).option("basePath", files.root)
    reader = reader.options(**{name: value for name, value in options.items() if name != "schema"})
    names = [files.path(name) for name in found.files]
    schema = options.get("schema")
    rows = (reader if schema is None else reader.schema(schema)).load(names)
    wanted = _with_types(rows.schema, found.partitions, schema)
    return rows if wanted == rows.schema else reader.schema(wanted).load(names)


def _with_types(found: T.StructType, partitions: Mapping[str, T.DataType], schema: Any) -> T.StructType:
    """The schema of rows in which columns that are folders have their types, instead of those that Spark guessed.

    Args:
        schema: that the user gave, whose types count.
    """
    given = _parsed(schema) if isinstance(schema, str) else schema
    own = {name.lower() for name in given.names} if given is not None else set()
    types = {name: type_ for name, type_ in partitions.items() if name not in own}
    return T.StructType(
        [T.StructField(each.name, types.get(each.name.lower(), each.dataType), each.nullable) for each in found.fields]
    )


def _batches(spark: SparkSession, folder: str) -> _Batches:
    """What the manifests below the folder say."""
    rows = spark.read.schema(_SCHEMA).options(recursiveFileLookup=True, mode="FAILFAST").json(folder).collect()
    types: dict[str, set[str]] = {}
    for row in rows:
        for name, type_ in (row.partitions or {}).items():
            types.setdefault(name.lower(), set()).add(type_)
    return _Batches(
        sorted({row.format for row in rows}),
        [file.name for row in rows for file in row.files],
        {name: _common(found) for name, found in types.items()},
    )


def _common(types: set[str]) -> T.DataType:
    """The type that values of all these types have: that of their folders' names, if they are several."""
    return _parsed(f"value {next(iter(types))}")[0].dataType if len(types) == 1 else T.StringType()


def _parsed(schema: str) -> T.StructType:
    return cast("T.StructType", T.StructType.fromDDL(schema))
