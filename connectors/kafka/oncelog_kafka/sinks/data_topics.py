"""Refuses topics that a sink must not write to, before a batch is decided.

*Topics that hold ledgers.* The options and the tasks refuse the ledger topics that a sink knows by name: its own and
the default one. Other sinks may keep theirs in topics of any name, so this module checks what a topic contains. A
batch with rows in such a topic is never committed, and readers of the ledger skip those rows (partition_log.py).

*Topics that may refuse transaction markers.* A broker applies a topic's limits on record timestamps to the markers of
transactions, too (`findings/kafka-refuses-the-markers-of-its-own-transactions.sh`). If a leader refuses a marker, the
coordinator does not retry it: the transaction stays open in that partition, and its transactional id is stuck.
"""

from __future__ import annotations

from typing import Final

from oncelog.errors import InvalidRecordError, UsageError
from oncelog_kafka.protocol.extents import Extents
from oncelog_kafka.protocol.ports import Brokers

LIMITS: Final = ("message.timestamp.before.max.ms", "message.timestamp.difference.max.ms")
"""Topic settings that limit how old a record's timestamp may be. Brokers before 4.0 have both."""

LEAST_LIMIT_MS: Final = 60_000
"""The leader stamps a marker with its own clock and checks it against the limit a moment later. Only a pause of the
leader's process can make the marker too old in between, and after a pause this long other brokers lead the partition
(`broker.session.timeout.ms` is 9 s)."""


class DataTopics:
    """Checks topics, and remembers those that a sink may write to.

    Args:
        brokers: of their cluster.
    """

    def __init__(self, brokers: Brokers) -> None:
        self._brokers = brokers
        self._known: set[tuple[str, str]] = set()

    def check(self, topic: str) -> None:
        """Check one topic.

        Raises:
            InvalidRecordError: it holds a ledger.
            UsageError: it may refuse the markers of transactions.
        """
        self._check_markers(topic)
        self._check_ledger(topic)

    def check_written(self, extents: Extents) -> None:
        """Check the topics of a batch's rows, each once. A topic with a second partition holds no ledger.

        Raises:
            InvalidRecordError, UsageError: see `check`.
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
