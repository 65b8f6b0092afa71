"""Refuses rows in topics that keep ledgers, before a batch is decided.

The options and the tasks refuse the topics that the sink knows by name: those of its own ledger and of the default
name. Other sinks may keep theirs under any name, so what is in a topic decides here. The rows of a task that wrote to
such a topic are never committed, and readers of the ledger leave them out (partition_log.py).
"""

from __future__ import annotations

from oncelog.errors import InvalidRecordError
from oncelog_kafka.extents import Extents
from oncelog_kafka.ports import Brokers


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
        """
        if self._brokers.keeps_ledger(topic):
            raise InvalidRecordError(
                "the topic keeps the ledger of other sinks, which rows would damage; write the rows to another topic, "
                "or leave them out",
                topic=topic,
            )

    def check_written(self, extents: Extents) -> None:
        """Check the topics of a batch's rows, each once. A topic with a second partition keeps no ledger.

        Raises:
            InvalidRecordError: one of them keeps a ledger.
        """
        topics = {(one.topic, one.topic_id) for one in extents}
        larger = {(one.topic, one.topic_id) for one in extents if one.partition > 0}
        for topic, topic_id in sorted(topics - larger - self._known):
            self.check(topic)
            self._known.add((topic, topic_id))
