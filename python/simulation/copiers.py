"""Consume-transform-produce clients, which copy records to another topic and commit their position with them."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.errors import (
    AbortableError,
    FatalError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    ProducerFencedError,
)
from oncelog.testing.history import End, Ending, Stage
from oncelog.types import ConsumerRecord, TopicPartition
from simulation.clients import Client, GaveUpError, number_of, persevere
from simulation.processes import Process
from simulation.producers import Sending
from simulation.readers import fetch
from simulation.world import World

IDLE_MAX = 3
"""A copier ends after this many polls in a row without a record."""


class CopyingClient(Client):
    """Copies one partition, exactly once.

    Args:
        source: what it reads.
        targets: where it writes; a record's number chooses one of them.
        most: the most records of one transaction.
    """

    def __init__(
        self, world: World, name: str, source: TopicPartition, targets: Sequence[TopicPartition], *, most: int = 4
    ) -> None:
        super().__init__(world, name, lives=4)
        self.source = source
        self.targets = targets
        self.most = most

    @property
    def group(self) -> str:
        """The group that holds its position."""
        return f"{self.name}-progress"

    def expects(self, error: FatalError) -> bool:
        return isinstance(error, (ProducerFencedError, InvalidTxnStateError, InvalidProducerIdMappingError))

    def live(self, process: Process) -> None:
        self.go_on(process, IDLE_MAX)

    def catch_up(self, process: Process) -> None:
        """At the end of the run, copy what is left."""
        self.go_on(process, idle_max=1)

    def go_on(self, process: Process, idle_max: int) -> None:
        """Copy until `idle_max` polls in a row returned nothing."""
        life = _CopyingLife(self, process)
        life.begin()
        idle = 0
        while idle < idle_max:
            if not life.copy_some():
                idle += 1
                process.sleep_ms(self.world.chance.randrange(50, 300))


class _CopyingLife:
    """One process of a `CopyingClient`."""

    def __init__(self, client: CopyingClient, process: Process) -> None:
        log = process.open()
        self._client = client
        self._process = process
        self._recorder = client.world.recorder(process)
        self._producer = log.producer(transactional_id=client.name, codec="null", delivery_timeout_ms=5_000)
        self._consumer = log.consumer(group_id=client.group, auto_offset_reset="earliest")
        self._sending = Sending(client.world, self._recorder, self._producer)

    def begin(self) -> None:
        """Fence the earlier lives, then continue at the group's position."""
        source, group = self._client.source, self._client.group
        persevere(self._process, self._producer.init_transactions)
        persevere(self._process, lambda: self._consumer.assign([source]))
        found = persevere(self._process, lambda: fetch(self._recorder, self._consumer, group, [source]))
        if found[source] >= 0:
            persevere(self._process, lambda: self._consumer.seek(source, found[source]))

    def copy_some(self) -> bool:
        """Copy the records of one poll in one transaction. Returns False if there are none."""
        records = persevere(self._process, lambda: self._consumer.poll(max_records=self._client.most))
        if not records:
            return False
        try:
            self._copy(records, f"{self._process.name}/{records[0].offset}")
        except AbortableError as error:
            raise GaveUpError from error  # the next life reads them again
        return True

    def _copy(self, records: list[ConsumerRecord], name: str) -> None:
        process, producer, source = self._process, self._producer, self._client.source
        end = persevere(process, lambda: self._consumer.position(source))
        producer.begin_transaction()
        for record in records:
            number = number_of(record.value)
            where = self._client.targets[number % len(self._client.targets)]
            self._sending.send(where, number, 1, transaction=name, by=process.name)
        staged = self._recorder.invoke(Stage(self._client.group, [(source.topic, source.partition, end)], name))
        persevere(process, lambda: producer.send_offsets_to_transaction({source: end}, self._client.group))
        self._recorder.ok(staged)
        call = self._recorder.invoke(End(name, Ending.COMMIT))
        persevere(process, producer.commit_transaction)
        self._sending.landed()
        self._recorder.ok(call)
