"""Waiting for the commits of other processes on one SQLite file, and what happens where their touch of it is missed."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from oncelog.limits import LOOK_MS
from oncelog.ports import Check, Create, Set
from oncelog.testing.znode_store_contract.watches import LONG_MS, waited_ms
from oncelog.znodes.sqlite import store as store_module
from oncelog.znodes.sqlite.bell import Bell, Bells, ring
from oncelog.znodes.sqlite.watch import SqliteWatch
from tests.unit.znodes.worlds import SqliteWorld, forked, increment, number_at, wait_for

pytestmark = pytest.mark.slow


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.touch()
    return path


def test_a_bell_hears_a_touch_of_another_process(file: Path) -> None:
    bell = Bell(file)
    wait_for([forked(lambda: ring(file))])
    began_s = time.monotonic()
    bell.wait(LONG_MS)
    assert time.monotonic() - began_s < LONG_MS / 1000
    bell.close()


def test_each_of_many_processes_hears_the_same_touch(file: Path) -> None:
    ready, go = os.pipe()

    def hear() -> None:
        bell = Bell(file)
        os.write(go, b".")
        began_s = time.monotonic()
        bell.wait(LONG_MS)
        assert time.monotonic() - began_s < LONG_MS / 1000

    children = [forked(hear) for _ in range(4)]
    for _ in children:
        os.read(ready, 1)
    ring(file)
    wait_for(children)


def test_a_multi_that_writes_touches_the_file_and_one_that_only_checks_does_not(sqlite: SqliteWorld) -> None:
    store = sqlite.client()
    store.multi([Create("/a")])
    bell = Bell(sqlite.path)
    for op, most_ms in ((Check("/a"), 20), (Set("/a", b"new"), LONG_MS)):
        wait_for([forked(lambda op=op: store.multi([op]))])  # type: ignore[misc]
        began_s = time.monotonic()
        bell.wait(most_ms)
        was_silent = time.monotonic() - began_s >= most_ms / 1000
        assert was_silent == isinstance(op, Check)


def test_a_bell_of_a_file_that_cannot_be_watched_lets_the_time_pass(tmp_path: Path) -> None:
    bells = Bells(tmp_path / "none")
    bell = bells.take()
    began_s = time.monotonic()
    bell.wait(30)
    bells.take_back(bell)

    assert bell.is_deaf
    assert time.monotonic() - began_s >= 0.03
    assert bells.take() is not bell  # the file may be there by now


def test_a_missing_file_is_no_error_to_who_rings(tmp_path: Path) -> None:
    ring(tmp_path / "none")


def test_bells_are_kept_but_never_beyond_a_fork_or_the_end(file: Path) -> None:
    bells = Bells(file)
    bell = bells.take()
    bells.take_back(bell)

    def take() -> None:
        assert bells.take() is not bell

    wait_for([forked(take)])
    assert bells.take() is bell
    bells.close()
    bells.take_back(bell)
    assert bells.take() is not bell


def test_a_commit_whose_process_was_killed_before_it_touched_the_file_is_seen_at_the_next_look(
    sqlite: SqliteWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = sqlite.client()
    store.multi([Create("/a")])

    def die(path: Path) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def write() -> None:
        monkeypatch.setattr(store_module, "ring", die)
        time.sleep(3 * LOOK_MS / 1000)
        store.multi([Set("/a", b"new")])

    with store.watch() as watch:
        watch.wait(["/a"], LONG_MS)
        pid = forked(write)
        assert waited_ms(store, lambda: watch.wait(["/a"], LONG_MS)) < LONG_MS
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def test_a_wait_goes_on_while_others_change_other_znodes(sqlite: SqliteWorld) -> None:
    store = sqlite.client()
    store.multi([Create("/a"), Create("/counter", b"0")])
    with store.watch() as watch:
        watch.wait(["/a"], 0)
        children = [forked(lambda: [store.transact(increment) for _ in range(20)])]
        assert waited_ms(store, lambda: watch.wait(["/a"], 300)) >= 299
        wait_for(children)
        assert number_at(store) == 20


def test_a_thread_that_waits_keeps_no_fork_waiting_and_hears_the_child(sqlite: SqliteWorld) -> None:
    store = sqlite.client()
    store.multi([Create("/counter", b"0")])
    waiting = threading.Event()
    heard: list[int] = []

    def wait() -> None:
        with store.watch() as watch:
            watch.wait(["/counter"], LONG_MS)
            waiting.set()
            heard.append(waited_ms(store, lambda: watch.wait(["/counter"], LONG_MS)))

    thread = threading.Thread(target=wait)
    thread.start()
    waiting.wait()
    wait_for([forked(lambda: store.transact(increment))])
    thread.join()
    assert heard[0] < LONG_MS


def test_only_who_has_waited_has_a_bell(sqlite: SqliteWorld) -> None:
    """A poll that finds records at once opens no file for it."""
    store = sqlite.client()
    store.multi([Create("/a")])
    with store.watch() as watch:
        watch.wait(["/a"], LONG_MS)

        assert isinstance(watch, SqliteWatch)
        assert watch._bell is None
