"""The order in the container engine: runs that begin remove what dead ones left behind, and nothing of each other."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
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


def begin() -> None:
    """What a run does first; others come and go while it does."""
    with running_engine() as engine:
        engine.containers.create(ZOOKEEPER_IMAGE, labels=LABELS).remove(force=True, v=True)


def test_runs_that_begin_together_remove_what_the_dead_left_and_nothing_of_who_is_alive(
    engine: docker.DockerClient,
) -> None:
    dead = labels_of_a_dead_run()
    network = engine.networks.create(f"left-by-{dead[LABEL]}", labels=dead)
    volume = engine.volumes.create(f"left-by-{dead[LABEL].replace(':', '-')}", labels=dead)
    left = [started_container(engine, dead, network.name) for _ in range(2)]
    kept = engine.containers.create(ZOOKEEPER_IMAGE, labels=LABELS)
    try:
        with ThreadPoolExecutor(4) as runs:
            for run in [runs.submit(begin) for _ in range(RUNS)]:
                run.result()
        containers = {container.id for container in engine.containers.list(all=True, sparse=True)}
        assert kept.id in containers
        assert containers.isdisjoint(container.id for container in left)
        assert network.id not in {found.id for found in engine.networks.list()}
        assert volume.id not in {found.id for found in engine.volumes.list()}
    finally:
        kept.remove(force=True, v=True)
