"""A log whose znodes are in the example's store: opened by its URL, from other processes, and under kills."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

import json_file_store
import oncelog
from json_file_store import JsonFileStore
from oncelog import runtime
from oncelog.errors import CorruptDataError
from oncelog.ports import Create
from tests import packages
from tests.support.log.logs import TOPIC, started, values, write_aborted, write_committed
from tests.unit.znodes.worlds import forked, increment, kill, number_at


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the package is that registers the store."""
    site = tmp_path / "site"
    packages.install(site, "json_file", {"json": "json_file_store:SCHEME"})
    monkeypatch.syspath_prepend(site)
    return site


@pytest.mark.slow
def test_a_log_is_written_here_and_read_by_a_process_that_knows_its_url(tmp_path: Path, site: Path) -> None:
    url = f"json:{tmp_path}/znodes.json"
    with oncelog.open(tmp_path / "log", url) as log:
        log.create_topic(TOPIC)
        producer = started(log)
        write_committed(producer, b"kept")
        write_aborted(producer, b"dropped")
        assert values(log) == [b"kept"]
    command = [sys.executable, "-m", "oncelog", "log", "dump", TOPIC, "--path", str(tmp_path / "log"), "--znodes", url]
    folders = [site, Path(json_file_store.__file__).parent, Path(runtime.__file__).parents[1]]

    done = subprocess.run(
        [*command, "--json"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "kept" in done.stdout
    assert not (tmp_path / "log" / "znodes.sqlite").exists()


def test_a_log_moves_into_the_store_and_goes_on_there(tmp_path: Path, site: Path) -> None:
    url = f"json:{tmp_path}/znodes.json"
    with oncelog.open(tmp_path / "log") as log:
        log.create_topic(TOPIC)
        write_committed(started(log), b"before")
        runtime.copy_metadata(log, url)

    with oncelog.open(tmp_path / "log", url, create=False) as log:
        write_committed(started(log), b"after")
        assert values(log) == [b"before", b"after"]


def test_a_writer_killed_at_any_moment_leaves_all_that_it_was_told_of(tmp_path: Path) -> None:
    store = JsonFileStore(tmp_path / "znodes.json")
    store.multi([Create("/counter", b"0")])
    for _ in range(5):
        told = tmp_path / "told"
        told.write_bytes(b"%d" % number_at(store))

        def count(told: Path = told) -> None:
            while True:
                number = store.transact(increment)
                told.with_suffix(".new").write_bytes(b"%d" % number)
                told.with_suffix(".new").replace(told)

        child = forked(count)
        time.sleep(random.uniform(0.02, 0.1))
        kill(child)

        assert number_at(store) - int(told.read_bytes()) in (0, 1)
        store.transact(increment)  # nobody holds the lock
    store.close()


@pytest.mark.parametrize("damage", ["", "{", "[]", json.dumps({"zxid": 1, "last_ms": 1, "znodes": {"/a/b": ["", []]}})])
def test_a_damaged_file_is_an_error_and_never_a_new_store(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "znodes.json"
    JsonFileStore(file).close()
    file.write_text(damage)

    store = JsonFileStore(file)
    with pytest.raises(CorruptDataError):
        store.get("/")
    assert file.read_text() == damage
