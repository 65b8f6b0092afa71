"""The options of the sink, checked and typed. `OPTIONS` is the only table of their names, defaults and meanings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from oncelog.spark.kit import staged_names, values
from oncelog.spark.kit.folders import check_folder
from oncelog.spark.kit.options import Given, HistoryOptions, Option, Use, history, history_options
from oncelog.spark.kit.options import render_markdown_table as render_rows
from oncelog.spark.kit.upserts import Mode, mode_and_keys, upsert_options
from oncelog_search.address import Address


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions(HistoryOptions):
    """The options of a sink.

    Attributes:
        address: of the store.
        index: or an alias that leads to one.
        staging: the folder in which batches are staged, as Spark's writers take it.
        key_columns: which make the `_id` of a document under `Mode.UPSERT`; otherwise empty.
        request_bytes: the most that one request carries.
        retry_timeout_ms: how long a task retries while the store is busy or cannot be reached.
        refreshes: whether a batch is found by searches when it is committed.
        index_uuid: the index that may take the place of one that was removed.
    """

    address: Address
    index: str
    staging: str
    mode: Mode
    key_columns: tuple[str, ...]
    request_bytes: int
    retry_timeout_ms: int
    refreshes: bool
    index_uuid: str | None


_INDEX: Final = re.compile(r"(?![-_+.]|\.\.?$)[^A-Z\\/*?\"<>| ,#:\0-\x1f]+")
_LONGEST_INDEX: Final = 255


def _index(text: str) -> str:
    found = text.strip()
    if not _INDEX.fullmatch(found) or len(found.encode()) > _LONGEST_INDEX or found != found.lower():
        raise ValueError("the name of one index or alias, such as flights or flights-2026")
    return found


_USES = frozenset({Use.FOREACH_BATCH})

OPTIONS: tuple[Option, ...] = (
    Option(
        "url",
        _USES,
        values.text,
        "The store: `https://host:port`, without credentials. Several nodes are separated by commas; if one does not "
        "answer, the next one is asked.",
        default_doc="required",
    ),
    Option(
        "index",
        _USES,
        _index,
        "The index that the documents go to, or an alias with one index to write to. It must exist.",
        default_doc="required",
    ),
    Option(
        "staging",
        _USES,
        values.text,
        "The folder in which batches are staged: a path or a URI of any file system that Spark reaches, which the "
        "driver and all executors share. Several sinks may use it.",
        default_doc="required",
    ),
    *upsert_options(
        _USES,
        "`append` adds a document for each row. `upsert` replaces the document of the same `keyColumns`, if there is "
        "one.",
        "For `mode=upsert`: the columns that make the `_id`, separated by commas.",
    ),
    Option(
        "refresh",
        _USES,
        values.boolean,
        "Whether searches find a batch as soon as it is committed. Otherwise they find it when the index refreshes "
        "itself.",
        default="false",
    ),
    Option(
        "caFile",
        _USES,
        values.text,
        "A PEM file of the certificates to trust, which the driver and each executor have at this path.",
        default_doc="the system's",
    ),
    Option(
        "requestBytes",
        _USES,
        values.positive,
        "The most that one request carries, and that a document may have. The store's `http.max_content_length` must "
        "allow it.",
        default="5000000",
    ),
    Option("requestTimeout", _USES, values.duration_ms, "How long one request may take.", default="60s"),
    Option(
        "retryTimeout",
        _USES,
        values.duration_ms,
        "How long a task retries while the store is busy or cannot be reached, before the batch fails.",
        default="60s",
    ),
    Option(
        "indexUuid",
        _USES,
        values.text,
        "If the index of a decided batch was removed and created again: the uuid of the new one, into which the batch "
        "then goes.",
    ),
    *history_options(_USES, f"`{staged_names.LEDGER}` in a local `staging`; otherwise required"),
)


def parse(options: Mapping[str, object]) -> SinkOptions:
    """Read and check the options of a sink.

    Args:
        options: names in any case, values as text, number or bool.

    Raises:
        InvalidOptionError: an option is unknown, malformed, missing, or contradicts another one.
    """
    given = Given(options, OPTIONS, Use.FOREACH_BATCH)
    for name in ("url", "index", "staging"):
        given.require(name)
    mode, key_columns = mode_and_keys(given, "mode=upsert needs the columns that make the _id of a document")
    return SinkOptions(
        address=Address.parse(given.value("url"), given.value("caFile"), given.value("requestTimeout")),
        index=given.value("index"),
        staging=check_folder("staging", given.value("staging")),
        mode=mode,
        key_columns=key_columns,
        request_bytes=given.value("requestBytes"),
        retry_timeout_ms=given.value("retryTimeout"),
        refreshes=given.value("refresh"),
        index_uuid=given.value("indexUuid"),
        **history(given),
    )


def render_markdown_table() -> str:
    """The options as a Markdown table."""
    return render_rows(OPTIONS)
