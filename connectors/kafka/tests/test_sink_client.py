"""The reflection on Kafka's producer, run with clients of several versions in place of the jar's own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from oncelog.testing.kafka_broker import DEFAULT_VERSION, TV1_VERSION, TV2_VERSION, broker_jars
from oncelog_kafka.errors import KafkaInternalsError
from oncelog_kafka.sinks import outcomes
from tests.support.harness.parts import missing_part
from tests.support.servers.kafka import require_broker, require_shims

HERE = Path(__file__).parent
CLASSES = HERE.parents[2] / "jvm_shims" / "kafka" / "target" / "classes"
"""What Maven compiled, before Kafka's classes got names of their own in the jar."""


def probe(version: str) -> str:
    """What `ProducerInternals` says of this version of kafka-clients."""
    require_shims()
    require_broker(version)
    java = shutil.which("java")
    if not CLASSES.is_dir() or java is None:
        missing_part("the connector's compiled classes", "make shims")
    done = subprocess.run(
        [java, "-XX:TieredStopAtLevel=1", "-cp", f"{CLASSES}:{broker_jars(version)}/*", str(HERE / "Probe.java")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[-1]


def test_the_client_of_this_connector_is_known() -> None:
    assert probe(TV2_VERSION) == "known"


@pytest.mark.parametrize("version", [TV1_VERSION, DEFAULT_VERSION])  # the second has the class of identities elsewhere
def test_a_client_that_does_not_tell_what_it_prepared_is_refused_by_its_version(version: str) -> None:
    said = {"participant": None, "kind": "UNKNOWN_CLIENT", "problem": probe(version)}

    with pytest.raises(KafkaInternalsError, match=f"client found: {version}"):
        outcomes.written([said])
