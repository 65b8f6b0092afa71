"""The Kafka brokers, as the driver asks them. The home of kafka-python.

client        one kafka-python client, and its errors
requests      transactions, tokens, settings
partitions    entries of a command log
producers     what partitions know about transactions, and their markers
transactions  a transaction, as a producer writes one
topics        topics with the offsets of their partitions
overview      where all partitions of a cluster end, and its groups
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from oncelog.ports import Clock
from oncelog.znodes.clock import SYSTEM_CLOCK
from oncelog_kafka.brokers.partitions import KafkaPartitions
from oncelog_kafka.brokers.producers import KafkaProducers
from oncelog_kafka.brokers.requests import KafkaRequests
from oncelog_kafka.brokers.transactions import KafkaTransactions
from oncelog_kafka.control.requests import ControlRequests
from oncelog_kafka.options.admin_settings import JavaClient
from oncelog_kafka.patience import PatientBrokers

__all__ = ["Brokers", "KafkaPartitions", "KafkaProducers", "KafkaRequests", "KafkaTransactions"]


class Brokers(PatientBrokers):
    """A connection to one cluster; thread-safe.

    Args:
        settings: of the driver's client, from `admin_settings.derive`.
        clock: measures how long to wait for the brokers.
    """

    def __init__(self, settings: Mapping[str, Any] | JavaClient, clock: Clock = SYSTEM_CLOCK) -> None:
        chosen = ControlRequests(settings) if isinstance(settings, JavaClient) else KafkaRequests(settings)
        super().__init__(chosen, clock)
