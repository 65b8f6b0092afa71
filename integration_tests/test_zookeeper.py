"""A log whose znodes are in a ZooKeeper that is killed, paused and cut off: it waits or says so, and goes on."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import oncelog
from integration_tests.logs import TIMEOUT, assert_away, opened
from integration_tests.servers import ZookeeperServer, chroot
from oncelog.errors import ProducerFencedError
from tests.support.harness.waiting import until
from tests.support.log.copier import persevere
from tests.support.log.logs import numbered, started, values, write_aborted, write_committed, write_open
from tests.support.servers.proxy import Loss, proxied

FIRST, SECOND = numbered("first", 20), numbered("second", 20)


def test_a_log_outlives_the_kill_of_its_server_and_keeps_all_that_was_committed(
    tmp_path: Path, zookeeper: ZookeeperServer
) -> None:
    with opened(tmp_path, zookeeper.url(TIMEOUT)) as log, started(log) as producer:
        write_committed(producer, *FIRST)

        zookeeper.kill()
        assert_away(log)

        zookeeper.start().wait_until_serving()
        assert values(log) == FIRST
        write_aborted(producer, b"given up")
        write_committed(producer, *SECOND)
        assert values(log) == FIRST + SECOND


def test_a_transaction_that_is_open_when_the_server_is_killed_commits_after_its_restart(
    tmp_path: Path, zookeeper: ZookeeperServer
) -> None:
    with opened(tmp_path, zookeeper.url(TIMEOUT)) as log, started(log) as producer:
        write_open(producer, *FIRST)

        zookeeper.restart()

        persevere(lambda: values(log))
        assert values(log) == []
        persevere(producer.commit_transaction)
        assert values(log) == FIRST


def test_calls_wait_for_a_server_that_is_away_for_less_than_their_time(
    tmp_path: Path, zookeeper: ZookeeperServer
) -> None:
    with opened(tmp_path, zookeeper.url("timeout_ms=60000")) as log, started(log) as producer:
        write_committed(producer, *FIRST)

        zookeeper.pause()
        waking = threading.Timer(2, zookeeper.resume)
        waking.start()
        write_committed(producer, *SECOND)
        waking.join()

        assert values(log) == FIRST + SECOND


def test_a_server_that_is_paused_for_longer_is_an_error_in_time_and_then_it_goes_on(
    tmp_path: Path, zookeeper: ZookeeperServer
) -> None:
    with opened(tmp_path, zookeeper.url(TIMEOUT)) as log, started(log) as producer:
        write_committed(producer, *FIRST)

        with zookeeper.paused():
            assert_away(log)

        zookeeper.wait_until_serving()
        write_committed(producer, *SECOND)
        assert values(log) == FIRST + SECOND


def test_a_server_that_is_cut_off_from_the_network_is_an_error_in_time_and_then_it_goes_on(
    tmp_path: Path, zookeeper: ZookeeperServer
) -> None:
    with opened(tmp_path, zookeeper.url(TIMEOUT)) as log, started(log) as producer:
        write_committed(producer, *FIRST)

        with zookeeper.away():
            assert_away(log)

        zookeeper.wait_until_serving()
        write_committed(producer, *SECOND)
        assert values(log) == FIRST + SECOND


def test_a_client_whose_session_expired_goes_on_and_one_that_was_fenced_meanwhile_does_not(
    tmp_path: Path, zookeeper: ZookeeperServer
) -> None:
    """Its connection is gone for longer than its session lives; to the others it seems dead.

    conformance: 67.
    """
    place = chroot()
    with opened(tmp_path, f"zk://{zookeeper.address}{place}") as log, proxied(zookeeper.port) as proxy:
        sessions = zookeeper.sessions()
        with oncelog.open(tmp_path, f"zk://{proxy.address}{place}?session_ms=1000&{TIMEOUT}") as cut_off:
            patient, fenced = started(cut_off, "patient"), started(cut_off, "fenced")
            write_open(patient, *FIRST)
            write_open(fenced, b"never seen")

            proxy.go_down()
            until(lambda: zookeeper.sessions() <= sessions)
            write_committed(started(log, "fenced"), *SECOND, number=1)
            proxy.come_up()

            persevere(patient.commit_transaction)
            with pytest.raises(ProducerFencedError):
                persevere(fenced.commit_transaction)
        assert values(log) == FIRST + SECOND


@pytest.mark.parametrize("loss", [Loss.REPLY, Loss.REQUEST])
def test_a_commit_whose_multi_the_network_loses_happens_once(
    tmp_path: Path, zookeeper: ZookeeperServer, loss: Loss
) -> None:
    place = chroot()
    with (
        opened(tmp_path, f"zk://{zookeeper.address}{place}") as log,
        proxied(zookeeper.port) as proxy,
        oncelog.open(tmp_path, f"zk://{proxy.address}{place}") as through,
        started(through) as producer,
    ):
        for value in FIRST[:5]:
            write_open(producer, value)
            proxy.lose_next(loss)
            persevere(producer.commit_transaction)
            assert proxy.losses == 1
        assert values(log) == FIRST[:5]
