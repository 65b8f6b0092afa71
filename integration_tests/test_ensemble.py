"""A log whose znodes are in an ensemble: any one server may be lost, and without two it waits or says so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from integration_tests.logs import TIMEOUT, assert_away, opened, write_surely
from integration_tests.servers import ZookeeperEnsemble, ZookeeperServer
from oncelog.clients.producer import Producer
from tests.support.harness.waiting import until
from tests.support.log.copier import persevere
from tests.support.log.logs import TOPIC, numbered, started, values


def write(producer: Producer, name: str) -> list[bytes]:
    """Ten records, each in a transaction of its own."""
    sent = numbered(name, 10)
    for value in sent:
        write_surely(producer, lambda value=value: producer.send(TOPIC, value, partition=0))  # type: ignore[misc]
    return sent


@contextmanager
def killed(server: ZookeeperServer) -> Iterator[None]:
    server.kill()
    yield
    server.start().wait_until_serving()


LOSSES: list[Callable[[ZookeeperServer], AbstractContextManager[None]]] = [
    killed,
    ZookeeperServer.paused,
    ZookeeperServer.away,
]


@pytest.mark.parametrize("loss", LOSSES, ids=["killed", "paused", "cut off"])
def test_a_log_outlives_the_loss_of_its_leader_whichever_it_is(
    tmp_path: Path, ensemble: ZookeeperEnsemble, loss: Callable[[ZookeeperServer], AbstractContextManager[None]]
) -> None:
    """A leader that wakes up, or is back in the network, follows the new one and has changed nothing.

    conformance: 67.
    """
    with opened(tmp_path, ensemble.url("session_ms=2000")) as log, started(log) as producer:
        sent = write(producer, "before")
        for number in range(2):
            leader = ensemble.leader
            with loss(leader):
                sent += write(producer, f"without-{number}")
                assert ensemble.leader is not leader
            sent += write(producer, f"after-{number}")
            until(lambda leader=leader: leader.mode() == "follower")  # type: ignore[misc]
        persevere(lambda: values(log))
        assert values(log) == sent


def test_followers_are_restarted_one_after_another_under_load(tmp_path: Path, ensemble: ZookeeperEnsemble) -> None:
    with opened(tmp_path, ensemble.url()) as log, started(log) as producer:
        sent = []
        for number, server in enumerate(ensemble.followers):
            server.kill()
            sent += write(producer, f"without-{number}")
            server.start().wait_until_serving()
            sent += write(producer, f"after-{number}")
        assert values(log) == sent


def test_without_a_quorum_every_call_is_an_error_in_time_and_with_one_it_goes_on(
    tmp_path: Path, ensemble: ZookeeperEnsemble
) -> None:
    with opened(tmp_path, ensemble.url(TIMEOUT)) as log, started(log) as producer:
        sent = write(producer, "before")
        lost = ensemble.followers
        for server in lost:
            server.kill()
        until(lambda: not any(server.is_serving() for server in ensemble.servers))  # the leader takes its time
        assert_away(log)

        ensemble.start(lost)
        sent += write(producer, "after")
        assert values(log) == sent


def test_what_was_committed_is_there_after_all_servers_were_killed_at_once(
    tmp_path: Path, ensemble: ZookeeperEnsemble
) -> None:
    with opened(tmp_path, ensemble.url()) as log, started(log) as producer:
        sent = write(producer, "before")
        ensemble.restart()
        sent += write(producer, "after")
        assert values(log) == sent
