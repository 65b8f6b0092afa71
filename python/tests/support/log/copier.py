"""A program that copies numbers exactly once, for tests that kill it: ``python -m tests.support.log.copier LOG``.

Every seventh number is written once in a transaction that is aborted. Each number that is committed is printed.
"""

from __future__ import annotations

import sys

import oncelog
from oncelog import limits

COUNT = 60
SOURCE = oncelog.TopicPartition("source", 0)
TARGET = "target"
GROUP = "copiers"


def copy(path: str) -> None:
    """Copy what is left, into both partitions of the target."""
    limits.TAIL_MAX_ENTRIES = 8  # so that it rolls the index and settles on its way
    limits.SETTLE_LAG_MS = 5
    with (
        oncelog.open(path, create=False) as log,
        log.producer(transactional_id="copier") as producer,
        log.consumer(group_id=GROUP, auto_offset_reset="earliest") as consumer,
    ):
        producer.init_transactions()
        consumer.assign([SOURCE])
        for number in range(consumer.position(SOURCE), COUNT):
            if number % 7 == 0:
                _write(producer, number, b"given up")
                producer.abort_transaction()
            _write(producer, number, b"%d" % number)
            producer.commit_transaction()
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()


def _write(producer: oncelog.Producer, number: int, value: bytes) -> None:
    producer.begin_transaction()
    for partition in (0, 1):
        producer.send(TARGET, value, partition=partition)
        producer.flush()
    producer.send_offsets_to_transaction({SOURCE: number + 1}, GROUP)


if __name__ == "__main__":
    copy(sys.argv[1])
