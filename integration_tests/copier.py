"""A program that copies a topic exactly once: ``python -m integration_tests.copier SETTINGS``, for tests that kill it.

Each transaction holds records of all partitions and where the group stands behind them; every third one is aborted, and
tried again. What fails is treated as the error says: the same call again, or abort and begin again. Goes on until
a file appears and nothing is left; says what it meets.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import oncelog
from oncelog.clients.fetcher import ConsumerBatch
from oncelog.clients.producer import Producer
from oncelog.errors import AbortableError, OncelogError, OutcomeUnknownError, RetriableError
from oncelog.runtime import Log

SOURCE, TARGET, GROUP = "source", "target", "copiers"
PARTITIONS = 4
AT_ONCE = 50
"""Records of each partition in one transaction."""

TRIES_FOR_MS = 5_000
"""A producer tries an append again by itself for so long."""

PAUSE_S = 0.02

T = TypeVar("T")


def main(settings: dict[str, Any]) -> None:
    say(f"pid {os.getpid()}")
    log = again(lambda: oncelog.open(**settings["log"], create=False))
    with log:
        copy(log, Path(settings["stop"]))
    say("done")


def copy(log: Log, stop: Path) -> None:
    with ExitStack() as stack:
        consumers = []
        for number in range(PARTITIONS):
            consumer = stack.enter_context(log.consumer(group_id=GROUP, auto_offset_reset="earliest"))
            again(lambda consumer=consumer, number=number: consumer.assign([oncelog.TopicPartition(SOURCE, number)]))  # type: ignore[misc]
            consumers.append(consumer)
        producer = stack.enter_context(log.producer(transactional_id="copier", delivery_timeout_ms=TRIES_FOR_MS))
        again(producer.init_transactions)
        attempts = 0
        while True:
            is_last = stop.exists()
            batches = [batch for consumer in consumers for batch in again(polling(consumer))]
            if not batches:
                if is_last:
                    return
                time.sleep(PAUSE_S)
                continue
            is_copied = False
            while not is_copied:
                attempts += 1
                is_copied = is_committed(producer, batches, gives_up=attempts % 3 == 0)


def polling(consumer: oncelog.Consumer) -> Callable[[], list[ConsumerBatch]]:
    return lambda: consumer.poll_batches(max_records=AT_ONCE)


def is_committed(producer: Producer, batches: Sequence[ConsumerBatch], *, gives_up: bool) -> bool:
    """Write the batches in a transaction; returns whether it was committed."""
    ends = {
        oncelog.TopicPartition(batch.topic, batch.partition): batch.base_offset + batch.records.num_rows
        for batch in batches
    }
    producer.begin_transaction()
    try:
        for batch in batches:
            producer.send_batch(TARGET, batch.records.select(["key", "value"]), partition=batch.partition)
        producer.send_offsets_to_transaction(ends, GROUP)
        producer.flush()
    except (RetriableError, AbortableError, OutcomeUnknownError) as error:
        tell(error)
        gives_up = True
    again(producer.abort_transaction if gives_up else producer.commit_transaction)
    return not gives_up


def again(call: Callable[[], T]) -> T:
    """Make the same call until it is answered."""
    while True:
        try:
            return call()
        except (RetriableError, OutcomeUnknownError) as error:
            tell(error)
            time.sleep(PAUSE_S)


def tell(error: OncelogError) -> None:
    say(f"error {type(error).__name__}")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
