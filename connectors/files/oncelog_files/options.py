"""The options of the sink, checked and typed. `OPTIONS` is the only table of their names, defaults and meanings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from oncelog.errors import InvalidOptionError
from oncelog.spark.kit import staged_names, values
from oncelog.spark.kit.folders import check_folder
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

FORMATS: Final = ("parquet", "orc", "json", "csv", "text", "xml", "avro")
"""Formats whose writers leave files in a folder, and nothing else."""

FORMAT_PREFIX: Final = "format."
"""Of options that go to Spark's writer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions(HistoryOptions):
    """The options of a sink.

    Attributes:
        path: of the folder, as Spark's writers take it.
        format: that Spark writes.
        partition_by: columns that become folders.
        writer: options of Spark's writer.
    """

    path: str
    format: str
    partition_by: tuple[str, ...]
    writer: Mapping[str, str]


def _columns(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    if not all(found):
        raise ValueError("names of columns, separated by commas, such as year,month")
    return found


_USES = frozenset({Use.FOREACH_BATCH})

OPTIONS: tuple[Option, ...] = (
    Option(
        "path",
        _USES,
        values.text,
        "The folder: a path or a URI of any file system that Spark reaches, as `/data/flights`, "
        "`hdfs://namenode/flights` or `s3a://bucket/flights`. It is created if it is missing, and several sinks may "
        "write into it.",
        default_doc="required",
    ),
    Option(
        "format",
        _USES,
        values.choice(*FORMATS),
        f"What Spark writes: {', '.join(f'`{name}`' for name in FORMATS[:-1])}, or `{FORMATS[-1]}`, for which Spark "
        "needs its package `spark-avro`.",
        default=FORMATS[0],
    ),
    Option("partitionBy", _USES, _columns, "Columns that become folders, separated by commas, such as `year,month`."),
    Option("compression", _USES, values.text, "As Spark's writer takes it: `zstd`, ...", default_doc="the format's"),
    Option(
        "format.*",
        _USES,
        values.text,
        "Any other option of Spark's writer, as `format.header` or `format.maxRecordsPerFile`.",
    ),
    Option("mode", _USES, values.choice("append"), "Batches are added; nothing is overwritten.", default="append"),
    *history_options(_USES, f"`{staged_names.LEDGER}` in a local `path`; otherwise required"),
)


def parse(options: Mapping[str, object]) -> SinkOptions:
    """Read and check the options of a sink.

    Args:
        options: names in any case, values as text, number or bool.

    Raises:
        InvalidOptionError: an option is unknown, malformed, missing, or contradicts another one.
    """
    passed = {name: value for name, value in options.items() if name.lower().startswith(FORMAT_PREFIX)}
    given = Given({name: value for name, value in options.items() if name not in passed}, OPTIONS, Use.FOREACH_BATCH)
    given.require("path")
    return SinkOptions(
        path=check_folder("path", given.value("path")),
        format=given.value("format"),
        partition_by=given.value("partitionBy") or (),
        writer=_writer(passed, given.value("compression")),
        **history(given),
    )


def _writer(passed: Mapping[str, object], compression: str | None) -> dict[str, str]:
    found: dict[str, str] = {} if compression is None else {"compression": compression}
    for name, value in passed.items():
        key = name[len(FORMAT_PREFIX) :]
        if value is None:
            continue
        if key.lower() in {"", "*", "path"}:
            raise InvalidOptionError("not an option of Spark's writer that the sink can pass on", option=name)
        if key.lower() in {known.lower() for known in found}:
            raise InvalidOptionError("the option is given twice", option=name)
        found[key] = as_text(name, value)
    return found


def render_markdown_table() -> str:
    """The options as a Markdown table."""
    return render_rows(OPTIONS)
