"""Producers: transactional ones that end their transactions in every possible way, and idempotent ones."""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.clients.accumulator import Receipt
from oncelog.clients.prepared import PreparedTransaction
from oncelog.clients.producer import Producer
from oncelog.errors import (
    AbortableError,
    FatalError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    OncelogError,
    OutcomeUnknownError,
    ProducerFencedError,
    RetriableError,
    UnknownTopicError,
)
from oncelog.runtime import Log
from oncelog.testing.history import End, Ending, Recorder, Stage, Write, Written
from oncelog.types import ProducerIdAndEpoch, TopicPartition
from simulation.clients import Client, GaveUpError, persevere, untouched, value_of
from simulation.errors import LawBrokenError
from simulation.processes import Process
from simulation.world import World

NOBODY = ProducerIdAndEpoch(2**62, 0)
"""A producer that never exists; its token means that there is none."""


THINKING_MS = (0, 0, 30, 300)
"""Pauses between two writes of a transaction."""


class Sending:
    """The records that one life of a producer has sent, and the history of them."""

    def __init__(self, world: World, recorder: Recorder, producer: Producer) -> None:
        self._world = world
        self._recorder = recorder
        self._producer = producer
        self._waiting: list[tuple[int, Receipt]] = []
        self._too_late: set[int] = set()

    def send(
        self, where: TopicPartition, first: int, count: int, *, transaction: str | None = None, by: str | None = None
    ) -> None:
        """Send records with consecutive numbers to one partition."""
        call = self._recorder.invoke(Write(where.topic, [(first, count)], where.partition, transaction, by))
        if where.topic in self._world.gone:
            self._too_late.add(call)
        timestamp_ms = self._world.wall_ms()
        receipts: list[Receipt] = []
        try:
            for number in range(first, first + count):
                value = value_of(number)
                receipts.append(
                    self._producer.send(where.topic, value, partition=where.partition, timestamp_ms=timestamp_ms)
                )
        except OncelogError:
            (self._recorder.unknown if receipts else self._recorder.fail)(call)
            raise
        self._waiting.append((call, receipts[0]))

    def landed(self) -> None:
        """Record the answers that have arrived by now."""
        waiting, self._waiting = self._waiting, []
        for call, receipt in waiting:
            if not receipt.is_done:
                self._waiting.append((call, receipt))
                continue
            try:
                offset = receipt.result().offset
            except OncelogError:
                self._recorder.unknown(call)
                continue
            if call in self._too_late:
                raise LawBrokenError("a topic accepted records after it was deleted")
            self._recorder.ok(call, Written(offset))

    def forget(self) -> None:
        """Give up on the records that have no answer yet."""
        for call, _ in self._waiting:
            self._recorder.unknown(call)
        self._waiting = []


class TransactionalClient(Client):
    """A producer with a transactional id: it writes, stages offsets, and commits, aborts, prepares or abandons.

    Args:
        partitions: where it writes.
        group: the group whose offsets it stages, if any; only this client uses it.
        prepares: whether it may use two-phase commit.
        transactions: how many in each life.
        timeout_ms: time-out of its transactions.
        codec: of its records.

    Attributes:
        promised: what another database has decided to commit: transactions by token.
        newest: the life that began last.
    """

    def __init__(
        self,
        world: World,
        name: str,
        partitions: list[TopicPartition],
        *,
        group: str | None = None,
        prepares: bool = False,
        transactions: int = 2,
        timeout_ms: int = 60_000,
        codec: str = "null",
    ) -> None:
        super().__init__(world, name)
        self.partitions = partitions
        self.group = group
        self.prepares = prepares
        self.transactions = transactions
        self.timeout_ms = timeout_ms
        self.codec = codec
        self.promised: dict[str, str] = {}
        self.newest: TransactionalLife | None = None
        self.position = 0

    def expects(self, error: FatalError) -> bool:
        return isinstance(error, (ProducerFencedError, InvalidTxnStateError, InvalidProducerIdMappingError))

    def leave_out(self, topic: str) -> bool:
        self.partitions = self._left(self.partitions, lambda where: where.topic != topic)
        return True

    def live(self, process: Process) -> None:
        life = TransactionalLife(self, process, process.open())
        untouched(life.begin)
        for number in range(self.transactions):
            life.transaction(f"{process.name}/{number}")
            process.sleep_ms(self.world.chance.randrange(300))

    def finish(self, process: Process, log: Log) -> None:
        """At the end of the run, end what is still prepared, as the other database says."""
        if self.prepares:
            TransactionalLife(self, process, log).begin()


