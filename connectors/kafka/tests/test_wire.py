"""What crosses between Python and Java. WireTest.java reads the same file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from oncelog import metadata
from oncelog.batches.attempt import Batch
from oncelog.batches.offsets import GroupProgress
from oncelog.batches.rules import BatchRequest
from oncelog.errors import UnknownTopicError
from oncelog.types import TopicIdPartition, TopicPartition
from oncelog.znodes.clock import SYSTEM_CLOCK
from oncelog.znodes.memory import MemoryZnodeStore
from oncelog_kafka.options.sink_options import parse
from oncelog_kafka.patience import PatientBrokers
from oncelog_kafka.protocol.extents import Extent
from oncelog_kafka.protocol.participants import Handover, Participant, ProducerIdAndEpoch
from oncelog_kafka.sinks import columns, outcomes, stepwise
from oncelog_kafka.sinks.steps import _TableJob
from oncelog_kafka.sinks.target import KafkaTarget, Lease
from simulation.kafka.brokers import Cluster, Settings
from simulation.kafka.requests import DirectLine, SimulatedRequests

JAVA = Path(__file__).parents[3] / "jvm_shims" / "kafka" / "src" / "test" / "resources" / "io" / "oncelog" / "kafka"
WIRE = json.loads((JAVA / "sink" / "wire.json").read_text())
BEYOND_DOUBLE = 9_007_199_254_740_993


def settings_of_a_batch() -> dict[str, Any]:
    """What the tasks of a second batch of a run with a group get."""
    cluster = Cluster(SYSTEM_CLOCK.now_ms, Settings(version=2))
    cluster.create_topic("delayed", 4)
    brokers = PatientBrokers(SimulatedRequests(cluster, DirectLine()), SYSTEM_CLOCK)
    store = MemoryZnodeStore()
    metadata.ensure_format(store, None, None, create=True)
    given = {"kafka.bootstrap.servers": "simulated:1", "transactionalIdPrefix": "arrivals", "znodes": "simulated"}
    target = KafkaTarget(store, brokers, parse({**given, "onTimedOutParticipant": "rewrite", "participants": "3"}))
    identity = ProducerIdAndEpoch(BEYOND_DOUBLE, 3)
    progress = GroupProgress("arrivals-progress", {}, {TopicPartition("flights", 0): 12})
    batch = Batch[Any](BatchRequest("arrivals", "query", "", "run", 0, "offsets"), _TableJob(3, False), progress)
    planned = stepwise.plan(target, batch)
    assert isinstance(planned, stepwise.Planned)
    lease = Lease(planned.settings["lease"], {0: Handover(identity, identity)})
    schema = StructType([StructField("value", BinaryType()), StructField("key", StringType())])
    settings = {**planned.settings, "columns": columns.described(schema), "handovers": lease.handovers}
    found: dict[str, Any] = json.loads(json.dumps(settings))
    return found


def shape(value: Any) -> Any:
    """What Java relies on: the names of an object's fields, and the kinds of values."""
    if isinstance(value, dict):
        is_map = all(key.isdigit() or key in {"flights", "delayed"} for key in value)
        return {"*": shape(next(iter(value.values())))} if is_map else {key: shape(one) for key, one in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


def test_python_writes_the_settings_that_java_reads() -> None:
    found = settings_of_a_batch()

    expected = shape(WIRE["settings"])
    del expected["producer"], found["producer"]  # the settings of Kafka's producer
    assert shape(found) == {**expected, "only": "NoneType", "ledgerTopics": shape(found["ledgerTopics"])}
    assert found["columns"] == WIRE["settings"]["columns"]


def test_python_reads_the_outcomes_that_java_writes() -> None:
    prepared, failed = WIRE["outcomes"]

    found = outcomes.written([prepared])

    name = "arrivals-0-7.0.1"
    assert found.participants == (Participant(name, 0, BEYOND_DOUBLE, 3, 2, 2, -17, "delayed"),)
    topic_id = "mQdjZ0LQTnWmJqwl4eVNRg"
    assert found.extents_of == {
        name: {
            TopicIdPartition("delayed", topic_id, 0): Extent(5, 5),
            TopicIdPartition("delayed", topic_id, 3): Extent(8, 9),
        }
    }
    assert found.is_retried
    with pytest.raises(UnknownTopicError, match=r"a row's topic does not exist; create it first.*the topic gone"):
        outcomes.written([prepared, failed])
