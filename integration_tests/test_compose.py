"""The example in containers does what its page promises, by the commands of the page."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import closing
from pathlib import Path

import docker
import pytest

from integration_tests.compose import Example, example_in_containers
from integration_tests.engine import LABEL, LABELS
from tests.support.connectors.kafka_sink import Reader
from tests.support.docs.blocks import ROOT
from tests.support.harness.waiting import until

PAGE = ROOT / "examples" / "compose" / "README.md"
PREFIX = "kafka-to-kafka"
MORE = 1_000
"""Copies that are waited for, before the kill and after it."""


def test_the_image_of_the_job_is_built_and_lacks_nothing(engine: docker.DockerClient, tmp_path: Path) -> None:
    """The walk below takes turns with others; this runs each time."""
    with example_in_containers(engine, tmp_path) as example:
        example.compose("build job")
        assert "No broken requirements found" in example.compose("run --rm --no-deps job python -m pip check")


@pytest.mark.walk("a copy is exact while its servers fail")
def test_a_job_in_containers_that_is_killed_in_mid_batch_copies_each_number_once(
    engine: docker.DockerClient, tmp_path: Path
) -> None:
    with example_in_containers(engine, tmp_path) as example:
        example.compose("up --build --detach")
        with closing(Reader(example.client, "copies")) as copies:
            wait_for_more(example, copies)
            example.freeze_job_in_mid_batch(PREFIX)
            example.compose("kill job")
            assert example.open_transactions(PREFIX), "a batch that was under way"

            example.lose_job()
            example.compose("up --detach job")
            wait_for_more(example, copies)
            example.compose("stop producer")
            assert_each_once(example, copies)

        audit = example.compose("run --rm audit")
        assert re.search(r"^(\d+) numbers, \1 copies: 0 missing, 0 doubled$", audit, re.MULTILINE)
        example.compose("down --volumes")
        assert what_is_left(engine) == []
        assert example.commands == commands_of_the_page()


def wait_for_more(example: Example, copies: Reader) -> None:
    enough = copies.read() + MORE
    until(lambda: copies.read() >= enough, tell=example.log_of_job)


def assert_each_once(example: Example, copies: Reader) -> None:
    with closing(Reader(example.client, "numbers")) as numbers:
        sent = {message.value() for message in numbers.read_to_the_end()}
    until(lambda: copies.read() >= len(sent), tell=example.log_of_job)
    found = Counter(message.value() for message in copies.read_to_the_end())
    lost = sent - found.keys()
    doubled = [value for value, count in found.items() if count > 1]
    assert (list(lost)[:10], doubled[:10], len(found)) == ([], [], len(sent))


def what_is_left(engine: docker.DockerClient) -> list[object]:
    ours = {"label": f"{LABEL}={LABELS[LABEL]}"}
    containers = engine.containers.list(all=True, filters=ours)
    return [*containers, *engine.networks.list(filters=ours), *engine.volumes.list(filters=ours)]


def commands_of_the_page() -> list[str]:
    """In their order, but the one that shows copies until someone ends it."""
    found = re.findall(r"^docker compose ([^#\n]+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [command.strip() for command in found if not command.startswith("exec")]
