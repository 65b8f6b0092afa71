"""The soak's clients of Kafka: librdkafka, which shares no code with the connector."""

from __future__ import annotations

import faulthandler
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from integration_tests.soak.clients import GiveUp, Partition, Polled, TryAgain
from integration_tests.soak.records import PARTITIONS, Numbers, placed_runs, to_numbers
from oncelog.testing.history import Piece

CALL_S = 10.0
STUCK_S = 3 * CALL_S
TRANSACTION_MS = 60_000
AT_ONCE = 20_000
QUIET = {"log_level": 0}


@contextmanager
def told() -> Iterator[None]:
    """What Kafka's errors say, in the soak's words."""
    try:
        yield
    except KafkaException as error:
        problem = error.args[0]
        if problem.txn_requires_abort():
            raise GiveUp(str(error)) from error
        if problem.retriable() or problem.code() == KafkaError._TIMED_OUT:
            raise TryAgain(str(error)) from error
        raise
    except BufferError as error:
        raise GiveUp(str(error)) from error


@contextmanager
def ends_if_stuck() -> Iterator[None]:
    """End the program where a call does not return; its next life fences this one.

    Of a broker that is killed while offsets are sent, librdkafka waits for an answer whatever the timeout says (its
    issues 5456 and 5511).
    """
    faulthandler.dump_traceback_later(STUCK_S, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


class KafkaWriter:
    """A transactional producer of librdkafka."""

    def __init__(self, brokers: str, transactional_id: str) -> None:
        settings = {"bootstrap.servers": brokers, "transactional.id": transactional_id, "linger.ms": 5, **QUIET}
        self._producer = Producer({**settings, "transaction.timeout.ms": TRANSACTION_MS})
        with told():
            self._producer.init_transactions(60.0)
        self._brokers = brokers
        self._groups: dict[str, Consumer] = {}

    def begin(self) -> None:
        with told():
            self._producer.begin_transaction()

    def write(self, topic: str, partition: int, numbers: Numbers) -> Callable[[], int | None]:
        values = numbers.astype(">i8").tobytes()
        with told():
            for at in range(0, len(values), 8):
                self._producer.produce(topic, value=values[at : at + 8], partition=partition)
            self._producer.poll(0)
        return lambda: None

    def stage(self, group: str, offsets: Mapping[Partition, int]) -> None:
        places = [TopicPartition(topic, number, end) for (topic, number), end in offsets.items()]
        if group not in self._groups:
            self._groups[group] = Consumer({"bootstrap.servers": self._brokers, "group.id": group, **QUIET})
        with told(), ends_if_stuck():
            metadata = self._groups[group].consumer_group_metadata()
            self._producer.send_offsets_to_transaction(places, metadata, CALL_S)

    def flush(self) -> None:
        if self._producer.flush(CALL_S):
            raise GiveUp("not everything was delivered")

    def commit(self) -> None:
        with told():
            self._producer.commit_transaction(CALL_S)

    def abort(self) -> None:
        with told():
            self._producer.abort_transaction(CALL_S)


class KafkaReader:
    """A read_committed consumer of librdkafka."""

    def __init__(self, brokers: str, topics: Sequence[str], group: str | None, *, is_from_end: bool) -> None:
        settings = {"bootstrap.servers": brokers, "group.id": group or "reader", "enable.auto.commit": False, **QUIET}
        self._consumer = Consumer(
            {
                **settings,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
            }
        )
        self._partitions = [(topic, number) for topic in topics for number in range(PARTITIONS)]
        starts = dict.fromkeys(self._partitions, OFFSET_BEGINNING)
        if group is not None:
            starts |= committed(brokers, group, self._partitions)
        if is_from_end:
            with told():
                starts = {at: self._consumer.get_watermark_offsets(TopicPartition(*at), CALL_S)[1] for at in starts}
        self._consumer.assign([TopicPartition(*at, start) for at, start in starts.items()])
        self._positions = {at: max(0, start) for at, start in starts.items()}
        self._ended: set[Partition] = set()

    def poll(self, most: int) -> Polled:
        offsets: dict[Partition, list[int]] = defaultdict(list)
        values: dict[Partition, list[bytes]] = defaultdict(list)
        for message in self._consumer.consume(min(most, AT_ONCE), timeout=0.2):
            at = (message.topic() or "", message.partition() or 0)
            error = message.error()
            if error is None:
                offsets[at].append(message.offset() or 0)
                values[at].append(message.value() or b"")
                self._ended.discard(at)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._ended.add(at)
            elif not error.retriable() and error.code() not in {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}:
                raise KafkaException(error)
        pieces = []
        for at in self._partitions:
            start = self._positions[at]
            found = np.array(offsets[at], np.int64)
            end = self._positions[at] = int(found[-1]) + 1 if len(found) else start
            pieces.append(Piece(*at, start, end, placed_runs(found, to_numbers(values[at]))))
        return Polled(pieces, is_whole=False)

    def is_at_end(self) -> bool:
        return len(self._ended) == len(self._partitions)

    def stable_ends(self) -> dict[Partition, int]:
        return {}


class KafkaClient:
    """Some brokers."""

    def __init__(self, brokers: str) -> None:
        self._brokers = brokers

    def writer(self, transactional_id: str) -> KafkaWriter:
        return KafkaWriter(self._brokers, transactional_id)

    def reader(self, topics: Sequence[str], group: str | None = None, *, is_from_end: bool = False) -> KafkaReader:
        return KafkaReader(self._brokers, topics, group, is_from_end=is_from_end)

    def committed(self, group: str, topic: str) -> dict[Partition, int]:
        return committed(self._brokers, group, [(topic, number) for number in range(PARTITIONS)])


def committed(brokers: str, group: str, partitions: Sequence[Partition]) -> dict[Partition, int]:
    """The offsets of a group, of those partitions that have one; waits for those of transactions under way."""
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": group, **QUIET})
    deadline_s = time.monotonic() + CALL_S
    try:
        while True:
            try:
                with told():
                    found = consumer.committed([TopicPartition(*at) for at in partitions], timeout=CALL_S)
            except TryAgain:
                if time.monotonic() > deadline_s:
                    raise
                continue
            return {(one.topic, one.partition): one.offset for one in found if one.offset >= 0}
    finally:
        consumer.close()
