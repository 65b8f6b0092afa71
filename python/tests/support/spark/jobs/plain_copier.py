"""Copies a topic exactly once without Spark, until a file appears: into several topics, rows and their offsets at once.

Each transaction is tried twice: the first one is aborted.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import oncelog
from oncelog.types import ConsumerRecord
from tests.support.log.logs import started

NAME = "plain"
AT_ONCE = 13


def copied(value: bytes) -> bytes:
    """What this program makes of a value, so that its copies are told from others."""
    return b"%s/%s" % (NAME.encode(), value)


def send(producer: oncelog.Producer, topics: Sequence[str], records: Sequence[ConsumerRecord]) -> None:
    for record in records:
        for topic in topics:
            producer.send(topic, copied(record.value or b""), partition=record.partition)
    ends = {oncelog.TopicPartition(record.topic, record.partition): record.offset + 1 for record in records}
    producer.send_offsets_to_transaction(ends, NAME)
    producer.flush()


def main(settings: dict[str, Any]) -> None:
    stop, topics = Path(settings["stop"]), settings["topics"]
    with (
        oncelog.open(**settings["log"]) as log,
        log.consumer(group_id=NAME, auto_offset_reset="earliest") as consumer,
        started(log, NAME) as producer,
    ):
        consumer.subscribe(["in"])
        while not stop.exists():
            if records := consumer.poll(max_records=AT_ONCE):
                producer.begin_transaction()
                send(producer, topics, records)
                producer.abort_transaction()
                with producer.transaction():
                    send(producer, topics, records)
            else:
                time.sleep(0.05)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
