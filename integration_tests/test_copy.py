"""The copy that must be exact: every number once, in order, whatever happens to ZooKeeper and to the copier."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

import oncelog
from integration_tests.copying import PLAN, Copying, Place, assert_exact, copies, copying
from integration_tests.servers import ZookeeperEnsemble
from oncelog.errors import StoreUnavailableError
from oncelog.testing import invariants
from tests.support.harness.waiting import until

COUNT = 100_000
RETRIABLE = {"StoreUnavailableError", "OutcomeUnknownError", "TransactConflictError", "TransactionAbortableError"}

Fault = Callable[[ZookeeperEnsemble, Copying], None]


def leader_is_killed(ensemble: ZookeeperEnsemble, copy: Copying) -> None:
    ensemble.leader.restart()


def leader_is_paused(ensemble: ZookeeperEnsemble, copy: Copying) -> None:
    with ensemble.leader.paused():
        time.sleep(4)


def leader_is_cut_off(ensemble: ZookeeperEnsemble, copy: Copying) -> None:
    with ensemble.leader.away():
        time.sleep(4)


def follower_is_killed(ensemble: ZookeeperEnsemble, copy: Copying) -> None:
    ensemble.followers[0].restart()


def quorum_is_lost(ensemble: ZookeeperEnsemble, copy: Copying) -> None:
    lost = ensemble.followers
    for server in lost:
        server.kill()
    copy.wait_for_error(StoreUnavailableError)
    ensemble.start(lost)


def everything_is_paused(ensemble: ZookeeperEnsemble, copy: Copying) -> None:
    for server in ensemble.servers:
        server.pause()
    copy.wait_for_error(StoreUnavailableError)
    for server in ensemble.servers:
        server.resume()


def everything_is_killed(ensemble: ZookeeperEnsemble, copy: Copying) -> None:
    ensemble.restart()


def session_expires(ensemble: ZookeeperEnsemble, copy: Copying) -> None:
    """The copier stands still for longer than its session lives."""
    leader = ensemble.leader
    sessions = leader.sessions()
    copy.pause()
    until(lambda: leader.sessions() < sessions)
    copy.resume()


def copier_is_killed(ensemble: ZookeeperEnsemble, copy: Copying) -> None:
    copy.kill()


def copier_and_leader_are_killed(ensemble: ZookeeperEnsemble, copy: Copying) -> None:
    leader = ensemble.leader
    leader.kill()
    copy.kill()
    leader.start().wait_until_serving()


FAULTS: list[Fault] = [
    copier_is_killed,
    leader_is_killed,
    session_expires,
    leader_is_paused,
    quorum_is_lost,
    copier_is_killed,
    leader_is_cut_off,
    follower_is_killed,
    everything_is_paused,
    copier_and_leader_are_killed,
    session_expires,
    everything_is_killed,
    leader_is_killed,
]


@pytest.mark.walk("a copy is exact while its servers fail")
def test_a_copy_of_100_000_records_is_exact_though_zookeeper_and_the_copier_die_pause_and_lose_each_other(
    tmp_path: Path, ensemble: ZookeeperEnsemble
) -> None:
    """Each fault strikes while its part of the records is copied, and the rest of that part is copied after it.

    conformance: 64, 65, 67.
    """
    place: Place = {"path": str(tmp_path / "log"), "znodes": ensemble.url("timeout_ms=3000&session_ms=2000")}
    part = COUNT // len(FAULTS)
    with oncelog.open(**place) as log:
        with copying(log, place, tmp_path) as copy:
            for fault in FAULTS:
                ensemble.wait_until_serving()
                copy.feed(part)
                fault(ensemble, copy)
                copy.wait_until_copied()
            copy.feed(COUNT - copy.sent)
            copy.finish()

        assert_exact(copies(log), COUNT)
        assert copy.reader.values == copies(log)
        assert set(copy.errors()) <= RETRIABLE
        with log.consumer(group_id=PLAN.name, auto_offset_reset="none") as consumer:
            consumer.subscribe([PLAN.source])
            assert consumer.poll() == []
        invariants.check(log)