class TransactionalLife:
    """One process of a `TransactionalClient`."""

    def __init__(self, client: TransactionalClient, process: Process, log: Log) -> None:
        self._client = client
        self._world = client.world
        self._process = process
        self._recorder = client.world.recorder(process)
        self._producer = log.producer(
            transactional_id=client.name,
            transaction_timeout_ms=client.timeout_ms,
            codec=client.codec,
            delivery_timeout_ms=5_000,
        )
        self._sending = Sending(self._world, self._recorder, self._producer)

    def begin(self) -> None:
        """Get a producer id and epoch, and end the transaction that an earlier life prepared."""
        client = self._client
        kept = persevere(self._process, lambda: self._producer.init_transactions(keep_prepared=client.prepares))
        client.newest = self  # only now: a life that was paused before this may begin after its successor
        if kept is None:
            return
        name = client.promised.get(str(kept))
        if name is None:
            token = PreparedTransaction(client.name, NOBODY)
            persevere(self._process, lambda: self._producer.complete_transaction(token))
        else:
            call = self._recorder.invoke(End(name, Ending.COMMIT))
            persevere(self._process, lambda: self._producer.complete_transaction(kept))
            self._recorder.ok(call)

    def transaction(self, name: str) -> None:
        """One transaction, ended in one way or another."""
        chance = self._world.chance
        self._producer.begin_transaction()
        try:
            for _ in range(chance.randint(1, 3)):
                self._write(name)
                self._process.sleep_ms(chance.choice(THINKING_MS))
            if self._client.group is not None and chance.random() < 0.7:
                self._stage(name, self._client.group)
            self._end(name)
        except AbortableError:
            self._abort(name)
        except UnknownTopicError:
            untouched(lambda: self._abort(name))
            raise
        finally:
            self._sending.forget()

    def _write(self, name: str) -> None:
        chance = self._world.chance
        where = chance.choice(self._client.partitions)
        count = chance.randint(1, 3)
        first = self._world.numbers(where.topic, count)
        self._sending.send(where, first, count, transaction=name, by=self._process.name)
        if chance.random() < 0.5:
            self._flush()

    def _flush(self) -> None:
        """A failed flush lost its records, so the transaction can only be aborted."""
        try:
            self._producer.flush()
        except (RetriableError, OutcomeUnknownError) as error:
            raise AbortableError("a flush failed") from error
        finally:
            if not self._process.is_dead:
                self._sending.landed()

    def _stage(self, name: str, group: str) -> None:
        client = self._client
        client.position += 1
        where, position = client.partitions[0], client.position
        call = self._recorder.invoke(Stage(group, [(where.topic, where.partition, position)], name))
        persevere(self._process, lambda: self._producer.send_offsets_to_transaction({where: position}, group))
        self._recorder.ok(call)

    def _end(self, name: str) -> None:
        drawn = self._world.chance.random()
        if drawn < 0.15:
            self._abort(name)
        elif drawn < 0.25:
            raise GaveUpError  # leaves the transaction open
        elif self._client.prepares and drawn < 0.7:
            self._prepare(name)
        else:
            self._commit(name)

    def _commit(self, name: str) -> None:
        call = self._recorder.invoke(End(name, Ending.COMMIT))
        before = self._process.unknown_outcomes
        try:
            persevere(self._process, self._producer.commit_transaction)
        except (FatalError, AbortableError, UnknownTopicError):
            self._sending.landed()
            if self._process.unknown_outcomes == before:
                self._recorder.fail(call)
            else:
                self._recorder.unknown(call)
            raise
        self._sending.landed()
        self._recorder.ok(call)

    def _abort(self, name: str) -> None:
        call = self._recorder.invoke(End(name, Ending.ABORT))
        persevere(self._process, self._producer.abort_transaction)
        self._recorder.ok(call)

    def prepare_over(self, partitions: Iterable[TopicPartition], name: str) -> None:
        """Write a transaction to these partitions, prepare and promise it, and leave it to a later life."""
        self._producer.begin_transaction()
        for where in partitions:
            first = self._world.numbers(where.topic, 1)
            self._sending.send(where, first, 1, transaction=name, by=self._process.name)
        self._promise(name)

    def _prepare(self, name: str) -> None:
        call = self._promise(name)
        if self._world.chance.random() < 0.4:
            raise GaveUpError  # the next life completes it
        persevere(self._process, self._producer.commit_transaction)
        self._recorder.ok(call)

    def _promise(self, name: str) -> int:
        """Prepare, then let the other database decide to commit the transaction.

        The database ignores a life that is not the client's newest, because the newest one may have aborted the
        transaction.
        """
        self._flush()
        token = persevere(self._process, self._producer.prepare_transaction)
        self._sending.landed()
        self._process.wait(self._world.latency_ms())
        if self._client.newest is not self:
            raise GaveUpError
        call = self._recorder.invoke(End(name, Ending.COMMIT))
        self._client.promised[str(token)] = name
        return call


class IdempotentClient(Client):
    """A producer without transactions: each of its records is in the log once, or was not acknowledged."""

    def __init__(self, world: World, name: str, partitions: list[TopicPartition], *, sends: int = 4) -> None:
        super().__init__(world, name, lives=2)
        self.partitions = partitions
        self._sends = sends

    def leave_out(self, topic: str) -> bool:
        self.partitions = self._left(self.partitions, lambda where: where.topic != topic)
        return True

    def live(self, process: Process) -> None:
        world, chance = self.world, self.world.chance
        producer = process.open().producer(codec="null", delivery_timeout_ms=3_000)
        sending = Sending(world, world.recorder(process), producer)
        failures = 0
        for _ in range(self._sends):
            where, count = chance.choice(self.partitions), chance.randint(1, 3)
            first = world.numbers(where.topic, count)
            # After a failure it continues with another producer id, for which order starts over.
            try:
                sending.send(where, first, count, by=f"{process.name}:{failures}")
                if chance.random() < 0.6:
                    producer.flush()
            except (RetriableError, OutcomeUnknownError, AbortableError):
                failures += 1
            finally:
                if not process.is_dead:
                    sending.landed()
            process.sleep_ms(chance.randrange(200))
        producer.close()
        sending.landed()
