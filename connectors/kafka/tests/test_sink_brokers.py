"""The driver's connection to the brokers, on a real one: what it keeps, and what it leaves behind."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kafka.protocol.metadata import CoordinatorType

from oncelog.errors import UsageError
from oncelog.znodes.clock import SYSTEM_CLOCK
from oncelog_kafka.brokers import Brokers, KafkaRequests
from oncelog_kafka.control import process
from oncelog_kafka.control.requests import ControlRequests
from oncelog_kafka.errors import BrokerUnavailableError
from oncelog_kafka.options.admin_settings import JavaClient
from oncelog_kafka.patience import PatientBrokers
from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker, fresh_name, require_shims

pytestmark = pytest.mark.sampled("brokers that a sink asks")

NO_NODE = 999


@pytest.fixture
def requests(kafka: KafkaBroker) -> Iterator[KafkaRequests]:
    found = KafkaRequests({"bootstrap_servers": kafka.address})
    yield found
    found.close()


def test_all_transactions_of_a_coordinator_that_is_gone_find_the_next_one(
    requests: KafkaRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    brokers = PatientBrokers(requests, SYSTEM_CLOCK)
    names = [fresh_name("moved") for _ in range(4)]
    brokers.fence(names, 60_000)
    for name in names:
        requests._client._manager.cluster._coordinators[CoordinatorType.TRANSACTION, name] = NO_NODE
    asked: list[int] = []
    ask = requests.ask_each

    def counted(some: Sequence[tuple[str, Any]]) -> list[Any]:
        asked.append(len(some))
        return ask(some)

    monkeypatch.setattr(requests, "ask_each", counted)

    assert set(brokers.describe(names)) == set(names)
    assert len(asked) == 2


def test_brokers_that_do_not_answer_leave_no_thread_behind() -> None:
    before = set(threading.enumerate())
    with pytest.raises(BrokerUnavailableError):
        Brokers({"bootstrap_servers": "127.0.0.1:1", "bootstrap_timeout_ms": 300})

    def left() -> set[threading.Thread]:
        return set(threading.enumerate()) - before

    until(lambda: not left(), tell=left)


# Java's client, in a process of its own


@pytest.fixture
def control(kafka: KafkaBroker) -> Iterator[ControlRequests]:
    require_shims()
    with closing(ControlRequests(JavaClient({"bootstrap.servers": kafka.address}))) as found:
        yield found


def test_the_process_of_the_drivers_client_is_started_anew_when_it_died(control: ControlRequests) -> None:
    name, brokers = fresh_name("again"), PatientBrokers(control, SYSTEM_CLOCK)
    brokers.fence([name], 60_000)
    first = pid_of(control)
    os.kill(first, signal.SIGKILL)

    brokers.fence([name], 60_000)
    assert pid_of(control) != first


def test_what_the_process_cannot_answer_passes(control: ControlRequests) -> None:
    pid = pid_of(control)
    with ThreadPoolExecutor(1) as asking:
        try:
            os.kill(pid, signal.SIGSTOP)
            until(lambda: is_stopped(pid))
            asked = asking.submit(control.init, [fresh_name("stopped")], 60_000)
            until(lambda: unread(control) > 0)
        finally:
            os.kill(pid, signal.SIGKILL)
        assert asked.result(30) == ["NETWORK_EXCEPTION"]


@pytest.mark.parametrize("count", [1, 5000])
def test_a_process_that_does_not_answer_is_replaced(
    control: ControlRequests, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Small requests wait for their answer, large ones for room in the pipe."""
    stopped, name = stop(control), fresh_name("stopped")
    with monkeypatch.context() as patient:
        patient.setattr(process, "ANSWER_S", 0.5)
        assert control.init([name] * count, 60_000) == ["NETWORK_EXCEPTION"] * count

    PatientBrokers(control, SYSTEM_CLOCK).fence([name], 60_000)
    assert pid_of(control) != stopped


def test_a_process_that_does_not_answer_is_named_in_the_error(
    control: ControlRequests, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop(control)
    monkeypatch.setattr(process, "ANSWER_S", 0.5)

    with pytest.raises(BrokerUnavailableError, match="Kafka client did not answer, and was killed"):
        control.list_ids([])


@pytest.mark.slow
def test_the_process_ends_with_its_parent_though_a_fork_holds_its_input(kafka: KafkaBroker) -> None:
    require_shims()
    program = f"""
import os, signal
from oncelog_kafka.options.admin_settings import JavaClient
from oncelog_kafka.control.requests import ControlRequests
control = ControlRequests(JavaClient({{"bootstrap.servers": "{kafka.address}"}}))
fork = os.fork()
if fork == 0:
    os.close(1)
    signal.pause()
print(control._process.process._process.pid, fork, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=False)
    java, fork = (int(one) for one in done.stdout.split())
    try:
        until(lambda: not is_alive(java), within_s=20)
    finally:
        os.kill(fork, signal.SIGKILL)


def test_a_driver_without_java_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    require_shims()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="need Java where the driver runs: set JAVA_HOME"):
        ControlRequests(JavaClient({"bootstrap.servers": "127.0.0.1:1"}))


@pytest.mark.parametrize("timeout_ms", [30, 120, 300])
def test_java_names_brokers_that_do_not_answer_and_leaves_no_process_behind(timeout_ms: int) -> None:
    require_shims()
    with pytest.raises(BrokerUnavailableError, match="cannot be reached"):
        Brokers(JavaClient({"bootstrap.servers": "127.0.0.1:1"}, connect_timeout_ms=timeout_ms))


def pid_of(control: ControlRequests) -> int:
    assert control._process.process._process is not None
    return control._process.process._process.pid


def stop(control: ControlRequests) -> int:
    """Stop the process; returns its id."""
    pid = pid_of(control)
    os.kill(pid, signal.SIGSTOP)
    until(lambda: is_stopped(pid))
    return pid


def is_stopped(pid: int) -> bool:
    """Whether all its threads are: one that is not yet may read what it is asked."""
    states = [task.read_text().rpartition(") ")[2][0] for task in Path(f"/proc/{pid}/task").glob("*/stat")]
    return set(states) == {"T"}


def unread(control: ControlRequests) -> int:
    """How much of what the process was asked waits in its pipe."""
    assert control._process.process._process is not None
    assert control._process.process._process.stdin is not None
    return int.from_bytes(
        fcntl.ioctl(control._process.process._process.stdin, termios.FIONREAD, bytes(4)), sys.byteorder
    )


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
