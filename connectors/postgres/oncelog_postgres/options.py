"""The options of the sink, checked and typed. `OPTIONS` is the only table of their names, defaults and meanings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from oncelog.errors import InvalidOptionError
from oncelog.spark.kit import values
from oncelog.spark.kit.options import (
    Given,
    HistoryOptions,
    Option,
    Use,
    history,
    history_options,
)
from oncelog.spark.kit.options import render_markdown_table as render_rows
from oncelog.spark.kit.upserts import Mode, mode_and_keys, upsert_options
from oncelog.znodes.postgres.address import PostgresAddress


@dataclass(frozen=True, slots=True)
class TableName:
    """A table as PostgreSQL names it; schema is None if the search path leads to it."""

    schema: str | None
    name: str

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.name,) if self.schema is None else (self.schema, self.name)

    def __str__(self) -> str:
        return ".".join(map(_quoted, self.parts))

    __repr__ = __str__


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions(HistoryOptions):
    """The options of a sink.

    Attributes:
        address: of the database, and the schema in it that has oncelog's own tables.
        table: that the rows go to.
        key_columns: by which `Mode.UPSERT` finds rows; otherwise empty.
        is_prepared: whether each task prepares a transaction of its own, in place of one for the batch.
    """

    address: PostgresAddress
    table: TableName
    mode: Mode
    key_columns: tuple[str, ...]
    is_prepared: bool

    @property
    def ledger_place(self) -> str:
        """The database, if `znodes` names no other place."""
        return self.znodes or self.address.url


_NAME_BYTES_MAX = 63
"""PostgreSQL would cut a longer name, and so may take it for another one."""

_NAME = re.compile(r'\s*(?:"(?P<quoted>(?:[^"\0]|"")+)"|(?P<plain>[^\W\d][\w$]*))\s*')


def _names(text: str, between: str) -> list[str]:
    """Names as PostgreSQL reads them: without double quotes, A to Z become a to z. Raises ValueError."""
    found, at = [], 0
    while (match := _NAME.match(text, at)) is not None:
        found.append(match["quoted"].replace('""', '"') if match["quoted"] else _lower(match["plain"]))
        if len(found[-1].encode()) > _NAME_BYTES_MAX:
            break
        if match.end() == len(text):
            return found
        if text[match.end()] != between:
            break
        at = match.end() + 1
    raise ValueError("no names")


def _lower(name: str) -> str:
    return re.sub("[A-Z]+", lambda found: found[0].lower(), name)


def _quoted(name: str) -> str:
    is_plain = re.fullmatch(r"[a-z_][a-z0-9_$]*", name)
    return name if is_plain else '"{}"'.format(name.replace('"', '""'))


def _table(text: str) -> TableName:
    try:
        *schema, name = _names(text, ".")
        if len(schema) > 1:
            raise ValueError("too many names")
    except ValueError:
        raise ValueError(
            f'a table such as delayed or public."Delayed", with names of {_NAME_BYTES_MAX} bytes at most'
        ) from None
    return TableName(schema[0] if schema else None, name)


def _columns(text: str) -> tuple[str, ...]:
    try:
        found = _names(text, ",")
    except ValueError:
        raise ValueError('names of columns, separated by commas, such as id or origin,"Day"') from None
    return tuple(dict.fromkeys(found))


_USES = frozenset({Use.FOREACH_BATCH})
_OF_BATCH, _OF_TASK = "batch", "task"

OPTIONS: tuple[Option, ...] = (
    Option(
        "url",
        _USES,
        values.text,
        "The database: `postgresql://user@host:port/database`, without a password. Several hosts, TLS and the "
        "other settings are written as in the URL of [metadata in PostgreSQL](../guides/cluster.md#postgresql); "
        "`?schema=` names the schema of oncelog's own tables, which is `oncelog` by default.",
        default_doc="required",
    ),
    Option(
        "table",
        _USES,
        _table,
        'The table that the rows go to, as SQL names it: `delayed`, `public.delayed`, `public."Delayed"`. It must '
        "exist.",
        default_doc="required",
    ),
    *upsert_options(
        _USES,
        "`append` inserts each row. `upsert` replaces the row with the same `keyColumns`, if there is one.",
        "For `mode=upsert`: the columns of a primary key or a unique index, separated by commas.",
        _columns,
    ),
    Option(
        "transaction",
        _USES,
        values.choice(_OF_BATCH, _OF_TASK),
        "`batch`: all rows appear at one moment. `task`: each task prepares a transaction of its own, so rows are "
        "written once and not twice, and appear task by task: "
        "[when to take it](../guides/postgres.md#a-transaction-for-each-task).",
        default=_OF_BATCH,
    ),
    *history_options(_USES, "the database of `url`"),
)


def parse(options: Mapping[str, object]) -> SinkOptions:
    """Read and check the options of a sink.

    Args:
        options: names in any case, values as text, number or bool.

    Raises:
        InvalidOptionError: an option is unknown, malformed, missing, or contradicts another one.
    """
    given = Given(options, OPTIONS, Use.FOREACH_BATCH)
    given.require("url")
    given.require("table")
    mode, key_columns = mode_and_keys(given, "mode=upsert needs the columns by which it finds the rows to replace")
    is_prepared = given.value("transaction") == _OF_TASK
    if is_prepared and mode is not Mode.APPEND:
        raise InvalidOptionError(
            "tasks that commit by themselves can only add rows; leave transaction=task out, or take mode=append",
            option="transaction",
            mode=mode,
        )
    address = PostgresAddress.parse(given.value("url"))  # not by the table: its errors would show a password
    return SinkOptions(
        address=address,
        table=given.value("table"),
        mode=mode,
        key_columns=key_columns,
        is_prepared=is_prepared,
        **history(given),
    )


def render_markdown_table() -> str:
    """The options as a Markdown table."""
    return render_rows(OPTIONS)
