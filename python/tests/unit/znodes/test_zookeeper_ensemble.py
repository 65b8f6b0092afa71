"""The store on three servers: what was acknowledged is seen behind any of them, and leaders may die at any moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from oncelog.errors import OutcomeUnknownError, RetriableError
from oncelog.ports import Create, ZnodeView
from oncelog.znodes.zookeeper import ZookeeperZnodeStore
from tests.support.harness.waiting import until
from tests.support.servers.zookeeper import ZookeeperEnsemble, running_ensemble
from tests.unit.znodes.worlds import increment

pytestmark = pytest.mark.slow

PATIENCE_S = 120


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZookeeperEnsemble]:
    with running_ensemble(tmp_path_factory.mktemp("ensemble")) as ensemble:
        yield ensemble


def add_once(name: str, number: int) -> Callable[[ZnodeView], None]:
    """A step that adds one to the counter; run again, it finds that it did."""

    def step(view: ZnodeView) -> None:
        done = view.get(f"/done/{name}")
        assert done is not None
        if int(done.data) == number:
            view.set(f"/done/{name}", b"%d" % (number + 1))
            increment(view)

    return step


def persevere(call: Callable[[], object]) -> int:
    """Make the same call until it is answered; returns how often its outcome was unknown."""
    unknown, deadline_s = 0, time.monotonic() + PATIENCE_S
    while True:
        assert time.monotonic() < deadline_s, "tried in vain"
        try:
            call()
        except OutcomeUnknownError:
            unknown += 1
        except RetriableError:
            continue
        else:
            return unknown


@pytest.mark.sampled("servers of ZooKeeper that are away")
def test_steps_of_many_are_applied_once_each_while_leaders_die(tmp_path: Path) -> None:
    """conformance: 67."""
    workers, is_over = 3, threading.Event()
    counts = [0] * workers

    with running_ensemble(tmp_path) as own:
        url = own.url("session_ms=2000")

        def work(worker: int) -> None:
            with closing(ZookeeperZnodeStore(url)) as store:
                while not is_over.is_set():
                    persevere(lambda: store.transact(add_once(str(worker), counts[worker])))
                    counts[worker] += 1

        with closing(ZookeeperZnodeStore(url)) as store:
            names = [f"/done/{worker}" for worker in range(workers)]
            store.multi([Create("/counter", b"0"), Create("/done"), *(Create(name, b"0") for name in names)])
            threads = [threading.Thread(target=work, args=(worker,)) for worker in range(workers)]
            for thread in threads:
                thread.start()
            try:
                for _ in range(3):
                    before = list(counts)
                    own.leader.restart()
                    until(lambda before=before: all(now > old for now, old in zip(counts, before, strict=True)))  # type: ignore[misc]
            finally:
                is_over.set()
                for thread in threads:
                    thread.join()
            store.sync()
            counter = store.get("/counter")
            assert counter is not None
            assert int(counter.data) == sum(counts)


def test_a_new_session_sees_all_that_was_acknowledged_behind_whichever_server(ensemble: ZookeeperEnsemble) -> None:
    """A follower may lag behind the server that acknowledged."""
    chroot = ensemble.servers[0].chroot()
    with closing(ZookeeperZnodeStore(f"zk://{ensemble.leader.address}{chroot}")) as writer:
        writer.multi([Create("/counter", b"0")])
        for number in range(1, 11):
            writer.transact(increment)
            for follower in ensemble.followers:
                with closing(ZookeeperZnodeStore(f"zk://{follower.address}{chroot}")) as reader:
                    znode = reader.get("/counter")
                    assert znode is not None
                    assert int(znode.data) == number


def test_after_a_sync_a_reader_sees_what_was_acknowledged_elsewhere(ensemble: ZookeeperEnsemble) -> None:
    chroot = ensemble.servers[1].chroot() + "-sync"
    follower = ensemble.followers[0]
    with (
        closing(ZookeeperZnodeStore(f"zk://{ensemble.leader.address}{chroot}")) as writer,
        closing(ZookeeperZnodeStore(f"zk://{follower.address}{chroot}")) as reader,
    ):
        writer.multi([Create("/counter", b"0")])
        for number in range(1, 101):
            writer.transact(increment)
            reader.sync()
            znode = reader.get("/counter")
            assert znode is not None
            assert int(znode.data) == number


@pytest.mark.sampled("servers of ZooKeeper that are away")
def test_without_a_quorum_calls_fail_within_the_time_and_go_on_with_one(tmp_path: Path) -> None:
    with (
        running_ensemble(tmp_path) as own,
        closing(ZookeeperZnodeStore(own.url("timeout_ms=1000"))) as store,
    ):
        store.multi([Create("/counter", b"0")])
        followers = own.followers
        for server in followers:
            server.stop()
        with pytest.raises((RetriableError, OutcomeUnknownError)):
            store.transact(increment)
        for server in followers:
            server.start()
        for server in followers:
            server.wait_until_serving()
        before = store.get("/counter")
        assert before is not None
        persevere(lambda: store.transact(increment))
        after = store.get("/counter")
        assert after is not None
        assert int(after.data) == int(before.data) + 1
