"""Producers beside a sink, on the same partitions: transactions that commit, abort, or stay open for a while.

Each record says how its transaction ends, which one that is, and how many records it has: ``<fate>/<name>/<count>``.
Goes on until it is killed.
"""

from __future__ import annotations

import itertools
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import oncelog
from oncelog.clients.producer import Producer

PARTITIONS = 3
FATES = ("commit", "commit", "abort")


def send(producer: Producer, topics: list[str], value: bytes, count: int, choice: random.Random) -> None:
    for _ in range(count):
        producer.send(choice.choice(topics), value, partition=choice.randrange(PARTITIONS))
    producer.flush()


def main(settings: dict[str, Any]) -> None:
    choice = random.Random(settings["seed"])
    name = f"neighbour-{settings['seed']}"
    with oncelog.open(**settings["log"]) as log, log.producer(transactional_id=name) as producer:
        producer.init_transactions()
        for number in itertools.count():
            fate, half = choice.choice(FATES), choice.randint(1, 4)
            value = f"{fate}/{name}.{number}/{2 * half}".encode()
            producer.begin_transaction()
            send(producer, settings["topics"], value, half, choice)
            time.sleep(choice.choice([0, 0, 0.01, 0.2]))
            send(producer, settings["topics"], value, half, choice)
            if fate == "commit":
                producer.commit_transaction()
            else:
                producer.abort_transaction()
            time.sleep(settings["pause_s"])


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
