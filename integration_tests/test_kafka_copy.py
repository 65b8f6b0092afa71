"""Copies between topics that must be exact, whatever happens to the brokers and to the query."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import docker
import pytest

from integration_tests.engine import KAFKA_IMAGE, KAFKA_TV1_IMAGE
from integration_tests.kafka_copying import PREFIX, TARGET, kafka_copying
from integration_tests.kafka_servers import COORDINATORS, running_kafka, running_kafka_cluster
from integration_tests.servers import Server
from oncelog.crash_points import CrashPoint
from oncelog_kafka.crash_points import KafkaCrashPoint
from oncelog_kafka.options.sink_options import DEFAULT_LEDGER_TOPIC
from tests.support.harness.parts import require_java
from tests.support.harness.waiting import until
from tests.support.servers.kafka import require_shims
from tests.support.spark.jobs.kafka_copier import WRITE

COUNT = 50_000
OUTAGE_S = 2
SHORT_MS = 12_000
"""Time-out of transactions that are to time out; it must be enough for writing a batch."""

Loss = Callable[[Server], AbstractContextManager[None]]


@contextmanager
def killed(server: Server) -> Iterator[None]:
    server.kill()
    yield
    server.start()


@contextmanager
def wiped(server: Server) -> Iterator[None]:
    """It comes back without any of its data, which the others have."""
    server.kill()
    server.remove()
    yield
    server.create()


Step = tuple[str, Loss]
"""Where a batch stands when its broker is lost, and how it is lost."""

LOSSES: list[Step] = [
    (WRITE, killed),
    (KafkaCrashPoint.WRITTEN, Server.paused),
    (CrashPoint.ROUND_DECIDED, killed),
    (KafkaCrashPoint.ENDED, Server.away),
]
"""In the write, before the look at what is prepared, before the first commit is sent, and between the commits."""

OTHER_LOSSES: list[Step] = [
    (WRITE, Server.away),
    (KafkaCrashPoint.WRITTEN, killed),
    (CrashPoint.ROUND_DECIDE, Server.paused),
    (KafkaCrashPoint.ENDED, killed),
]


@pytest.fixture(autouse=True)
def _needs_java() -> None:
    require_java()
    require_shims()


@pytest.mark.walk("a copy is exact while its servers fail")
@pytest.mark.parametrize(
    ("image", "losses"),
    [
        pytest.param(KAFKA_IMAGE, LOSSES, id="transactions of version 2"),
        pytest.param(KAFKA_TV1_IMAGE, OTHER_LOSSES, id="transactions of version 1"),
    ],
)
def test_a_copy_of_50_000_records_is_exact_though_the_only_broker_dies_pauses_and_leaves_the_network(
    engine: docker.DockerClient, tmp_path: Path, image: str, losses: list[Step]
) -> None:
    """At last the driver dies behind a decision, and stays away until the broker has aborted the transactions.

    conformance: 52, 53, 56, 64.
    """
    part = COUNT // (len(losses) + 1)
    with running_kafka(engine, image) as kafka, kafka_copying(kafka, tmp_path) as copy:
        (server,) = kafka.servers
        copy.start()
        for gate, loss in losses:
            copy.feed_up_to(gate, part)
            with loss(server):
                copy.release(gate)
                time.sleep(OUTAGE_S)
            kafka.wait_until_serving()
            copy.wait_until_copied()
        copy.kill()

        copy.start(onTimedOutParticipant="rewrite", transactionTimeoutMs=SHORT_MS)
        copy.feed_up_to(CrashPoint.ROUND_DECIDED, COUNT - copy.sent)
        copy.kill()
        until(lambda: not any(name.startswith(PREFIX) for name in kafka.transactions("Ongoing")))
        copy.release(CrashPoint.ROUND_DECIDED)
        copy.start(onTimedOutParticipant="rewrite")
        copy.wait_until_copied()
        copy.finish()
        copy.assert_exact()
        assert re.search(r"rewritten=[1-9]", copy.output.read_text())


@pytest.mark.walk("a copy is exact while its servers fail")
def test_a_copy_of_50_000_records_is_exact_though_a_cluster_loses_leaders_and_coordinators(
    engine: docker.DockerClient, tmp_path: Path
) -> None:
    """Of three brokers two serve on: nothing waits for the lost one to come back.

    conformance: 52, 53, 64.
    """
    losses: list[tuple[str, str, Loss]] = [
        (TARGET, WRITE, killed),
        (DEFAULT_LEDGER_TOPIC, CrashPoint.ROUND_DECIDE, wiped),
        (COORDINATORS, KafkaCrashPoint.WRITTEN, killed),
        (COORDINATORS, KafkaCrashPoint.ENDED, Server.away),
        (TARGET, CrashPoint.ROUND_DECIDED, killed),
    ]
    part = COUNT // len(losses)
    with running_kafka_cluster(engine) as kafka, kafka_copying(kafka, tmp_path) as copy:
        copy.start()
        for topic, gate, loss in losses:
            copy.feed_up_to(gate, part)
            leader = kafka.leader_of(topic)
            with loss(leader):
                copy.release(gate)
                copy.wait_until_copied()
                assert kafka.leader_of(topic) is not leader
            kafka.wait_until_serving()
        copy.finish()
        copy.assert_exact()
