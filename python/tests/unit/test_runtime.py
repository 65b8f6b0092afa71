"""Opening a log, or a store by itself: what is created, and under which path others find it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import oncelog
from oncelog import metadata
from oncelog.errors import UsageError
from oncelog.znodes.schemes import ZNODES_FILE
from oncelog.znodes.sqlite import SqliteZnodeStore


def test_a_log_that_is_opened_by_a_relative_path_is_known_by_its_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tasks of sources and sinks open the log by its path, on executors with a working folder of their own."""
    monkeypatch.chdir(tmp_path)
    with oncelog.open("log") as log:
        log.create_topic("flights")
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")

        with oncelog.open(log.path, create=False) as opened:
            assert [topic.topic for topic in opened.admin.list_topics()] == ["flights"]


@pytest.mark.parametrize(
    ("opens", "said"),
    [
        (oncelog.open, r"there is no log here; check the path, .* \[path="),
        (metadata.open_metadata, r"there is no log or ledger in the store that znodes names; .* \[znodes="),
    ],
)
def test_a_store_that_holds_no_log_is_left_as_it_is_by_who_must_not_create_one(
    tmp_path: Path, opens: Callable[..., object], said: str
) -> None:
    store = SqliteZnodeStore(tmp_path / ZNODES_FILE)

    with pytest.raises(UsageError, match=said):
        opens(str(tmp_path), create=False)

    assert store.children("/") == []
    store.close()
