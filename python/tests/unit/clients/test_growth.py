"""What an operation costs does not depend on how much else is in the log: counted in znodes, read and written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from oncelog.batches.ledger import EMBEDDED
from oncelog.batches.steps import REMEMBERED_ROUNDS
from oncelog.coordinator import groups, rounds, sweeper
from oncelog.log import snapshot, topics
from oncelog.runtime import Log
from oncelog.types import Block, OffsetAndMetadata
from tests.support.log.counted import CountedStore
from tests.support.log.logs import TOPIC, LogWorld, log_world, partition, started
from tests.support.log.rounds import PREFIX, begin

BATCHES = 60

Costs = list[int]


def opened(world: LogWorld) -> tuple[CountedStore, Log]:
    store = CountedStore(world.store())
    return store, world.open(store)


def costs_of_client(world: LogWorld, transactional_id: str) -> Costs:
    """What it costs to start, to commit to one and to two partitions with settling, and to plan and read one."""
    store, log = opened(world)
    costs = [store.cost_of(lambda: started(log, transactional_id))]
    producer = started(log, transactional_id)

    def commit(numbers: Sequence[int]) -> None:
        world.time.sleep_ms(1_000)
        with producer.transaction():
            for number in numbers:
                producer.send(TOPIC, b"value", partition=number)

    for numbers in ([0], [0, 1]):
        for _ in range(3):
            commit(numbers)  # until each settles what the one before it left
        costs.append(store.cost_of(lambda numbers=numbers: commit(numbers)))  # type: ignore[misc]
    costs.append(store.cost_of(lambda: snapshot.take(store, [partition(log)])))
    producer.close()
    return costs


def one_world_each(tmp_path: Path, sizes: Sequence[int], fill: Callable[[LogWorld, int], None]) -> list[Costs]:
    found = []
    for size in sizes:
        with log_world(tmp_path / str(size)) as world:
            fill(world, size)
            found.append(costs_of_client(world, "copier"))
    return found


def test_what_a_transaction_and_a_plan_cost_does_not_depend_on_the_number_of_partitions(tmp_path: Path) -> None:
    def created(world: LogWorld, partitions: int) -> None:
        world.log.create_topic(TOPIC, partitions=partitions)

    few, many = one_world_each(tmp_path, (2, 60), created)

    assert few == many


def test_what_a_transaction_and_a_plan_cost_does_not_depend_on_the_number_of_transactional_ids(tmp_path: Path) -> None:
    def known(world: LogWorld, ids: int) -> None:
        world.log.create_topic(TOPIC, partitions=2)
        for number in range(ids):
            with started(world.log, f"id-{number}") as producer, producer.transaction():
                producer.send(TOPIC, b"value", partition=0)

    few, many = one_world_each(tmp_path, (1, 40), known)

    assert few == many


def test_what_a_batch_costs_does_not_depend_on_the_number_of_batches(memory_world: LogWorld) -> None:
    world = memory_world
    world.is_checked = False  # the data file is not there
    store, log = opened(world)

    def write(batch_id: int) -> None:
        round_ = begin(log, batch_id)
        round_.write({partition(log): [Block("data/00000001-made-up.avro", 0, 99, 0, 10, 1, 2)]})
        round_.decide()
        world.settle(log)
        rounds.forget_old_rounds(store, PREFIX)

    costs = [store.cost_of(lambda number=number: write(number)) for number in range(BATCHES)]  # type: ignore[misc]

    numbers = EMBEDDED.round_numbers(store, PREFIX)
    assert len(numbers) <= REMEMBERED_ROUNDS + 1
    assert max(costs[BATCHES // 2 :]) <= max(costs[: BATCHES // 2])


def test_all_topics_are_read_together(memory_world: LogWorld) -> None:
    store = CountedStore(memory_world.store())
    alone = store.requests_of(lambda: topics.states(store))
    for number in range(20):
        memory_world.log.create_topic(f"topic-{number}")

    assert store.requests_of(lambda: topics.states(store)) == alone
    assert len(topics.states(store)) == 21


def test_ids_that_are_not_idle_are_read_together(memory_world: LogWorld) -> None:
    store = CountedStore(memory_world.store())
    started(memory_world.log, "id")
    alone = store.requests_of(lambda: sweeper.expire_transactional_ids(store))
    for number in range(20):
        started(memory_world.log, f"id-{number}")

    assert store.requests_of(lambda: sweeper.expire_transactional_ids(store)) == alone


def test_the_offsets_of_all_groups_are_read_together(memory_world: LogWorld) -> None:
    store = CountedStore(memory_world.store())
    source = partition(memory_world.log)
    names = [f"group-{number}" for number in range(20)]
    for name in names:
        groups.commit(store, name, {source: OffsetAndMetadata(1)})
    lists_of_one = store.requests_of(lambda: groups.partitions_of(store, "group-0"))
    alone = store.requests_of(lambda: groups.describe(store, ["group-0"]))

    assert store.requests_of(lambda: groups.describe(store, names)) == alone + 19 * lists_of_one
    assert [*groups.describe(store, names)] == names
