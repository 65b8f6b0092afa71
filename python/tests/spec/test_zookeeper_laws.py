"""The log on a real ZooKeeper whose connections break: reading again decides, and nothing happens twice.

The programs are those of test_crash_laws.py (a transactional copier) and of test_round_laws.py (a sink), and a proxy
strikes each multi of their lives in turn.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from oncelog import limits
from oncelog.errors import OncelogError
from tests.support.log.copier import Plan, assert_copied_once, copy_in, prepare
from tests.support.log.logs import TOPIC
from tests.support.log.rounds import SOURCE, Sink, assert_written_once
from tests.support.log.server_logs import ServerLogWorld, server_log_world
from tests.support.log.wire import WireStore
from tests.support.servers.proxy import Loss, Proxy, proxied
from tests.support.servers.zookeeper import ZookeeperServer, running_ensemble

pytestmark = pytest.mark.slow

BATCHES = 3
PLAN = Plan(targets=[TOPIC], pause_s=0)
COUNT = 3


@pytest.fixture(autouse=True)
def _short_tails(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that programs roll the index on their way."""
    monkeypatch.setattr(limits, "TAIL_MAX_ENTRIES", 5)
    monkeypatch.setattr(limits, "INDEX_FANOUT", 2)


@contextmanager
def struck(
    folder: Path, zookeeper: ZookeeperServer, proxy: Proxy, loss: Loss, at: int
) -> Iterator[tuple[ServerLogWorld, WireStore]]:
    chroot = zookeeper.chroot()
    with server_log_world(folder / str(at), f"zk://{zookeeper.address}{chroot}") as world:
        yield world, WireStore(world.store(f"zk://{proxy.address}{chroot}"), proxy, loss, at)


def every_multi(folder: Path, zookeeper: ZookeeperServer, loss: Loss) -> Iterator[tuple[ServerLogWorld, WireStore]]:
    """A fresh, empty log for each multi of a program's life, with a connection that breaks there."""
    with proxied(zookeeper.port) as proxy:
        for at in itertools.count():
            with struck(folder, zookeeper, proxy, loss, at) as (world, store):
                yield world, store
                if not store.has_struck:
                    assert at > 8, "a life has many multis"
                    return


@pytest.mark.variant(by="zookeeper")  # a life for each multi
@pytest.mark.parametrize("loss", Loss)
def test_a_multi_that_the_wire_loses_is_resolved_by_its_caller_and_nothing_happens_twice(
    tmp_path: Path, zookeeper: ZookeeperServer, loss: Loss
) -> None:
    """conformance: 16, 33, 67."""
    for world, store in every_multi(tmp_path, zookeeper, loss):
        prepare(world.log, PLAN, COUNT)
        copy_in(world, world.open(store), PLAN)

        assert_copied_once(world.log, PLAN, COUNT)


@pytest.mark.variant(by="zookeeper")
@pytest.mark.parametrize("loss", Loss)
def test_a_sink_whose_multi_the_wire_loses_writes_each_batch_once(
    tmp_path: Path, zookeeper: ZookeeperServer, loss: Loss
) -> None:
    """conformance: 52, 53, 67."""
    for world, store in every_multi(tmp_path, zookeeper, loss):
        world.log.create_topic(TOPIC, partitions=2)
        world.log.create_topic(SOURCE)
        sink = Sink()
        with suppress(OncelogError):
            sink.run(world.open(store), BATCHES)
        assert len(sink.finished) == BATCHES
        assert_written_once(world.log, BATCHES)


def test_a_log_outlives_the_loss_of_its_leader(tmp_path: Path) -> None:
    """Whichever server leads is killed right before a copier starts, and comes back.

    conformance: 64, 67.
    """
    with (
        running_ensemble(tmp_path / "ensemble") as ensemble,
        server_log_world(tmp_path / "log", ensemble.url()) as world,
    ):
        prepare(world.log, PLAN, COUNT)
        for _ in range(2):
            leader = ensemble.leader
            leader.stop()
            copy_in(world, world.log, PLAN)
            assert_copied_once(world.log, PLAN, COUNT)
            leader.restart()
