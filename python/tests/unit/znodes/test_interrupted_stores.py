"""What the exception of a signal's handler leaves behind in a store, wherever it comes: nothing.

Python runs handlers where a function begins and where a C function was called. There it also calls a profiler, and the
one of `interrupted_everywhere` raises at one of these places after the other. A traceback that is kept, as a notebook
does, keeps blocks open that were interrupted where they begin or end: their connections come back when it goes.
"""

from __future__ import annotations

import gc
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from types import FrameType
from typing import cast

import pytest

from oncelog.errors import IllegalStateTransitionError
from oncelog.ports import Check, Create, Set, ZnodeStore
from oncelog.znodes.postgres import PostgresZnodeStore
from oncelog.znodes.sqlite import SqliteZnodeStore
from oncelog.znodes.sqlite.connection import StoreConnection
from oncelog.znodes.sqlite.pool import ConnectionPool, _gate
from oncelog.znodes.zookeeper.address import ZookeeperAddress
from oncelog.znodes.zookeeper.link import Link
from tests.support.servers.postgres import PostgresServer
from tests.unit.znodes.worlds import SqliteWorld, forked, increment, number_at, wait_for


@pytest.fixture(autouse=True)
def _no_collection() -> Iterator[None]:
    """No finalizer runs in the middle of a call: what is raised in one is not raised to the caller."""
    gc.disable()
    yield
    gc.enable()


def interrupted_everywhere(call: Callable[[], object]) -> Iterator[KeyboardInterrupt]:
    """Interrupt `call` at its first place, then at its second..., until it ends without."""
    places = 0
    while interrupts := interrupted(call, places):
        places += 1
        yield interrupts.pop()
    assert places


def interrupted(call: Callable[[], object], places_before: int) -> list[KeyboardInterrupt]:
    left = places_before

    def count_down(frame: FrameType, event: str, arg: object) -> None:
        nonlocal left
        # A generator expression is also called where it is dropped, and what is raised then reaches nobody.
        if event in ("call", "c_return") and frame.f_code.co_name != "<genexpr>":
            left -= 1
            if left < 0:
                sys.setprofile(None)
                raise KeyboardInterrupt

    try:
        sys.setprofile(count_down)
        call()
        sys.setprofile(None)
    except KeyboardInterrupt as interrupt:
        return [interrupt]
    return []


