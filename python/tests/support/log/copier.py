"""The copier of a log: what it reads from one topic it writes to others, together with its position, in transactions.

What fails is treated as the error says: the same call again, or abort and begin again. `copy` runs in the process of a
test; ``python -m tests.support.log.copier SETTINGS`` is a program for tests that kill it or cut it off, and prints how
much it copied and what errors it met.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

import oncelog
from oncelog import TopicPartition, limits
from oncelog.clients.fetcher import ConsumerBatch
from oncelog.clients.producer import Producer
from oncelog.errors import AbortableError, OutcomeUnknownError, RetriableError
from oncelog.runtime import Log
from tests.support.log.logs import LogWorld, values

DELIVERY_MS = 5_000
"""A producer tries an append again by itself for so long."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is copied, and how.

    Attributes:
        source, partitions: a topic, and how many partitions it has.
        targets: topics; each record goes to the partition of its own number in all of them.
        at_once: records of each partition in one transaction.
        aborts_every: which attempts are aborted on purpose, and made again: those that this number divides.
        name: transactional id and group.
        mark: stands before the value of each copy.
        pause_s: between two calls, if the first one failed or found nothing.
    """

    source: str = "source"
    partitions: int = 2
    targets: Sequence[str] = ("target",)
    at_once: int = 1
    aborts_every: int = 2
    name: str = "copier"
    mark: str = ""
    pause_s: float = 0.02

    @property
    def at(self) -> list[TopicPartition]:
        return [TopicPartition(self.source, number) for number in range(self.partitions)]


def copy(log: Log, plan: Plan, is_over: Callable[[], bool] = lambda: True) -> Iterator[int]:
    """Copy until it is over and nothing is left; yields after each commit how many records the transaction held."""
    again = partial(persevere, pause_s=plan.pause_s)
    with ExitStack() as stack:
        producer = stack.enter_context(log.producer(transactional_id=plan.name, delivery_timeout_ms=DELIVERY_MS))
        again(producer.init_transactions)
        consumers = []
        for partition in plan.at:  # each has its own, so that every transaction holds records of all of them
            consumers.append(stack.enter_context(log.consumer(group_id=plan.name, auto_offset_reset="earliest")))
            again(partial(consumers[-1].assign, [partition]))
        attempts = itertools.count(1)
        while True:
            is_last = is_over()
            polls = [partial(consumer.poll_batches, max_records=plan.at_once) for consumer in consumers]
            batches = [batch for poll in polls for batch in again(poll)]
            if batches:
                while not _is_committed(producer, plan, batches, gives_up=next(attempts) % plan.aborts_every == 0):
                    pass
                yield sum(batch.records.num_rows for batch in batches)
            elif is_last:
                return
            else:
                time.sleep(plan.pause_s)


def _is_committed(producer: Producer, plan: Plan, batches: Sequence[ConsumerBatch], *, gives_up: bool) -> bool:
    """Write the batches in a transaction, append by append; returns whether it was committed."""
    producer.begin_transaction()
    try:
        for batch in batches:
            for target in plan.targets:
                producer.send_batch(target, _copied(batch.records, plan.mark), partition=batch.partition)
                producer.flush()
        ends = {TopicPartition(one.topic, one.partition): one.base_offset + one.records.num_rows for one in batches}
        producer.send_offsets_to_transaction(ends, plan.name)
    except (RetriableError, AbortableError, OutcomeUnknownError) as error:
        say(f"error {type(error).__name__}")
        gives_up = True
    persevere(producer.abort_transaction if gives_up else producer.commit_transaction, pause_s=plan.pause_s)
    return not gives_up


def _copied(records: pa.RecordBatch, mark: str) -> pa.RecordBatch:
    values = pc.binary_join_element_wise(pa.scalar(mark.encode()), records["value"], b"")
    return pa.record_batch({"key": records["key"], "value": values})


def persevere(call: Callable[[], T], *, pause_s: float = 0) -> T:
    """What the error tree says of retriable errors and unknown outcomes: the same call, until it is answered."""
    while True:
        try:
            return call()
        except (RetriableError, OutcomeUnknownError) as error:
            say(f"error {type(error).__name__}")
            time.sleep(pause_s)


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


# What tests give it to copy -------------------------------------------------------------------------------------------


def prepare(log: Log, plan: Plan, count: int = 0) -> None:
    """Make its topics; each partition of the source gets the same numbers, as many as are asked for."""
    for topic in (plan.source, *plan.targets):
        log.create_topic(topic, partitions=plan.partitions)
    with log.producer() as producer:
        for number in range(count):
            for partition in range(plan.partitions):
                producer.send(plan.source, b"%d" % number, partition=partition)


def copy_in(world: LogWorld, log: Log, plan: Plan) -> None:
    """Copy what is there while the time of a world goes by."""
    for _ in copy(log, plan):
        world.time.pass_ms(2 * limits.SETTLE_LAG_MS)


def copied(log: Log, plan: Plan) -> int:
    """How many numbers are copied: the partitions agree, and none is missing, doubled or out of order."""
    counts = set()
    for number in range(plan.partitions):
        found = values(log, number, plan.targets[0])
        assert found == [b"%d" % at for at in range(len(found))]
        counts.add(len(found))
    (count,) = counts
    return count


def assert_copied_once(log: Log, plan: Plan, count: int) -> None:
    assert copied(log, plan) == count
    with log.consumer(group_id=plan.name) as consumer:
        assert {found.offset for found in consumer.committed(plan.at).values()} == {count}


# The program ----------------------------------------------------------------------------------------------------------


def main(settings: dict[str, Any]) -> None:
    """Copy until the file `stop` appears, if one is named, with other limits, if there are some."""
    for name, value in settings.get("limits", {}).items():
        setattr(limits, name, value)
    plan, stop = Plan(**settings["plan"]), settings.get("stop")
    log = persevere(lambda: oncelog.open(**settings["log"], create=False), pause_s=plan.pause_s)
    with log:
        for count in copy(log, plan, Path(stop).exists if stop else lambda: True):
            say(f"copied {count}")


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
