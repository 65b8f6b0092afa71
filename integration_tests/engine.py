"""The container engine, and the order in it: what is ours bears a label, and what a dead run left behind is removed.

`make integration` provides the engine and the images. The images are settings:

    ONCELOG_ZOOKEEPER_IMAGE   the official image, or one that takes the same environment variables
    ONCELOG_S3_IMAGE          moto's official image, or one that serves the same on port 5000
    ONCELOG_KAFKA_IMAGE, ONCELOG_KAFKA_TV1_IMAGE, ONCELOG_KAFKA_CLUSTER_IMAGE
                              the official image of brokers that are alone, with transactions of version 2 and 1, and of
                              those of a cluster; or images that take the same environment variables
    ONCELOG_PYTHON_IMAGE      what the example's job is built from, in place of what examples/compose/compose.yaml names
"""

from __future__ import annotations

import gc
import os
import socket
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http import HTTPStatus
from pathlib import Path

import docker
import docker.errors

from tests.support.harness.locks import locked
from tests.support.harness.parts import missing_part

ZOOKEEPER_IMAGE = os.environ.get("ONCELOG_ZOOKEEPER_IMAGE") or "zookeeper:3.9"
S3_IMAGE = os.environ.get("ONCELOG_S3_IMAGE") or "motoserver/moto:5.2.3"

# Brokers 4.3.0 to 4.4.0 lose the ends of transactions when the only broker is killed (KAFKA-20734); clusters do not.
KAFKA_IMAGE = os.environ.get("ONCELOG_KAFKA_IMAGE") or "apache/kafka:4.2.2"
KAFKA_TV1_IMAGE = os.environ.get("ONCELOG_KAFKA_TV1_IMAGE") or "apache/kafka:3.9.2"
KAFKA_CLUSTER_IMAGE = os.environ.get("ONCELOG_KAFKA_CLUSTER_IMAGE") or "apache/kafka:4.4.0"

IMAGES = (ZOOKEEPER_IMAGE, S3_IMAGE, KAFKA_IMAGE, KAFKA_TV1_IMAGE, KAFKA_CLUSTER_IMAGE)

LABEL = "oncelog.integration-tests"
HOST = socket.gethostname()
LABELS = {LABEL: f"{HOST}:{os.getpid()}"}
"""On every container, network and volume of ours: which run it belongs to."""

LOCK = Path(tempfile.gettempdir(), f"oncelog-integration-{os.getuid()}.lock")

REMEDY = "`make integration` starts one on Debian as root; elsewhere install Docker, start it, and try again"


@contextmanager
def running_engine() -> Iterator[docker.DockerClient]:
    """A client of the engine for the time of the block; of earlier runs that are dead nothing is left in it."""
    with closing(_client()) as client:
        for image in IMAGES:
            _require_image(client, image)
        with locked(LOCK):
            _remove_leftovers(client)
        yield client


def _client() -> docker.DockerClient:
    try:
        return docker.from_env()
    except docker.errors.DockerException as error:
        reason = str(error)
    with warnings.catch_warnings():  # a client that found no engine leaves its socket to the collector
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    return missing_part("a container engine", f"{REMEDY} ({reason})")


def _require_image(client: docker.DockerClient, image: str) -> None:
    try:
        client.images.get(image)
    except docker.errors.ImageNotFound:
        try:
            client.images.pull(image)
        except docker.errors.APIError as error:
            missing_part(f"the image {image}", f"name another one, or build it with tools/integration-images ({error})")


def _remove_leftovers(client: docker.DockerClient) -> None:
    ours = {"label": LABEL}
    for container in client.containers.list(all=True, filters=ours, ignore_removed=True):
        if not _is_alive(container.labels[LABEL]):
            with _unless_gone_or_used():
                container.remove(force=True, v=True)
    for network in client.networks.list(filters=ours):
        if not _is_alive(network.attrs["Labels"][LABEL]):
            with _unless_gone_or_used():
                network.remove()
    for volume in client.volumes.list(filters=ours):
        if not _is_alive(volume.attrs["Labels"][LABEL]):
            with _unless_gone_or_used():
                volume.remove(force=True)


@contextmanager
def _unless_gone_or_used() -> Iterator[None]:
    """Runs that begin together remove the same. What a container uses that came meanwhile is left to later ones."""
    try:
        yield
    except docker.errors.APIError as problem:
        if problem.status_code not in {HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN, HTTPStatus.CONFLICT}:
            raise


def _is_alive(run: str) -> bool:
    """Whether a run goes on; those of other machines, which share this engine, are taken for alive."""
    host, _, pid = run.rpartition(":")
    return host != HOST or _is_process(int(pid))


def _is_process(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's
        return True
    return True
