"""A copy from topic to topic under way, for tests that disturb it: who feeds numbers, copies them, and reads along.

Feeder and reader are librdkafka's. They share no code with what is tested.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from integration_tests.kafka_servers import Kafka
from oncelog_kafka.options.admin_settings import KAFKA
from tests.support.connectors.kafka_sink import Reader
from tests.support.harness.waiting import PATIENCE_S, until
from tests.support.spark.jobs.kafka_copier import WRITE
from tests.support.spark.processes import Program, start_job

SOURCE, TARGET, PREFIX = "source", "target", "copies"
PARTITIONS = 4
AT_ONCE = 4_000
"""Offsets in one micro-batch, at most."""

ABORTED = 100
"""Records of each aborted transaction."""

COPIED_WITHIN_S = 240
"""A client of Kafka that lost its broker may wait for it for two minutes before it fails, and is started again."""

ENDING = ("Ongoing", "PrepareCommit", "PrepareAbort")
"""States of transactions that are not over yet."""


class KafkaCopying:
    """A copy that goes on.

    Attributes:
        sent: how many records there are to copy so far: the numbers below it, spread over the partitions in turn.
        output: of the program that copies.
        settings: what it is told.
    """

    def __init__(self, kafka: Kafka, folder: Path, *, client: dict[str, str] | None = None) -> None:
        self.sent = 0
        self.output = folder / "copier.out"
        self.settings = folder / "copier.json"
        self._kafka = kafka
        self._folder = folder
        self._gates = folder / "gates"
        self._stop = folder / "stop"
        self._client = client or {}
        self._feeder, self._quitter = (_producer(kafka, name) for name in ("feeder", "quitter"))
        self._reader = Reader(kafka.client, TARGET)
        self._program: Program | None = None
        self._gates.mkdir()

    # The program

    def start(self, *, spark: dict[str, str] | None = None, client: dict[str, str] | None = None, **sink: Any) -> None:
        """Start the program that copies.

        Args:
            spark: settings of its session.
            client: options of source and sink, in place of those of the copy.
            sink: options of the sink, beside those of the copy.
        """
        source = {"subscribe": SOURCE, "startingOffsets": "earliest", "maxOffsetsPerTrigger": AT_ONCE}
        own = {"topic": TARGET, "transactionalIdPrefix": PREFIX}
        known = {**(client or self._client), "kafka.bootstrap.servers": self._kafka.address}
        settings = {
            "source": {**{name: value for name, value in known.items() if name.startswith(KAFKA)}, **source},
            "sink": {**known, **own, **sink},
            "checkpoint": str(self._folder / "checkpoint"),
            "gates": str(self._gates),
            "stop": str(self._stop),
            "spark": spark or {},
            "is_restarted": True,
        }
        self._stop.unlink(missing_ok=True)
        self._program = start_job("kafka_copier", settings, self._folder, self.settings.stem)

    def kill(self) -> None:
        """Kill the program without any warning, and all that belongs to it."""
        if self._program is not None:
            self._program.kill()
            self._program = None

    def finish(self) -> None:
        """Let the program come to its end."""
        assert self._program is not None
        self._stop.touch()
        assert self._program.wait() == 0, self._program.last_lines()
        self.kill()

    def errors(self) -> list[str]:
        """The names of the errors that the query met so far."""
        return re.findall(r"^error (\w+)$", self.output.read_text(), re.MULTILINE)

    def wait_for_errors(self) -> None:
        """The query meets an error, which it did not know before."""
        before = len(self.errors())
        self._wait(lambda: len(self.errors()) > before)

    # Gates

    def feed_up_to(self, gate: str, count: int) -> None:
        """More records to copy; returns when their first batch stands at the gate, where it waits for its release."""
        reached = Path(self._gates, f"{gate}.reached")
        reached.unlink(missing_ok=True)  # of several tasks the last may say so late
        Path(self._gates, gate).touch()
        self.feed(count)
        self._wait(reached.exists)
        if gate == WRITE:  # with one part of it prepared
            self._wait(lambda: any(name.startswith(PREFIX) for name in self._kafka.transactions("Ongoing")))

    def release(self, gate: str) -> None:
        Path(self._gates, gate).unlink()

    # Records

    def feed(self, count: int) -> None:
        """More records to copy, with others among them that are not to be copied: those of an aborted transaction."""
        numbers = range(self.sent, self.sent + count)
        self.sent += count
        _send(self._feeder, numbers)
        _send(self._quitter, range(-ABORTED, 0))
        self._quitter.abort_transaction(PATIENCE_S)  # readers come to it with the others: those are still open
        while not self._is_committed():
            _send(self._feeder, numbers)

    def _is_committed(self) -> bool:
        """Commit, or abort what cannot be: a cluster that loses a broker may refuse some of a transaction's records."""
        try:
            self._feeder.commit_transaction(PATIENCE_S)
        except KafkaException as problem:
            if not problem.args[0].txn_requires_abort():
                raise
            try:
                self._feeder.abort_transaction(PATIENCE_S)
            except KafkaException as fenced:  # by itself: the abort was sent again, and the first one raised the epoch
                if fenced.args[0].code() != KafkaError._FENCED:
                    raise
                self._feeder = _producer(self._kafka, "feeder")  # aborts whatever is left of it
            return False
        return True

    def wait_until_copied(self) -> None:
        """All that was fed has arrived, as far as counts tell."""
        self._wait(lambda: self._reader.read() >= self.sent)

    def assert_exact(self) -> None:
        """None of the numbers is lost or doubled: neither for who read along, nor for who comes when all is over."""
        until(lambda: self._kafka.transactions(*ENDING) == [])
        late = Reader(self._kafka.client, TARGET)
        for reader in (self._reader, late):
            found = Counter(int(message.value() or b"") for message in reader.read_to_the_end())
            lost = [number for number in range(self.sent) if number not in found]
            doubled = [number for number, count in found.items() if count > 1]
            assert (lost[:10], doubled[:10], len(found)) == ([], [], self.sent)
        late.close()

    def close(self) -> None:
        self.kill()
        self._reader.close()

    def _wait(self, is_reached: Callable[[], bool]) -> None:
        def is_reached_alive() -> bool:
            assert self._program is not None
            self._program.check_runs()
            return is_reached()

        until(is_reached_alive, within_s=COPIED_WITHIN_S, tell=lambda: self.output.read_text()[-4000:])


def _producer(kafka: Kafka, transactional_id: str) -> Producer:
    settings = {
        "transactional.id": transactional_id,
        "linger.ms": 20,
        # Brokers go and come back, and one that left the network may leave a connection open with nobody behind it.
        "reconnect.backoff.max.ms": 1_000,
        "socket.timeout.ms": 10_000,
    }
    producer = Producer({**kafka.client, **settings})
    producer.init_transactions(PATIENCE_S)
    return producer


def _send(producer: Producer, numbers: range) -> None:
    """Send them in a new transaction. If that fails, its end will tell."""
    producer.begin_transaction()
    with suppress(KafkaException):  # nothing can be sent in a transaction that is to be aborted
        for number in numbers:
            producer.produce(SOURCE, value=str(number), partition=number % PARTITIONS)
            producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0


@contextmanager
def kafka_copying(kafka: Kafka, folder: Path, **more: Any) -> Iterator[KafkaCopying]:
    """A copy for the time of the block, which is not started yet; what is left of it is killed at the end."""
    for topic in (SOURCE, TARGET):
        kafka.create_topic(topic, partitions=PARTITIONS)
    found = KafkaCopying(kafka, folder, **more)
    try:
        yield found
    finally:
        found.close()
