"""The soak's clients of oncelog's own log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import oncelog
from integration_tests.soak.clients import GiveUp, Partition, Polled, TryAgain
from integration_tests.soak.records import PARTITIONS, Numbers, placed_runs, to_numbers, to_values
from oncelog import TopicPartition
from oncelog.clients.producer import Producer
from oncelog.errors import AbortableError, OncelogError, OutcomeUnknownError, RetriableError
from oncelog.runtime import Log
from oncelog.testing.history import Piece, is_whole

DELIVERY_MS = 5_000
TRANSACTION_MS = 20_000


@contextmanager
def told() -> Iterator[None]:
    """What oncelog's errors say, in the soak's words."""
    try:
        yield
    except (RetriableError, OutcomeUnknownError) as error:
        raise TryAgain(str(error)) from error
    except AbortableError as error:
        raise GiveUp(str(error)) from error


class OncelogWriter:
    """A producer of oncelog."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer

    def begin(self) -> None:
        self._producer.begin_transaction()

    def write(self, topic: str, partition: int, numbers: Numbers) -> Callable[[], int | None]:
        with told():
            (receipt,) = self._producer.send_batch(topic, to_values(numbers), partition=partition)

        def offset() -> int | None:
            try:
                return receipt.result().offset if receipt.is_done else None
            except OncelogError:
                return None

        return offset

    def stage(self, group: str, offsets: Mapping[Partition, int]) -> None:
        with told():
            self._producer.send_offsets_to_transaction({TopicPartition(*at): end for at, end in offsets.items()}, group)

    def flush(self) -> None:
        with told():
            self._producer.flush()

    def commit(self) -> None:
        with told():
            self._producer.commit_transaction()

    def abort(self) -> None:
        with told():
            self._producer.abort_transaction()


class OncelogReader:
    """A consumer of oncelog; each poll hands out whole plans unless there is more than `most`."""

    def __init__(self, log: Log, topics: Sequence[str], group: str | None, *, is_from_end: bool) -> None:
        start = "latest" if is_from_end else "earliest"
        self._consumer = log.consumer(group_id=group, auto_offset_reset=start)
        self._partitions = [TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)]
        with told():
            self._consumer.assign(self._partitions)
            if is_from_end:
                self._consumer.seek_to_end()  # of all partitions together
        self._was_empty = False

    def poll(self, most: int) -> Polled:
        with told():
            starts = {at: self._consumer.position(at) for at in self._partitions}
            batches = self._consumer.poll_batches(max_records=most)
            runs: dict[TopicPartition, list[tuple[int, int, int]]] = {at: [] for at in self._partitions}
            for batch in batches:
                numbers = to_numbers(batch.records["value"])
                offsets = np.arange(batch.base_offset, batch.base_offset + len(numbers))
                runs[TopicPartition(batch.topic, batch.partition)] += placed_runs(offsets, numbers)
            ends = {at: self._consumer.position(at) for at in self._partitions}
        self._was_empty = not batches
        pieces = [Piece(at.topic, at.partition, starts[at], ends[at], runs[at]) for at in self._partitions]
        return Polled(pieces, is_whole(self._consumer))

    def is_at_end(self) -> bool:
        return self._was_empty

    def stable_ends(self) -> dict[Partition, int]:
        with told():
            ends = self._consumer.end_offsets(self._partitions)
        return {(at.topic, at.partition): end for at, end in ends.items()}


class OncelogClient:
    """An open log."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def writer(self, transactional_id: str) -> OncelogWriter:
        producer = self._log.producer(
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_MS,
            delivery_timeout_ms=DELIVERY_MS,
        )
        with told():
            producer.init_transactions()
        return OncelogWriter(producer)

    def reader(self, topics: Sequence[str], group: str | None = None, *, is_from_end: bool = False) -> OncelogReader:
        return OncelogReader(self._log, topics, group, is_from_end=is_from_end)

    def committed(self, group: str, topic: str) -> dict[Partition, int]:
        with told(), self._log.consumer(group_id=group) as consumer:
            found = consumer.committed([TopicPartition(topic, number) for number in range(PARTITIONS)])
        return {(topic, at.partition): value.offset for at, value in found.items()}


@contextmanager
def opened(settings: Mapping[str, Any]) -> Iterator[OncelogClient]:
    """The log that the settings name."""
    with told():
        log = oncelog.open(**settings["log"], create=False)
    with log:
        yield OncelogClient(log)
