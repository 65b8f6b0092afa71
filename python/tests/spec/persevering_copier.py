"""A copier that perseveres: what fails is called again where the error tree says so.

It reads numbers from a source, writes each of them to both partitions of a topic and stages its position in the source,
all in one transaction, as consume-transform-produce programs do. Every second number is first written and given up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from oncelog import limits
from oncelog.clients.producer import Producer
from oncelog.errors import AbortableError, OutcomeUnknownError, RetriableError
from oncelog.runtime import Log
from tests.support.log.logs import TOPIC, LogWorld, numbered, tp, values

T = TypeVar("T")

SOURCE = tp(0, "source")
GROUP = "copiers"
COUNT = 3
TRIES = 20


def persevere(call: Callable[[], T]) -> T:
    """What the error tree says of retriable errors and unknown outcomes: the same call again."""
    for _ in range(TRIES):
        try:
            return call()
        except (RetriableError, OutcomeUnknownError):
            continue
    return call()


class Copier:
    """Copies what is left, exactly once."""

    def __init__(self, world: LogWorld, log: Log) -> None:
        self._world = world
        self._log = log

    def run(self) -> None:
        with self._log.producer(transactional_id="copier") as producer:
            persevere(producer.init_transactions)
            while (position := persevere(self.position)) < COUNT:
                if position % 2:
                    self._copy(producer, position, gives_up=True)
                self._copy(producer, position)
                self._world.time.pass_ms(2 * limits.SETTLE_LAG_MS)

    def position(self) -> int:
        with self._log.consumer(group_id=GROUP) as consumer:
            found = consumer.committed([SOURCE])
        return found[SOURCE].offset if found else 0

    def _copy(self, producer: Producer, position: int, *, gives_up: bool = False) -> None:
        producer.begin_transaction()
        try:
            self._write(producer, position, gives_up=gives_up)
        except AbortableError:
            persevere(producer.abort_transaction)

    def _write(self, producer: Producer, position: int, *, gives_up: bool) -> None:
        value = b"given up" if gives_up else b"number-%d" % position
        producer.send(TOPIC, value, partition=0)
        self._flush(producer)
        producer.send(TOPIC, value, partition=1)
        persevere(lambda: producer.send_offsets_to_transaction({SOURCE: position + 1}, GROUP))
        self._flush(producer)
        persevere(producer.abort_transaction if gives_up else producer.commit_transaction)

    @staticmethod
    def _flush(producer: Producer) -> None:
        """A failed flush lost its records, so the transaction can only be aborted."""
        try:
            producer.flush()
        except (RetriableError, OutcomeUnknownError) as error:
            raise AbortableError("a flush failed") from error


def assert_copied_once(world: LogWorld) -> None:
    assert values(world.log, 0) == values(world.log, 1) == numbered("number", COUNT)
    assert Copier(world, world.log).position() == COUNT
