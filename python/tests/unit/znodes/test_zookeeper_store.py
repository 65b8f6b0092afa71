"""The store on ZooKeeper beyond the contract: limits, absent servers, chroots, and sessions that end."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from shutil import rmtree

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

import oncelog
from oncelog.errors import (
    OutcomeUnknownError,
    StepTooLargeError,
    StoreAccessError,
    StoreUnavailableError,
    UnsupportedFormatError,
    UsageError,
)
from oncelog.limits import MULTI_MAX_BYTES, MULTI_MAX_OPS
from oncelog.ports import Check, Create, Delete, Op, Set
from oncelog.znodes import paths
from oncelog.znodes.errors import StaleStepError
from oncelog.znodes.zookeeper import ZookeeperZnodeStore, reads
from oncelog.znodes.zookeeper.address import CHROOT_MAX_LENGTH
from tests.support.servers.proxy import SYNC, Loss, Proxy, proxied
from tests.support.servers.zookeeper import ZookeeperServer, running_server
from tests.unit.znodes.worlds import dump, increment

pytestmark = pytest.mark.slow


@contextmanager
def store_through(proxy: Proxy, zookeeper: ZookeeperServer) -> Iterator[ZookeeperZnodeStore]:
    with closing(ZookeeperZnodeStore(f"zk://{proxy.address}{zookeeper.chroot()}")) as store:
        yield store


# Limits


def test_a_multi_of_the_largest_size_passes_below_the_longest_chroot(zookeeper: ZookeeperServer) -> None:
    chroot = zookeeper.chroot()
    chroot += "/" + "c" * (CHROOT_MAX_LENGTH - len(chroot) - 1)
    names = [f"/{number:03}" for number in range(MULTI_MAX_OPS)]
    size = MULTI_MAX_BYTES // MULTI_MAX_OPS - len(names[0])
    with closing(ZookeeperZnodeStore(f"zk://{zookeeper.address}{chroot}")) as store:
        store.multi([Create(name, b"x" * size) for name in names])
        assert len(store.children("/")) == MULTI_MAX_OPS


@pytest.mark.parametrize(
    "ops", [[Create("/a", b"x" * MULTI_MAX_BYTES)], [Check("/")] * (MULTI_MAX_OPS + 1)], ids=["bytes", "operations"]
)
def test_a_multi_over_the_limits_never_reaches_the_server(zookeeper: ZookeeperServer, ops: list[Op]) -> None:
    with proxied(zookeeper.port) as proxy, store_through(proxy, zookeeper) as store:
        with pytest.raises(StepTooLargeError):
            store.multi(ops)
        assert store.children("/") == []
        assert proxy.multis == 0


# Reads of many


def test_many_are_read_in_their_order_with_those_that_are_not_there(zookeeper: ZookeeperServer) -> None:
    names = [f"/{number:03}" for number in range(2 * reads.TOGETHER + 1)]
    with closing(ZookeeperZnodeStore(f"zk://{zookeeper.address}{zookeeper.chroot()}")) as store:
        store.multi([Create(name, name.encode()) for name in names])
        found = store.get_many([*names, "/missing", "/000", "/"])

        assert [znode and znode.data for znode in found] == [*(name.encode() for name in names), None, b"/000", b""]
        assert found[:3] == [store.get(name) for name in names[:3]]


def test_servers_that_read_none_together_are_asked_for_each_apart(
    zookeeper: ZookeeperServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real server gets a request that it does not know, as one before 3.6 does."""
    monkeypatch.setattr(reads.ReadMany, "type", 99)
    monkeypatch.setattr(reads, "APART", set())
    with closing(ZookeeperZnodeStore(f"zk://{zookeeper.address}{zookeeper.chroot()}")) as store:
        store.multi([Create("/a", b"first"), Create("/b")])
        for _ in range(2):
            assert [znode and znode.data for znode in store.get_many(["/a", "/b", "/c"])] == [b"first", b"", None]
    assert {zookeeper.address} == reads.APART


def test_one_of_many_that_may_not_be_read_is_an_error(zookeeper: ZookeeperServer) -> None:
    with closing(ZookeeperZnodeStore(f"zk://{zookeeper.address}{zookeeper.chroot()}")) as store:
        store.multi([Create("/a"), Create("/b")])
        client = KazooClient(zookeeper.address)
        client.start()
        client.set_acls(f"{store.address.chroot}/b", [make_digest_acl("somebody", "else", read=True)])
        client.stop()
        client.close()
        with pytest.raises(StoreAccessError):
            store.get_many(["/a", "/b"])
        assert store.get("/a") is not None


