"""The order in the container engine: runs that begin remove what dead ones left behind, and nothing of each other."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import docker

from integration_tests.engine import HOST, LABEL, LABELS, ZOOKEEPER_IMAGE, running_engine

RUNS = 30


def labels_of_a_dead_run() -> dict[str, str]:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return {LABEL: f"{HOST}:{process.pid}"}


def started_container(engine: docker.DockerClient, labels: dict[str, str], network: str) -> Any:
    return engine.containers.run(ZOOKEEPER_IMAGE, "60", entrypoint="sleep", detach=True, labels=labels, network=network)


@contextmanager
def coming_and_going(engine: docker.DockerClient) -> Iterator[None]:
    """Containers of a run that is alive are made and removed for the time of the block."""
    is_over = threading.Event()

    def come_and_go() -> None:
        while not is_over.is_set():
            engine.containers.create(ZOOKEEPER_IMAGE, labels=LABELS).remove(force=True, v=True)

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def begin(_: int) -> None:
    with running_engine():
        pass


def test_runs_that_begin_together_remove_what_the_dead_left_and_nothing_of_who_is_alive(
    engine: docker.DockerClient,
) -> None:
    dead = labels_of_a_dead_run()
    network = engine.networks.create(f"left-by-{dead[LABEL]}", labels=dead)
    left = [started_container(engine, dead, network.name) for _ in range(2)]
    kept = engine.containers.create(ZOOKEEPER_IMAGE, labels=LABELS)
    try:
        with coming_and_going(engine), ThreadPoolExecutor(3) as runs:
            list(runs.map(begin, range(RUNS)))
        containers = {container.id for container in engine.containers.list(all=True, sparse=True)}
        assert kept.id in containers
        assert containers.isdisjoint(container.id for container in left)
        assert network.id not in {found.id for found in engine.networks.list()}
    finally:
        kept.remove(force=True, v=True)
