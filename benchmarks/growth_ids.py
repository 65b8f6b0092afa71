"""A log that knows more and more transactional ids: what one of them costs, and what upkeep costs for each."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import oncelog
from benchmarks.growth_costs import Curve, Operation, Probe
from benchmarks.growth_partitions import CHECKED, OpenedLog, opening, plan_of_last
from oncelog.clients import maintenance
from oncelog.coordinator import sweeper, transactional_ids
from oncelog.log import topics
from oncelog.ports import Create, ZnodeReader, ZnodeView
from oncelog.types import TopicIdPartition
from oncelog.znodes import paths, payloads, walking
from oncelog.znodes.memory import MemoryZnodeStore
from oncelog.znodes.rules import ROOT

EXPLANATION = """\
A log on SQLite that knows so many transactional ids. Each has written a transaction to the same partition, which
remembers its producer, and none has expired. *One pass of upkeep* is what `oncelog gc` does: it times out transactions,
settles and expires ids, and forgets idle producers. There, the cost is that of one id of them."""

CACHED = """\
a pass reads every id, what is below it and its producer once, so it grows with their number. Those of 10,000 ids no \
longer fit into SQLite's cache of 2 MB, and are read from the file."""

COPIED = """\
the process holds all znodes in a table. A write that comes while another thread reads leaves the old table to that \
reader, and copies it. Stores on SQLite, ZooKeeper and PostgreSQL have no such table."""

BESIDE_A_READER = "write beside a reader, command log"

REASONS = {"open": CHECKED, "one pass of upkeep, each": CACHED, BESIDE_A_READER: COPIED}

QUICK, FULL = (100, 1_000, 10_000), (100, 1_000, 10_000, 100_000)

FIRST_PRODUCER_ID = 10**9
IDS_PER_STEP, ZNODES_PER_MULTI = 200, 500


def run(folder: Path, *, quick: bool) -> list[Operation]:
    """Measure logs of each size."""
    curve, sizes = Curve(REASONS), QUICK if quick else FULL
    with ExitStack() as closing:
        logs = {ids: _made(folder / str(ids), ids) for ids in sizes}
        curve.measure({ids: {"open": Probe(opening(place), each=4)} for ids, place in logs.items()})
        opened = {ids: closing.enter_context(OpenedLog(place, f"id-{ids // 2}")) for ids, place in logs.items()}
        curve.measure({ids: _probes(log, ids) for ids, log in opened.items()})
        curve.measure({ids: {BESIDE_A_READER: beside_a_reader(log.store)} for ids, log in opened.items()})
    return curve.operations


def _made(place: Path, ids: int) -> Path:
    with oncelog.open(place) as log:
        log.create_topic("t0")
        with log.producer(transactional_id="writer") as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send("t0", b"value", partition=0)
        copy_id(log, topics.partitions_of(log.services.store, "t0")[0], ids)
    return place


def _probes(opened: OpenedLog, ids: int) -> dict[str, Probe]:
    log, store, numbers = opened.log, opened.store, count()
    init = log.services.coordinator.init_producer_id
    (partition,) = topics.partitions_of(store, "t0")

    def upkeep() -> None:
        maintenance.time_out(log.services)
        maintenance.settle(log.services)
        sweeper.expire_transactional_ids(store)
        maintenance.forget_idle_producers(store)

    return {
        "start of a known id": Probe(lambda: init("id-0"), store),
        "start of a new id": Probe(lambda: init(f"new-{next(numbers)}"), store),
        "transaction": opened.writing(0),
        "plan for the partition": Probe(lambda: plan_of_last(log, partition), store),
        "one pass of upkeep, each": Probe(upkeep, store, each=1, share=ids),
    }


def beside_a_reader(source: ZnodeReader) -> Probe:
    """A write to one of the ids while another thread reads, in the tree that a command log makes of the same znodes."""
    store = MemoryZnodeStore()
    found = iter([Create(path, znode.data) for path, znode in walking.walk_below(source, ROOT)])
    while some := list(islice(found, ZNODES_PER_MULTI)):
        store.multi(some)

    def write() -> None:
        with store.snapshot():
            store.transact(lambda view: view.set(paths.transaction("id-0"), b""))

    return Probe(write)


def copy_id(log: oncelog.Log, partition: TopicIdPartition, ids: int) -> None:
    """Make more ids that are what the log's only one is: behind a transaction to the partition."""
    store = log.services.store
    stored = transactional_ids.load(store, "writer")
    if stored is None:
        raise RuntimeError("the log has no id")
    znode = store.get(paths.producer(partition, stored.producer_id))
    if znode is None:
        raise RuntimeError("no transaction was written")
    remembered = znode.data

    def write(view: ZnodeView, numbers: Sequence[int]) -> None:
        for number in numbers:
            name, producer_id = f"id-{number}", FIRST_PRODUCER_ID + number
            metadata = replace(stored, transactional_id=name, producer_id=producer_id)
            view.create(paths.transaction(name), payloads.encode_transaction(metadata))
            view.create(paths.producer(partition, producer_id), remembered)

    for first in range(0, ids, IDS_PER_STEP):
        numbers = range(first, min(first + IDS_PER_STEP, ids))
        store.transact(lambda view, numbers=numbers: write(view, numbers))  # type: ignore[misc]