# Servers that do not answer


def fails_within_s(limit_s: float, url: str) -> StoreUnavailableError:
    with closing(ZookeeperZnodeStore(url)) as store:
        began_s = time.monotonic()
        with pytest.raises(StoreUnavailableError) as caught:
            store.transact(lambda view: view.create("/a"))
        assert time.monotonic() - began_s < limit_s
    return caught.value


def test_a_server_that_nobody_runs_is_an_error_within_the_time_and_names_the_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    error = fails_within_s(5, f"zk://127.0.0.1:{port}/log?timeout_ms=300")
    assert "refused" in error.fields["reason"]
    assert error.fields["zookeeper"] == f"zk://127.0.0.1:{port}/log"


def test_a_server_that_accepts_and_never_answers_is_an_error_within_the_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        fails_within_s(5, f"zk://127.0.0.1:{mute.getsockname()[1]}/log?timeout_ms=300")


def test_a_host_that_does_not_exist_is_an_error_within_the_time() -> None:
    fails_within_s(5, "zk://no-such-host.invalid:2181/log?timeout_ms=300")


@pytest.mark.sampled("servers of ZooKeeper that are away")
def test_a_paused_server_is_an_error_within_the_time_and_goes_on_when_it_is_resumed(tmp_path: Path) -> None:
    with running_server(tmp_path) as server, closing(ZookeeperZnodeStore(server.url("timeout_ms=2000"))) as store:
        store.multi([Create("/counter", b"0")])
        server.pause()
        try:
            with pytest.raises(StoreUnavailableError):
                store.get("/counter")
            with pytest.raises((StoreUnavailableError, OutcomeUnknownError)):
                store.transact(increment)
        finally:
            server.resume()
        server.wait_until_serving()
        assert store.transact(increment) == 1


@pytest.mark.sampled("servers of ZooKeeper that are away")
def test_a_store_outlives_restarts_of_its_server(tmp_path: Path) -> None:
    with running_server(tmp_path) as server, closing(ZookeeperZnodeStore(server.url())) as store:
        store.multi([Create("/counter", b"0")])
        for number in range(1, 3):
            server.restart()
            store.sync()
            assert store.transact(increment) == number


def test_a_session_catches_up_with_the_leader_before_anything_is_asked_of_it(zookeeper: ZookeeperServer) -> None:
    """A follower may lag behind what this process, or whoever sent it here, knows.

    conformance: 67.
    """
    with proxied(zookeeper.port) as proxy, store_through(proxy, zookeeper) as store:
        store.multi([Create("/a")])
        proxy.cut()
        assert store.children("/") == ["a"]

        assert proxy.first_requests == [SYNC, SYNC]


def test_a_server_that_knows_less_than_was_seen_is_not_believed(tmp_path: Path) -> None:
    """As a follower that lags, or a server that came back without its data: to it, nothing was ever written."""
    with running_server(tmp_path) as server, closing(ZookeeperZnodeStore(server.url("timeout_ms=2000"))) as store:
        store.multi([Create("/a")])
        server.stop()
        rmtree(tmp_path / "data")
        server.start()
        server.wait_until_serving()

        with pytest.raises(StoreUnavailableError):
            store.get("/a")


# Chroots


def test_a_log_that_is_opened_and_not_created_needs_its_chroot(zookeeper: ZookeeperServer, tmp_path: Path) -> None:
    url = zookeeper.url()
    with pytest.raises(UsageError, match="no such chroot"):
        oncelog.open(tmp_path, url, create=False)
    with closing(ZookeeperZnodeStore(url)) as store:
        assert store.children("/") == []
    with pytest.raises(UsageError, match="no log or ledger in the store that znodes names"):
        oncelog.open(tmp_path, url, create=False)


def test_a_chroot_that_is_removed_under_an_open_log_is_an_error_that_says_so(zookeeper: ZookeeperServer) -> None:
    above = zookeeper.url()
    with closing(ZookeeperZnodeStore(f"{above}/log")) as store, closing(ZookeeperZnodeStore(above)) as other:
        store.sync()
        other.transact(lambda view: view.delete("/log"))
        with pytest.raises(StoreAccessError, match="removed"):
            store.transact(lambda view: view.create("/a"))