def interrupted_by_signals(call: Callable[[], object], times: int) -> Iterator[None]:
    """Interrupt `call`, which lasts long, at random moments by a real signal."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        while times:
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(5e-6, 3e-4))
                call()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                times -= 1
            yield
    finally:
        signal.signal(signal.SIGALRM, before)


# SQLite


def read(store: ZnodeStore) -> None:
    store.get("/counter")


def read_children(store: ZnodeStore) -> None:
    store.children("/")


def look(store: ZnodeStore) -> None:
    with store.snapshot() as reader:
        reader.get("/counter")


def write(store: ZnodeStore) -> None:
    store.multi([Check("/other"), Set("/other", b"")])


def step(store: ZnodeStore) -> None:
    store.transact(lambda view: view.set("/other", view.get("/counter").data))  # type: ignore[union-attr]


USES = [read, read_children, look, write, step]


def is_gate_held() -> bool:
    return cast(bool, _gate.lock._is_owned())  # type: ignore[attr-defined]


@pytest.fixture
def store(sqlite: SqliteWorld) -> SqliteZnodeStore:
    store = cast(SqliteZnodeStore, sqlite.client())
    store.multi([Create("/counter", b"0"), Create("/other")])
    return store


@pytest.mark.parametrize("use", USES)
def test_an_interrupted_call_keeps_nobody_from_writing_and_the_next_one_sees_it(
    sqlite: SqliteWorld, store: SqliteZnodeStore, use: Callable[[ZnodeStore], None]
) -> None:
    other = sqlite.client()
    for kept in interrupted_everywhere(lambda: use(store)):
        assert not is_gate_held()
        count = other.transact(increment)
        assert number_at(store) == count
        with store.snapshot() as reader:
            assert reader.get("/counter") == store.get("/counter")
        del kept


@pytest.mark.parametrize("use", USES)
def test_an_interrupted_call_gives_its_connection_back_as_it_was(
    store: SqliteZnodeStore, use: Callable[[ZnodeStore], None]
) -> None:
    pool = store._pool
    for interrupt in interrupted_everywhere(lambda: use(store)):
        del interrupt
        assert not pool.visits
        assert len(pool._idle) <= 1
        assert not any(connection.is_in_transaction for connection in pool._idle)
        store.get("/counter")  # opens a connection, where the interrupted call dropped its own


@pytest.mark.slow
def test_threads_go_on_after_signals_at_any_moment(store: SqliteZnodeStore) -> None:
    def use() -> None:
        for _ in range(100):
            store.get("/counter")

    for _ in interrupted_by_signals(use, 2_000):
        assert not is_gate_held()
        assert not store._pool.visits
        store.get("/counter")


@pytest.mark.slow
def test_a_child_forked_after_an_interrupt_uses_the_store(
    store: SqliteZnodeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    for owner, name in ((ConnectionPool, "_lend"), (ConnectionPool, "_take_back"), (StoreConnection, "rollback")):
        monkeypatch.setattr(owner, name, interrupt)
        with pytest.raises(KeyboardInterrupt):
            look(store)
        wait_for([forked(lambda: store.transact(increment))])
    assert number_at(store) == 3


# PostgreSQL


@pytest.mark.slow
@pytest.mark.walk("znodes on PostgreSQL")
@pytest.mark.parametrize("use", USES)
def test_an_interrupted_call_keeps_no_lock_of_postgresql_and_no_connection(
    postgres: PostgresServer, use: Callable[[ZnodeStore], None]
) -> None:
    url = postgres.url()
    with closing(PostgresZnodeStore(url)) as store, closing(PostgresZnodeStore(url)) as other:
        store.multi([Create("/counter", b"0"), Create("/other")])
        for kept in interrupted_everywhere(lambda: use(store)):
            count = other.transact(increment)
            assert number_at(store) == count
            assert not any(connection.is_in_transaction for connection in store._pool._idle)
            del kept


# ZooKeeper


class ServerlessSession:
    """What a link knows of a session."""

    seen_zxid = 0

    def __init__(self, begun: list[ServerlessSession]) -> None:
        self.is_over = self.is_ended = False
        self._begun = begun

    def begin(self, deadline_s: float) -> None:
        self._begun.append(self)

    def has_chroot(self, deadline_s: float) -> bool:
        return True

    def ensure_private(self, deadline_s: float) -> None:
        pass

    def abandon(self) -> None:
        self.is_over = self.is_ended = True

    close = abandon


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[ServerlessSession]:
    """The sessions that were begun."""
    begun: list[ServerlessSession] = []
    monkeypatch.setattr("oncelog.znodes.zookeeper.link.Session", lambda *_: ServerlessSession(begun))
    return begun


@pytest.fixture
def link(begun: list[ServerlessSession]) -> Link:
    return Link(ZookeeperAddress.parse("zk://localhost:1/x?timeout_ms=500"), create=False)


def connect_twice(link: Link) -> None:
    link.session(link.deadline_s()).is_over = True
    link.session(link.deadline_s())


def test_an_interrupted_call_leaves_the_link_to_all_threads(link: Link) -> None:
    for _ in interrupted_everywhere(lambda: connect_twice(link)):
        thread = threading.Thread(target=lambda: connect_twice(link))
        thread.start()
        thread.join()
        session = link._session
        assert session is not None
        assert not session.is_over


def test_an_interrupted_connecting_or_closing_loses_no_session(link: Link, begun: list[ServerlessSession]) -> None:
    def use() -> None:
        connect_twice(link)
        link.close()

    for _ in interrupted_everywhere(use):
        assert all(session.is_ended or session is link._session for session in begun)
        link.close()
        assert all(session.is_ended for session in begun)
        link._is_closed = False


def test_closing_waits_for_no_thread_that_connects_and_that_one_ends_its_session(
    link: Link, begun: list[ServerlessSession], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_connecting, is_closed = threading.Event(), threading.Event()

    def wait(*_: object) -> None:
        is_connecting.set()
        is_closed.wait()

    def use() -> None:
        with pytest.raises(IllegalStateTransitionError, match="closed"):
            link.session(link.deadline_s())

    monkeypatch.setattr(ServerlessSession, "ensure_private", wait)
    thread = threading.Thread(target=use)
    thread.start()
    is_connecting.wait()
    link.close()
    is_closed.set()
    thread.join()
    assert [session.is_ended for session in begun] == [True]
