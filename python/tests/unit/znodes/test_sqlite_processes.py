"""Processes on one SQLite file that are killed, stopped, forked and pickled."""

from __future__ import annotations

import gc
import os
import pickle
import random
import signal
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from oncelog.errors import IllegalStateTransitionError, StoreUnavailableError, UsageError
from oncelog.ports import Create, Set, ZnodeView
from oncelog.znodes.memory import MemoryZnodeStore
from oncelog.znodes.sqlite import SqliteZnodeStore, connection
from oncelog.znodes.sqlite.connection import StoreConnection
from oncelog.znodes.sqlite.pool import ConnectionPool, _gate
from tests.support.harness.waiting import until
from tests.unit.znodes.worlds import (
    FakeTime,
    SqliteWorld,
    forked,
    increment,
    increment_in_generations,
    increment_while_forking,
    kill,
    number_at,
    stop_inside_a_step,
    wait_for,
)

pytestmark = pytest.mark.slow


def open_files(path: Path) -> list[str]:
    """Files of the store that this process has open."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(str(descriptor.readlink()))
    return [file for file in found if file.startswith(str(path))]


# Killed


def increment_both(view: ZnodeView) -> int:
    increment(view, "/left")
    return increment(view, "/right")


def test_a_process_killed_at_any_moment_leaves_whole_steps_and_all_that_it_acknowledged(sqlite: SqliteWorld) -> None:
    store = sqlite.client()
    store.multi([Create("/left", b"0"), Create("/right", b"0")])
    seed = random.randrange(2**32)
    moments = random.Random(seed)
    acknowledged = 0

    for _ in range(15):
        reading, writing = os.pipe()

        def work(writing: int = writing) -> None:
            with closing(SqliteZnodeStore(sqlite.path)) as own:
                while True:
                    os.write(writing, struct.pack("q", own.transact(increment_both)))

        pid = forked(work)
        os.close(writing)
        first = os.read(reading, 8)  # it is under way
        time.sleep(moments.uniform(0, 0.03))
        kill(pid)
        with os.fdopen(reading, "rb") as answers_left:
            answers = first + answers_left.read()
        acknowledged = struct.unpack("q", answers[-8:])[0]

        left, right = number_at(store, "/left"), number_at(store, "/right")
        assert left == right >= acknowledged, f"seed {seed}"
        assert right <= acknowledged + 1, f"seed {seed}"
    assert acknowledged >= 15


def test_a_process_killed_while_it_creates_the_store_leaves_none_or_a_whole_one(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    moments = random.Random(seed)
    for number in range(15):
        path = tmp_path / str(number)
        pid = forked(lambda path=path: SqliteZnodeStore(path).close())  # type: ignore[misc]
        time.sleep(moments.uniform(0, 0.02))
        kill(pid)

        with closing(SqliteZnodeStore(path)) as store:
            store.multi([Create("/a")])
            assert store.children("/") == ["a"], f"seed {seed}"


# Stopped


def test_a_process_stopped_inside_a_step_holds_up_nobody_and_writes_nothing_when_it_wakes_too_late(
    sqlite: SqliteWorld,
) -> None:
    stop_inside_a_step(sqlite)


@pytest.fixture
def holder(sqlite: SqliteWorld) -> Iterator[int]:
    """A process that stopped while it held the write lock."""
    store = sqlite.client()
    store.multi([Create("/counter", b"0")])

    def work() -> None:
        def stop() -> bool:
            os.kill(os.getpid(), signal.SIGSTOP)
            return True

        store.multi([Set("/counter", b"41")], is_fresh=stop)

    pid = forked(work)
    os.waitpid(pid, os.WUNTRACED)
    yield pid
    with suppress(ProcessLookupError, ChildProcessError):
        kill(pid)


def test_a_lock_that_stays_held_is_an_error_that_names_the_holder_and_reads_go_on(
    sqlite: SqliteWorld, holder: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "STORE_BUSY_MS", 50)
    store = sqlite.client()

    with pytest.raises(StoreUnavailableError) as caught:
        store.transact(increment)
    assert caught.value.fields["holder_pid"] == holder
    assert number_at(store) == 0


def test_a_holder_that_dies_frees_the_lock(sqlite: SqliteWorld, holder: int) -> None:
    store = sqlite.client()
    kill(holder)

    assert store.transact(increment) == 1


def test_a_holder_that_wakes_up_finishes_and_the_waiter_sees_it(sqlite: SqliteWorld, holder: int) -> None:
    store = sqlite.client()
    waiter = threading.Thread(target=lambda: store.transact(increment))
    waiter.start()
    os.kill(holder, signal.SIGCONT)
    waiter.join()
    wait_for([holder])

    assert number_at(store) == 42


# Forked


def test_a_forked_child_uses_the_store_and_outlives_its_parents_closing(sqlite: SqliteWorld) -> None:
    """SQLite alone loses the child's commit here: the parent's closing removes the log under it."""
    store = sqlite.client()
    store.multi([Create("/counter", b"0")])
    told_reading, told_writing = os.pipe()

    def work() -> None:
        with store.snapshot() as reader:
            assert reader.get("/counter") is not None
            os.read(told_reading, 1)  # the parent has closed
        assert store.transact(increment) == 1
        os._exit(0)  # as after a crash: nothing is closed

    pid = forked(work)
    store.get("/counter")
    store.close()
    os.write(told_writing, b"x")
    wait_for([pid])
    os.close(told_reading)
    os.close(told_writing)

    assert number_at(sqlite.client()) == 1


def test_a_forked_child_inherits_no_connection(sqlite: SqliteWorld) -> None:
    store = sqlite.client()
    store.multi([Create("/counter", b"0")])
    assert open_files(sqlite.path) != []

    def work() -> None:
        assert open_files(sqlite.path) == []
        assert store.transact(increment) == 1

    wait_for([forked(work)])
    assert store.transact(increment) == 2


def test_generations_of_forks_count_together(sqlite: SqliteWorld) -> None:
    store = sqlite.client()
    store.multi([Create("/counter", b"0")])

    increment_in_generations(store, 3)

    assert number_at(store) == 2 * 7 + 8


def test_a_fork_while_other_threads_write_waits_for_them_and_the_child_works(sqlite: SqliteWorld) -> None:
    store = sqlite.client()
    store.multi([Create("/counter", b"0")])

    written = increment_while_forking(store, 10)

    assert number_at(store) == written + 10


def test_a_child_forked_inside_a_step_is_told_so_and_harms_nobody(sqlite: SqliteWorld) -> None:
    store, second = sqlite.client(), sqlite.client()
    store.multi([Create("/counter", b"0")])

    def work(view: ZnodeView) -> None:
        gc.collect()
        for reader in (view, store, second):
            with pytest.raises(IllegalStateTransitionError, match=r"fork|parent"):
                reader.get("/other")
        store.close()
        assert open_files(sqlite.path) != []  # kept, for closing it would touch the parent's locks

    def step(view: ZnodeView) -> int:
        view.get("/counter")
        wait_for([forked(lambda: work(view))])
        return increment(view)

    assert store.transact(step) == 1
    assert store.transact(increment) == 2
    wait_for([forked(lambda: second.transact(increment))])
    assert number_at(store) == 3


def test_a_connection_that_a_child_inherited_is_closed_by_no_finalizer(sqlite: SqliteWorld) -> None:
    store = SqliteZnodeStore(sqlite.path)
    store.get("/")

    def work(inherited: StoreConnection) -> None:
        assert inherited.is_inherited
        del inherited._sqlite
        gc.collect()
        assert open_files(sqlite.path) != []

    with closing(store), store._pool.lent() as lent:
        wait_for([forked(lambda: work(lent))])


def test_a_thread_that_uses_the_store_may_use_it_once_more_while_a_fork_waits_for_it(sqlite: SqliteWorld) -> None:
    store = sqlite.client()
    store.multi([Create("/counter", b"0")])
    is_inside = threading.Event()
    seen = []

    def look() -> None:
        with store.snapshot() as reader:
            is_inside.set()
            until(lambda: _gate._forking)
            seen.append(reader.get("/counter") == store.get("/counter"))

    thread = threading.Thread(target=look)
    thread.start()
    is_inside.wait()
    wait_for([forked(lambda: store.transact(increment))])
    thread.join()

    assert seen == [True]
    assert number_at(store) == 1


def test_a_fork_does_not_wait_for_ever_for_a_thread_that_waits_for_it(
    sqlite: SqliteWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelog.znodes.sqlite.pool.FORK_WAIT_MS", 50)
    store = sqlite.client()
    store.multi([Create("/counter", b"0")])
    is_inside, is_forked = threading.Event(), threading.Event()

    def step(view: ZnodeView) -> int:
        is_inside.set()
        is_forked.wait()
        return increment(view)

    thread = threading.Thread(target=lambda: store.transact(step))
    thread.start()
    is_inside.wait()

    def work() -> None:
        with pytest.raises(IllegalStateTransitionError):
            store.get("/counter")

    pid = forked(work)
    is_forked.set()
    thread.join()
    wait_for([pid])
    assert number_at(store) == 1


def test_a_child_forked_while_a_thread_opens_a_connection_for_too_long_is_told_so(
    sqlite: SqliteWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("oncelog.znodes.sqlite.pool.FORK_WAIT_MS", 50)
    sqlite.client()
    is_opening, may_open = threading.Event(), threading.Event()

    def connect() -> StoreConnection:
        is_opening.set()
        may_open.wait()
        return StoreConnection(sqlite.path)

    pool = ConnectionPool(str(sqlite.path), connect)

    def use() -> None:
        with pool.lent() as lent:
            lent.rows("SELECT 1")

    def work() -> None:
        with pytest.raises(IllegalStateTransitionError):
            SqliteZnodeStore(sqlite.path)

    thread = threading.Thread(target=use)
    thread.start()
    is_opening.wait()
    pid = forked(work)
    may_open.set()
    thread.join()
    wait_for([pid])
    pool.close()


# Pickled and closed


def test_a_pickled_store_opens_its_file_at_the_first_use(sqlite: SqliteWorld) -> None:
    time_given = FakeTime()
    store = sqlite.client(time_given)
    store.multi([Create("/counter", b"0")])
    pickled = pickle.dumps(store)
    before = len(open_files(sqlite.path))

    with closing(pickle.loads(pickled)) as copy:
        assert len(open_files(sqlite.path)) == before
        assert copy.transact(increment) == 1
        assert copy.timing.now_ms() == time_given.wall_ms
    assert number_at(store) == 1


def test_a_pickled_store_never_creates_the_file(tmp_path: Path) -> None:
    with closing(SqliteZnodeStore(tmp_path / "znodes.sqlite")) as store:
        pickled = pickle.dumps(store)
    (tmp_path / "znodes.sqlite").unlink()

    copy = pickle.loads(pickled)
    with pytest.raises(UsageError, match="no znode store"):
        copy.get("/")
    assert list(tmp_path.iterdir()) == []


def test_a_store_in_memory_refuses_to_be_pickled() -> None:
    with pytest.raises(UsageError, match="memory"):
        pickle.dumps(MemoryZnodeStore())


def test_closing_leaves_no_file_open_also_for_what_is_in_use(sqlite: SqliteWorld) -> None:
    store = sqlite.client()
    with store.snapshot() as reader, store.snapshot() as second:
        assert reader.get("/") == second.get("/")
        store.close()
        assert reader.get("/") is not None
    assert open_files(sqlite.path) == []


def test_threads_that_end_leave_their_connections_to_others(sqlite: SqliteWorld) -> None:
    store = sqlite.client()
    store.get("/")
    before = len(open_files(sqlite.path))
    for _ in range(20):
        thread = threading.Thread(target=lambda: store.get("/"))
        thread.start()
        thread.join()

    assert len(open_files(sqlite.path)) == before


def test_an_error_in_a_step_or_snapshot_gives_the_connection_back(sqlite: SqliteWorld) -> None:
    store = sqlite.client()
    store.get("/")
    before = len(open_files(sqlite.path))

    def step(view: ZnodeView) -> None:
        raise KeyboardInterrupt

    for _ in range(5):
        with pytest.raises(KeyboardInterrupt):
            store.transact(step)
        with pytest.raises(KeyError), store.snapshot() as reader:
            raise KeyError(reader.get("/none"))
    assert len(open_files(sqlite.path)) == before
    store.multi([Create("/a")])


def test_a_store_that_is_dropped_frees_its_files(sqlite: SqliteWorld) -> None:
    SqliteZnodeStore(sqlite.path).get("/")

    until(lambda: gc.collect() or not open_files(sqlite.path))
