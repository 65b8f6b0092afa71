"""The options of the sinks, checked and typed. Their tables are the only ones of names, defaults and meanings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from oncelog import folders
from oncelog.errors import InvalidOptionError, UsageError
from oncelog.spark.kit import values
from oncelog.spark.kit.options import (
    Given,
    HistoryOptions,
    Option,
    Use,
    as_text,
    history,
    history_options,
)
from oncelog.spark.kit.options import render_markdown_table as render_rows
from oncelog.spark.kit.upserts import Mode, mode_and_keys, upsert_options

STORAGE = "storage."
"""What options for the storage of Delta tables begin with."""

CATALOG = "catalog."
"""What properties of Iceberg's catalog begin with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions(HistoryOptions):
    """The options of every sink into a table.

    Attributes:
        mode: whether rows are added, or take the place of others.
        key_columns: by which `Mode.UPSERT` finds rows; otherwise empty.
    """

    mode: Mode
    key_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaOptions(TableOptions):
    """The options of a sink into a Delta table.

    Attributes:
        path: of the table: an absolute path, or a URI.
        storage: options of delta-rs for the storage; they may hold credentials.
    """

    path: str
    storage: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergOptions(TableOptions):
    """The options of a sink into an Iceberg table.

    Attributes:
        table: its name in the catalog.
        catalog: the catalog's name.
        properties: of the catalog; they may hold credentials.
    """

    table: str
    catalog: str
    properties: Mapping[str, str] = field(repr=False)


def _place(text: str) -> str:
    given = values.text(text)
    try:
        if re.match("[A-Za-z][A-Za-z0-9+.-]*:/", given) and not given.startswith("file:"):
            return given.rstrip("/")
        if "%" in (path := str(folders.local_path(given))):
            raise ValueError("a path without %, which delta-rs takes for the code of another character")
        return path
    except UsageError as problem:
        raise ValueError(f"a path, or a URI such as s3a://bucket/table: {problem.message}") from None


def _table(text: str) -> str:
    found = values.text(text)
    if not all(found.split(".")) or "." not in found:
        raise ValueError("a table with its namespace, such as lake.delayed")
    return found


_USES = frozenset({Use.FOREACH_BATCH})

_SHARED: tuple[Option, ...] = (
    *upsert_options(
        _USES,
        "`append` adds the rows. `upsert` replaces the row with the same `keyColumns`, if there is one.",
        "For `mode=upsert`: the columns of the table by which it finds the rows to replace, separated by commas.",
    ),
    *history_options(_USES, "required, unless `together` has a place for it"),
)

DELTA: tuple[Option, ...] = (
    Option(
        "path",
        _USES,
        _place,
        "The table: a folder, or a URI that both Spark and delta-rs know, such as `s3a://bucket/table`, "
        "`abfss://...` or `gs://...`. It must exist.",
        default_doc="required",
    ),
    *_SHARED,
)


ICEBERG: tuple[Option, ...] = (
    Option(
        "table",
        _USES,
        _table,
        "The table, with its namespace: `lake.delayed`. It must exist.",
        default_doc="required",
    ),
    Option(
        "catalog",
        _USES,
        values.text,
        "The name of the catalog, as in pyiceberg's configuration (`~/.pyiceberg.yaml`, `PYICEBERG_CATALOG__...`).",
        default="default",
    ),
    *_SHARED,
)


def parse_delta(options: Mapping[str, object]) -> DeltaOptions:
    """Read and check the options of a sink into a Delta table.

    Args:
        options: names in any case, values as text, number or bool.

    Raises:
        InvalidOptionError: an option is unknown, malformed, missing, or contradicts another one.
    """
    storage, own = _divided(STORAGE, options)
    given = Given(own, DELTA, Use.FOREACH_BATCH)
    given.require("path")
    return DeltaOptions(path=given.value("path"), storage=storage, **_shared(given))


def parse_iceberg(options: Mapping[str, object]) -> IcebergOptions:
    """Read and check the options of a sink into an Iceberg table; see `parse_delta`."""
    properties, own = _divided(CATALOG, options)
    given = Given(own, ICEBERG, Use.FOREACH_BATCH)
    given.require("table")
    return IcebergOptions(
        table=given.value("table"),
        catalog=given.value("catalog"),
        properties=properties,
        **_shared(given),
    )


def _shared(given: Given) -> dict[str, Any]:
    """The fields of `TableOptions`."""
    mode, key_columns = mode_and_keys(given, "mode=upsert needs the columns by which it finds the rows to replace")
    return {"mode": mode, "key_columns": key_columns, **history(given)}


def _divided(prefix: str, options: Mapping[str, object]) -> tuple[dict[str, str], dict[str, object]]:
    """The options that begin with a prefix, without it, and the others."""
    below: dict[str, str] = {}
    for name, raw in options.items():
        if name.lower().startswith(prefix) and raw is not None:
            below[name[len(prefix) :]] = _hidden_text(name, raw)
    return below, {name: raw for name, raw in options.items() if not name.lower().startswith(prefix)}


def _hidden_text(name: str, raw: object) -> str:
    """An option's value as text, for one whose value must not be in an error."""
    try:
        return as_text(name, raw)
    except InvalidOptionError as problem:
        raise InvalidOptionError(problem.message, option=name) from None


def render_delta_table() -> str:
    """The options of a sink into a Delta table, as a Markdown table."""
    return render_rows(DELTA)


def render_iceberg_table() -> str:
    """The options of a sink into an Iceberg table, as a Markdown table."""
    return render_rows(ICEBERG)
