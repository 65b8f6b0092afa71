"""A sink of one task, whose executors keep producers between batches, and the driver that ends its transactions."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from oncelog_kafka.patience import PatientBrokers
from oncelog_kafka.protocol import end_txn
from oncelog_kafka.protocol.participants import Handover, Participant, ProducerIdAndEpoch
from oncelog_kafka.protocol.ports import Ended
from tests.support.connectors.kafka_sink import numbered, prepare, rows
from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker

LEASE = 1


@dataclass
class Task:
    """The only task of each batch of a sink, and the driver that ends its transactions."""

    spark: SparkSession
    broker: KafkaBroker
    topic: str
    prefix: str
    brokers: PatientBrokers
    batches: int = 0

    def prepare(self, handover: Handover | None = None, *, lease: int = LEASE, rows_of: int = 1) -> Participant:
        texts = numbered(rows_of, first=self.batches)
        self.batches += rows_of
        handovers = {} if handover is None else {"0": handover}
        batch = rows(self.spark, texts, partitions=1)
        (found,) = prepare(batch, self.broker, self.prefix, topic=self.topic, lease=lease, handovers=handovers)
        return found

    def commit(self, prepared: Participant) -> Handover | None:
        """Commit it, however often a coordinator says that it moves."""
        ended = until(lambda: [one for one in self.brokers.commit([prepared]) if one.answer not in end_txn.PASSING])
        assert ended == [Ended("NONE", ended[0].following)]
        following = ended[0].following
        return None if following is None else Handover(prepared.producer, ProducerIdAndEpoch(*following))

    def batch(self, handover: Handover | None = None) -> Handover:
        found = self.commit(self.prepare(handover))
        assert found is not None
        return found

    def clients(self) -> int:
        """How many producers of this sink are open in the executors."""
        assert self.spark._jvm is not None
        threads = self.spark._jvm.Thread.getAllStackTraces().keySet().toString()
        return int(str(threads).count(f"kafka-producer-network-thread | producer-{self.prefix}-"))
