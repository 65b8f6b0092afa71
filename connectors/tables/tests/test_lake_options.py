"""Options as users give them: every mistake has an error of its own, and no credential is repeated."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import oncelog_tables
from oncelog.errors import InvalidOptionError
from oncelog_tables.batch_sink import DeltaSink
from oncelog_tables.options import parse_delta

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
        ({**BOTH, "mode": "upsert"}, "malformed.*option='mode'.*append: to replace rows"),
        ({**BOTH, "mode": "overwrite"}, "malformed.*option='mode'.*one of append"),
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
    sink = oncelog_tables.delta(**BOTH, transactionalIdPrefix="p", mode="APPEND", **secret)
    revived: DeltaSink = pickle.loads(pickle.dumps(sink))

    assert revived.options == sink.options
    assert sink.options.storage == {"aws_secret_access_key": "hunter2", "AWS_REGION": "eu"}
    assert "path='/lake/t'" in repr(sink)
    assert "hunter2" not in repr(sink)


def test_the_error_for_a_credential_that_is_no_text_does_not_repeat_it() -> None:
    with pytest.raises(InvalidOptionError, match=r"option='storage.secret'") as refused:
        oncelog_tables.delta(**BOTH, **{"storage.secret": ["hunter2"]})

    assert "hunter2" not in str(refused.value)
