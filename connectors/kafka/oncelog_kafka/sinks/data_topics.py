"""Refuses topics that cannot take a sink's rows, before a batch is decided.

*Topics that keep ledgers.* The options and the tasks refuse the topics that the sink knows by name: those of its own
ledger and of the default name. Other sinks may keep theirs under any name, so what is in a topic decides here. The rows
of a task that wrote to such a topic are never committed, and readers of the ledger leave them out (partition_log.py).

*Topics that may refuse markers.* A broker compares the time of a transaction's marker with the topic's limit for
records of the past (`findings/kafka-refuses-the-markers-of-its-own-transactions.sh`). A marker that is refused is never
written again: the transaction stays open in that partition, and its coordinator does nothing more with the id.
"""

from __future__ import annotations

from typing import Final

from oncelog.errors import InvalidRecordError, UsageError
from oncelog_kafka.protocol.extents import Extents
from oncelog_kafka.protocol.ports import Brokers

LIMITS: Final = ("message.timestamp.before.max.ms", "message.timestamp.difference.max.ms")
"""A topic's limits of age for records with the times of their producers. Brokers before 4.0 have both."""

LEAST_LIMIT_MS: Final = 60_000
"""The leader gives a marker its own time, and compares it with the limit a moment later. In between, only a pause of
its process can pass; after one of this length (`broker.session.timeout.ms` is 9 s) others lead."""


class DataTopics:
    """The topics that a sink was found to be free to write to.

    Args:
        brokers: of their cluster.
    """

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._known: set[tuple[str, str]] = set()

    def check(self, topic: str) -> None:
        """Check one topic.

        Raises:
            InvalidRecordError: it keeps a ledger.
            UsageError: it may refuse the markers of transactions.
        """
        self._check_markers(topic)
        self._check_ledger(topic)

    def check_written(self, extents: Extents) -> None:
        """Check the topics of a batch's rows, each once. A topic with a second partition keeps no ledger.

        Raises:
            InvalidRecordError, UsageError: as of `check`.
        """
        topics = {(one.topic, one.topic_id) for one in extents}
        larger = {(one.topic, one.topic_id) for one in extents if one.partition > 0}
        for topic, topic_id in sorted(topics - self._known):
            self._check_markers(topic)
            if (topic, topic_id) not in larger:
                self._check_ledger(topic)
            self._known.add((topic, topic_id))

    def _check_ledger(self, topic: str) -> None:
        if self._brokers.keeps_ledger(topic):
            raise InvalidRecordError(
                "the topic keeps the ledger of other sinks, which rows would damage; write the rows to another topic, "
                "or leave them out",
                topic=topic,
            )

    def _check_markers(self, topic: str) -> None:
        settings = self._brokers.topic_settings(topic)
        if settings.get("message.timestamp.type") == "LogAppendTime":
            return
        found = {name: int(settings[name]) for name in LIMITS if name in settings}
        small = {name: limit_ms for name, limit_ms in found.items() if limit_ms < LEAST_LIMIT_MS}
        if small:
            raise UsageError(
                "the topic takes only records that are so new that brokers may also refuse the markers which end "
                "transactions; such a transaction stays open. Raise the limit with kafka-configs.sh",
                topic=topic,
                found_ms=small,
                needed_ms=LEAST_LIMIT_MS,
            )
