"""Options as users give them: every mistake has an error of its own, and no password is repeated."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import pytest

import oncelog_postgres
from oncelog.errors import InvalidOptionError
from oncelog.spark.kit.upserts import Mode
from oncelog_postgres.batch_sink import PostgresSink
from oncelog_postgres.options import OPTIONS, parse
from tests.support.harness.marked_secrets import assert_hidden, given

URL = "postgresql://me@host/db"


@pytest.mark.parametrize(
    ("table", "shown"),
    [
        ("delayed", "delayed"),
        ("Public.Delayed", "public.delayed"),
        ('public."Delayed"', 'public."Delayed"'),
        ('"a.b"."c""d"', '"a.b"."c""d"'),
        (" delayed ", "delayed"),
        ("übersicht", '"übersicht"'),
        ("ÜBERSICHT", '"Übersicht"'),  # as PostgreSQL does in UTF-8
        ("ü" * 31 + "a", '"' + "ü" * 31 + 'a"'),
    ],
)
def test_tables_are_named_as_in_sql(table: str, shown: str) -> None:
    assert str(parse({"url": URL, "table": table}).table) == shown


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "a required option is missing.*option='url'"),
        ({"url": URL}, "a required option is missing.*option='table'"),
        ({"url": URL, "table": "a.b.c"}, "malformed.*option='table'.*a table such as"),
        ({"url": URL, "table": "a b"}, "malformed.*option='table'"),
        ({"url": URL, "table": 'a."b'}, "malformed.*option='table'"),
        ({"url": URL, "table": "public." + "a" * 64}, "malformed.*names of 63 bytes at most"),
        ({"url": URL, "table": "ü" * 32}, "malformed.*names of 63 bytes at most"),
        ({"url": URL, "table": "t", "mode": "overwrite"}, "one of append, upsert"),
        ({"url": URL, "table": "t", "mode": "upsert"}, "mode=upsert needs the columns.*option='keyColumns'"),
        ({"url": URL, "table": "t", "keyColumns": "id"}, "the option is for mode=upsert"),
        ({"url": URL, "table": "t", "mode": "upsert", "keyColumns": "id,"}, "names of columns, separated by commas"),
        ({"url": URL, "table": "t", "dbtable": "t"}, "unknown option.*did_you_mean='table'"),
        ({"url": URL, "table": "t", "key_columns": "id"}, "unknown option.*did_you_mean='keyColumns'"),
        ({"url": "jdbc:postgresql://host/db", "table": "t"}, "not the URL of a PostgreSQL"),
        ({"url": URL, "table": "t", "takeover": "id"}, "needs a transactionalIdPrefix"),
        ({"url": URL, "table": "t", "transaction": "rows"}, "one of batch, task"),
        (
            {"url": URL, "table": "t", "mode": "upsert", "keyColumns": "id", "transaction": "task"},
            "tasks that commit by themselves can only add rows",
        ),
    ],
)
def test_options_that_are_wrong_are_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOptionError, match=said):
        oncelog_postgres.sink(**options)


@pytest.mark.parametrize(
    "url",
    ["postgresql://me:hunter2@host/db", "postgresql://me@host/db?password=hunter2", "me:hunter2@host", "hunter2"],
)
def test_a_password_in_the_url_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        oncelog_postgres.sink(url=url, table="t")

    assert "hunter2" not in str(refused.value)


def test_a_sink_can_be_pickled_and_shows_its_options() -> None:
    sink = oncelog_postgres.sink(url=URL, table="t", mode="upsert", keyColumns='id, "Day"', transactionalIdPrefix="p")
    revived: PostgresSink = pickle.loads(pickle.dumps(sink))

    assert revived.options == sink.options
    assert (sink.options.mode, sink.options.key_columns) == (Mode.UPSERT, ("id", "Day"))
    assert sink.options.ledger_place == URL, "the ledger is in the same database"
    assert "mode='upsert'" in repr(sink)


def test_no_option_shows_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    sinks = given(OPTIONS, {"url": "postgresql://host/db", "table": "t"})

    assert_hidden(((one, partial(oncelog_postgres.sink, **one)) for one in sinks), caplog)
