"""Copies a topic exactly once without Spark: rows and the offsets they came from in one transaction, until a file appears."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import oncelog
from tests.logs import started

GROUP = "plain-copier"
AT_ONCE = 13


def main(settings: dict[str, Any]) -> None:
    stop = Path(settings["stop"])
    with (
        oncelog.open(**settings["log"]) as log,
        log.consumer(group_id=GROUP, auto_offset_reset="earliest") as consumer,
        started(log, GROUP) as producer,
    ):
        consumer.subscribe(["in"])
        while not stop.exists():
            records = consumer.poll(max_records=AT_ONCE)
            if not records:
                time.sleep(0.05)
                continue
            with producer.transaction():
                for record in records:
                    producer.send(settings["topic"], record.value, partition=record.partition)
                ends = {oncelog.TopicPartition("in", record.partition): record.offset + 1 for record in records}
                producer.send_offsets_to_transaction(ends, GROUP)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
