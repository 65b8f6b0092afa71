"""The example of `examples/compose`, run by Docker Compose from a copy of its files and a wheel of the sources."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import docker

from integration_tests.engine import KAFKA_IMAGE, LABELS
from integration_tests.servers import freeze
from oncelog.testing.server_process import free_ports
from oncelog_kafka.brokers import Brokers
from tests.support.docs.blocks import ROOT
from tests.support.harness.environments import require_index
from tests.support.harness.parts import missing_part
from tests.support.harness.waiting import until

SERVICES = ("kafka", "topics", "producer", "job", "audit")
VOLUMES = ("kafka", "state")
ON_THE_WAY_S = 2.0
"""What a job sent before it was paused is answered by the broker in this time: the end of a transaction among it."""


class Example:
    """The services, those that run and those that do not.

    Args:
        engine: where.
        folder: with the copy.

    Attributes:
        client: settings with which librdkafka reaches the broker.
        commands: those of `docker compose` that were run, without their first two words.
    """

    def __init__(self, engine: docker.DockerClient, folder: Path) -> None:
        kafka_port, spark_port = free_ports(2)
        self.client = {"bootstrap.servers": f"localhost:{kafka_port}"}
        self.commands: list[str] = []
        self._engine = engine
        self._project = f"oncelog-{os.getpid()}"
        self._files = [folder / "examples" / "compose" / "compose.yaml", folder / "labels.json"]
        self._settings = {
            "KAFKA_IMAGE": KAFKA_IMAGE,
            "PYTHON_IMAGE": os.environ.get("ONCELOG_PYTHON_IMAGE", ""),
            "KAFKA_PORT": str(kafka_port),
            "SPARK_UI_PORT": str(spark_port),
            "COMPOSE_PROJECT_NAME": self._project,
        }
        shutil.copytree(ROOT / "examples", folder / "examples")
        _build_wheel(folder / "dist")
        _write_labels(self._files[1])

    def compose(self, command: str) -> str:
        """Run a command of `docker compose`; returns what it printed."""
        self.commands.append(command)
        files = [word for file in self._files for word in ("--file", str(file))]
        ended = subprocess.run(
            [*_compose(), *files, *command.split()],
            env={**os.environ, **self._settings},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, f"{command}: {ended.stdout}{ended.stderr}"
        return ended.stdout

    def freeze_job_in_mid_batch(self, prefix: str) -> None:
        """Pause the job at a moment when its tasks have transactions open, and none of its requests will end them."""
        job = self._container("job")

        def is_frozen_there() -> bool:
            freeze(job)
            if self.open_transactions(prefix):
                time.sleep(ON_THE_WAY_S)
                if self.open_transactions(prefix):
                    return True
            job.unpause()
            return False

        until(is_frozen_there, tell=job.logs)

    def lose_job(self) -> None:
        """Remove the container of the job, which does not run; its volumes stay."""
        self._container("job").remove()

    def open_transactions(self, prefix: str) -> list[str]:
        """The transactional ids that begin with `prefix` and are in the middle of a transaction."""
        with closing(Brokers({"bootstrap_servers": [self.client["bootstrap.servers"]]})) as brokers:
            return [name for name, _ in brokers.list_ids(["Ongoing"]) if name.startswith(prefix)]

    def log_of_job(self) -> str:
        """The last that the job said."""
        return str(self._container("job").logs(tail=50).decode(errors="replace"))

    def _container(self, service: str) -> Any:
        labels = [f"com.docker.compose.project={self._project}", f"com.docker.compose.service={service}"]
        (found,) = self._engine.containers.list(all=True, filters={"label": labels})
        return found


@contextmanager
def example_in_containers(engine: docker.DockerClient, folder: Path) -> Iterator[Example]:
    """The example for the time of the block; nothing is started yet, and nothing is left at the end."""
    example = Example(engine, folder)
    try:
        yield example
    finally:
        example.compose("down --volumes --rmi local --timeout 0")


@cache
def _compose() -> list[str]:
    """The command of Docker Compose: a plugin of `docker`, or a program of its own."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]):
            answer = subprocess.run([*command, "version"], capture_output=True, check=False)
            if answer.returncode == 0:
                return command
    return missing_part("Docker Compose", "install it, so that `docker compose version` answers")


def _build_wheel(folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        require_index(ended.stderr)
        raise AssertionError(ended.stderr)


def _write_labels(file: Path) -> None:
    """Whatever the example makes bears the labels of this run."""
    ours = {"labels": LABELS}
    made = {
        "services": dict.fromkeys(SERVICES, ours),
        "networks": {"default": ours},
        "volumes": dict.fromkeys(VOLUMES, ours),
    }
    file.write_text(json.dumps(made))
