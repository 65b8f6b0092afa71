"""Reads the files of whole batches: those that manifests name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from oncelog.errors import UsageError
from oncelog.spark.kit import staged_names
from oncelog.spark.kit.folders import check_folder
from oncelog.spark.kit.spark_files import SparkFiles

_SCHEMA = "prefix string, format string, files array<struct<name string>>"
"""Of a manifest, as far as it is needed here."""


def read_whole_batches(spark: Any, path: str, prefix: str | None, options: Mapping[str, Any]) -> DataFrame:
    """The rows of all batches of a folder, or of one prefix; see `oncelog_files.read`."""
    if not isinstance(spark, SparkSession):
        raise UsageError(
            "whole batches are read by a SparkSession that is not of Spark Connect", found=type(spark).__name__
        )
    files = SparkFiles(spark, check_folder("path", path))
    folder = staged_names.MANIFESTS if prefix is None else staged_names.manifests(prefix)
    found = _manifests(spark, files.path(folder)) if files.is_folder(folder) else []
    if not found:
        raise UsageError(
            "no batch is in this folder yet; check path and prefix, or wait for the query's first batch",
            path=files.root,
            prefix=prefix,
        )
    formats = sorted({format_ for format_, _ in found})
    if len(formats) > 1:
        raise UsageError("the batches have several formats; read those of one prefix", formats=formats)
    schema = options.get("schema")
    reader = spark.read if schema is None else spark.read.schema(schema)
    reader = reader.options(**{name: value for name, value in options.items() if name != "schema"})
    return reader.option("basePath", files.root).format(formats[0]).load([files.path(name) for _, name in found])


def _manifests(spark: SparkSession, folder: str) -> list[tuple[str, str]]:
    """The format and the name of each file that manifests below the folder name."""
    manifests = spark.read.schema(_SCHEMA).options(recursiveFileLookup=True, mode="FAILFAST").json(folder)
    named = manifests.selectExpr("format", "explode(files.name) AS name")
    return [(row.format, row.name) for row in named.collect()]
