"""Options as users give them: every mistake has an error of its own, and no credential is repeated."""

from __future__ import annotations

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import deltalake
import pytest

import oncelog_tables
from oncelog.errors import InvalidOptionError, UsageError
from oncelog.spark.kit.upserts import Mode
from oncelog_tables.batch_sink import DeltaSink, IcebergSink
from oncelog_tables.delta_tables import DeltaTables
from oncelog_tables.options import DELTA as DELTA_OPTIONS
from oncelog_tables.options import ICEBERG as ICEBERG_OPTIONS
from oncelog_tables.options import parse_delta
from tests.support.harness.marked_secrets import assert_hidden, given

BOTH = {"path": "/lake/t", "znodes": "/ledger"}


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/lake/a b", "/lake/a b"),
        ("/lake/t/", "/lake/t"),
        ("file:///lake/a%20b", "/lake/a b"),
        ("lake", str(Path.cwd() / "lake")),
        ("s3a://bucket/t/", "s3a://bucket/t"),
        ("abfss://c@a.dfs.core.windows.net/t", "abfss://c@a.dfs.core.windows.net/t"),
    ],
)
def test_a_table_is_a_path_or_a_uri(path: str, shown: str) -> None:
    assert parse_delta({"path": path, "znodes": "/ledger"}).path == shown


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "a required option is missing.*option='path'"),
        ({**BOTH, "path": " "}, "malformed.*option='path'"),
        ({**BOTH, "path": "/lake/100%"}, "a path without %"),
        ({**BOTH, "mode": "upsert"}, "mode=upsert needs the columns by which it finds.*option='keyColumns'"),
        ({**BOTH, "keyColumns": "id"}, "for mode=upsert.*option='keyColumns'.*mode='append'"),
        ({**BOTH, "mode": "upsert", "keyColumns": "id,"}, "names of columns, separated by commas"),
        ({**BOTH, "mode": "overwrite"}, "malformed.*option='mode'.*one of append, upsert"),
        ({**BOTH, "key_columns": "id"}, "unknown option.*did_you_mean='keyColumns'"),
        ({**BOTH, "table": "t"}, "unknown option.*option='table'"),
        ({**BOTH, "sink_name": "t"}, "unknown option.*did_you_mean='sinkName'"),
        ({**BOTH, "storageOptions": "t"}, "unknown option"),
        ({**BOTH, "takeover": "id"}, "needs a transactionalIdPrefix"),
    ],
)
def test_options_that_are_wrong_are_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOptionError, match=said):
        oncelog_tables.delta(**options)


def test_a_sink_can_be_pickled_and_shows_its_options_without_credentials() -> None:
    secret = {"storage.aws_secret_access_key": "hunter2", "Storage.AWS_REGION": "eu"}
    sink = oncelog_tables.delta(**BOTH, transactionalIdPrefix="p", mode="UPSERT", keyColumns="id, Day", **secret)
    revived: DeltaSink = pickle.loads(pickle.dumps(sink))

    assert revived.options == sink.options
    assert (sink.options.mode, sink.options.key_columns) == (Mode.UPSERT, ("id", "Day"))
    assert sink.options.storage == {"aws_secret_access_key": "hunter2", "AWS_REGION": "eu"}
    assert "path='/lake/t'" in repr(sink)
    assert "hunter2" not in repr(sink)


def test_the_error_for_a_credential_that_is_no_text_does_not_repeat_it() -> None:
    with pytest.raises(InvalidOptionError, match=r"option='storage.secret'") as refused:
        oncelog_tables.delta(**BOTH, **{"storage.secret": ["hunter2"]})

    assert "hunter2" not in str(refused.value)


ICEBERG = {"table": "lake.t", "znodes": "/ledger"}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "a required option is missing.*option='table'"),
        ({**ICEBERG, "table": "t"}, "a table with its namespace, such as lake.delayed"),
        ({**ICEBERG, "table": "lake..t"}, "a table with its namespace"),
        ({**ICEBERG, "mode": "upsert"}, "mode=upsert needs the columns by which it finds"),
        ({**ICEBERG, "path": "/lake/t"}, "unknown option.*option='path'"),
    ],
)
def test_options_of_iceberg_that_are_wrong_are_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidOptionError, match=said):
        oncelog_tables.iceberg(**options)


def test_properties_of_a_catalog_are_not_shown() -> None:
    sink = oncelog_tables.iceberg(**ICEBERG, catalog="prod", **{"catalog.token": "hunter2", "catalog.type": "rest"})
    revived: IcebergSink = pickle.loads(pickle.dumps(sink))

    assert revived.options == sink.options
    assert sink.options.properties == {"token": "hunter2", "type": "rest"}
    assert "catalog='prod'" in repr(sink)
    assert "hunter2" not in repr(sink)


def test_a_delta_rs_that_would_leave_the_batch_out_of_its_commit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deltalake, "__version__", "1.5.1")

    with pytest.raises(UsageError, match=r"deltalake is too old: .*installed='1.5.1', oldest='1.6'"):
        DeltaTables({})


def test_no_option_shows_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    secret = ("storage.aws_secret_access_key", "storage.azure_storage_sas_key", "catalog.token", "catalog.uri")
    delta = given(DELTA_OPTIONS, BOTH, *secret[:2])
    iceberg = given(ICEBERG_OPTIONS, {"table": "a.b", "znodes": "/ledger"}, *secret[2:])

    assert_hidden(((one, partial(oncelog_tables.delta, **one)) for one in delta), caplog)
    assert_hidden(((one, partial(oncelog_tables.iceberg, **one)) for one in iceberg), caplog)
