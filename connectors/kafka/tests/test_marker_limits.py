"""Topics whose limit of age may refuse the markers of transactions: the sink refuses them before it decides a batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from driven_batches import FIRST, World
from oncelog.errors import UsageError
from oncelog_kafka.brokers import Brokers
from oncelog_kafka.options.admin_settings import JavaClient
from oncelog_kafka.sinks.data_topics import LEAST_LIMIT_MS, DataTopics
from tests.support.connectors.kafka_sink import values
from tests.support.harness.variants import variants
from tests.support.servers.kafka import KafkaBroker, fresh_name, require_shims

REFUSED = "brokers may also refuse the markers"


@pytest.fixture(params=variants("kafka-python", "java"))
def topics(request: pytest.FixtureRequest, kafka: KafkaBroker) -> Iterator[DataTopics]:
    if request.param == "java":
        require_shims()
    java = JavaClient({"bootstrap.servers": kafka.address})
    with closing(Brokers(java if request.param == "java" else {"bootstrap_servers": kafka.address})) as brokers:
        yield DataTopics(brokers)


@pytest.mark.parametrize(
    ("settings", "is_refused"),
    [
        ({"message_timestamp_before_max_ms": str(LEAST_LIMIT_MS - 1)}, True),
        ({"message_timestamp_before_max_ms": str(LEAST_LIMIT_MS)}, False),
        ({"message_timestamp_before_max_ms": "1", "message_timestamp_type": "LogAppendTime"}, False),
        ({"message_timestamp_after_max_ms": "0"}, False),
    ],
)
def test_only_a_limit_that_a_pause_of_the_broker_may_exceed_is_refused(
    kafka: KafkaBroker, topics: DataTopics, settings: dict[str, Any], is_refused: bool
) -> None:
    topic = kafka.create_topic(fresh_name("limited"), **settings)
    if not is_refused:
        topics.check(topic)
        return
    with pytest.raises(UsageError, match=REFUSED) as refused:
        topics.check(topic)
    assert refused.value.fields["found_ms"] == {"message.timestamp.before.max.ms": LEAST_LIMIT_MS - 1}


def test_a_row_that_names_such_a_topic_is_refused_before_the_batch_is_decided(world: World) -> None:
    del world.settings["topic"]
    limited = world.broker.create_topic(fresh_name("limited"), message_timestamp_before_max_ms="30000")
    df = world.spark.createDataFrame(
        [(topic, bytearray(value.encode())) for topic in (world.topic, limited) for value in FIRST[:2]],
        "topic string, value binary",
    )

    with pytest.raises(UsageError, match=REFUSED) as refused:
        world.run(0, df)
    assert refused.value.fields["topic"] == limited
    assert values(world.broker, limited) == world.values() == []

    with world.broker.admin() as admin:
        raised = {"message.timestamp.before.max.ms": str(LEAST_LIMIT_MS)}
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, limited, raised)])
    world.run(0, df, run="run-2")
    assert values(world.broker, limited) == world.values() == FIRST[:2]