def test_logs_below_two_chroots_share_nothing(zookeeper: ZookeeperServer, tmp_path: Path) -> None:
    with (
        oncelog.open(tmp_path / "one", zookeeper.url()) as one,
        oncelog.open(tmp_path / "two", zookeeper.url()) as two,
    ):
        one.create_topic("flights")
        assert list(two.admin.list_topics()) == []
        assert one.cluster_id != two.cluster_id


def test_a_log_of_a_newer_layout_is_refused(zookeeper: ZookeeperServer, tmp_path: Path) -> None:
    url = zookeeper.url()
    with closing(ZookeeperZnodeStore(url)) as store:
        store.multi([Create(paths.FORMAT, b'{"version":2,"cluster_id":"x"}')])
    with pytest.raises(UnsupportedFormatError):
        oncelog.open(tmp_path, url)


# Sessions


def test_a_store_connects_at_its_first_use_and_not_before() -> None:
    with closing(ZookeeperZnodeStore("zk://no-such-host.invalid/log")):
        pass


def test_a_lost_connection_costs_a_reader_nothing(zookeeper: ZookeeperServer) -> None:
    with proxied(zookeeper.port) as proxy, store_through(proxy, zookeeper) as store:
        store.multi([Create("/a", b"1")])
        for _ in range(5):
            proxy.cut()
            assert set(dump(store)) == {"/", "/a"}


def test_a_connection_that_ended_in_silence_is_replaced(zookeeper: ZookeeperServer) -> None:
    with proxied(zookeeper.port) as proxy, store_through(proxy, zookeeper) as store:
        store.multi([Create("/counter", b"0")])
        for number in range(1, 6):
            proxy.cut()
            store.sync()
            assert store.transact(increment) == number


def test_a_closed_store_leaves_no_session_on_the_server(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        store = ZookeeperZnodeStore(server.url())
        store.sync()
        assert server.sessions() == 1
        store.close()
        assert server.sessions() == 0


def test_closing_does_not_wait_for_a_server_that_is_away(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        store = ZookeeperZnodeStore(server.url())
        store.sync()
        server.pause()
        try:
            began_s = time.monotonic()
            store.close()
            assert time.monotonic() - began_s < 8
        finally:
            server.resume()


@pytest.mark.sampled("servers of ZooKeeper that are away")
def test_an_expired_session_is_replaced(tmp_path: Path) -> None:
    """The server is stopped for longer than the session lives.

    conformance: 67.
    """
    with running_server(tmp_path) as server, closing(ZookeeperZnodeStore(server.url("session_ms=1000"))) as store:
        store.multi([Create("/counter", b"0")])
        for number in range(1, 3):
            server.pause()
            time.sleep(2)
            server.resume()
            store.sync()
            assert store.transact(increment) == number


# How late a write may be carried out


def test_a_step_that_grew_old_while_its_store_connected_is_not_sent(zookeeper: ZookeeperServer) -> None:
    with proxied(zookeeper.port) as proxy, store_through(proxy, zookeeper) as store:
        store.multi([Create("/a", b"old")])
        before = proxy.multis
        proxy.cut()
        with pytest.raises(StaleStepError):
            store.multi([Set("/a", b"new")], is_fresh=lambda: False)
        assert proxy.multis == before


@pytest.mark.sampled("servers of ZooKeeper that are away")
def test_a_request_in_flight_dies_with_the_session_that_sent_it(tmp_path: Path) -> None:
    """What is delivered after its session's end is not carried out, although its checks would hold."""
    with (
        running_server(tmp_path) as server,
        proxied(server.port) as proxy,
        closing(ZookeeperZnodeStore(f"zk://{proxy.address}/log?session_ms=1000")) as store,
    ):
        store.multi([Create("/a")])
        for wait_s, expected in [(0, b"new"), (3, b"old")]:  # the server looks for ended sessions once a tick
            store.multi([Delete("/a"), Create("/a", b"old")])
            proxy.lose_next(Loss.LATE)
            with pytest.raises(OutcomeUnknownError):
                store.multi([Set("/a", b"new", 0)])
            time.sleep(wait_s)
            assert proxy.deliver_late() == 1
            znode = store.get("/a")
            assert znode is not None
            assert znode.data == expected


# The command line


def test_the_command_line_takes_the_url(zookeeper: ZookeeperServer, tmp_path: Path) -> None:
    shared = ["--path", str(tmp_path), "--znodes", zookeeper.url()]
    for arguments in (["topic", "create", "flights"], ["meta", "show"]):
        command = [sys.executable, "-m", "oncelog", *arguments, *shared]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert shared[-1] in done.stdout
