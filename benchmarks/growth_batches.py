"""One query that writes more and more batches: what the next one costs in its ledger, and what the ledger takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from benchmarks.growth_costs import BYTES, KILOBYTES, NUMBER, Curve, Operation, Probe, SteppedClock, cost_of
from oncelog import limits, metadata, runtime
from oncelog.clients.upkeep import Upkeep
from oncelog.coordinator import rounds
from oncelog.log import topics
from oncelog.log.files import file_store
from oncelog.ports import ZnodeStore
from oncelog.protocol.batch_ledger import BatchRequest
from oncelog.randomness import random_id
from oncelog.spark.offsets import SourceOffset, TopicOffsets
from oncelog.types import Block, TopicIdPartition
from oncelog.znodes import walking
from oncelog.znodes.memory import MemoryZnodeStore
from oncelog.znodes.replicated.port import Entry, TrimmedError
from oncelog.znodes.replicated.store import ReplicatedZnodeStore
from oncelog.znodes.sqlite import SqliteZnodeStore
from oncelog_kafka import ledger
from oncelog_kafka.extents import Extent
from oncelog_kafka.ledger import Ledger
from oncelog_kafka.participants import Participant
from tests.support.log.counted import CountedStore

OFFSET = "offset in the checkpoint"

EXPLANATION = """\
One query writes its batches to one partition, and the next batch is measured: all steps of its ledger, with what is
forgotten behind it. The rows are made up, and no data file is written. The *Kafka sink* has a participant in each
batch; its ledger is also measured on a command log, which is how it lies in a topic. The *embedded sink* appends a
block, and settles the batch before. Only the Kafka sink in memory writes all 1,000,000 batches, which takes a quarter
of an hour. The other runs end sooner, where their costs have long stopped to grow."""

MERGED = """\
every 32nd batch reads the extents of the newest 1,000 batches, to merge older ones. So the cost grows until there are \
so many, and then stays."""
KEPT = "the extents of the newest 1,000 batches are kept for readers of whole batches, and not one more."
REPLAYED = """\
a command log is trimmed up to the last snapshot but one, and there is a snapshot after every 5,000 entries. So who \
opens it replays at most 10,000 entries."""

QUICK, SIZES = (100, 1_000), (100, 1_000, 10_000, 100_000, 1_000_000)

ROUND = 128
"""Batches that are measured together, of which a few do what others leave undone: four of the Kafka sink merge
extents, and one of the embedded sink rolls the partition's tail."""

WriteBatch = Callable[[int], None]
"""Writes the batch of a number."""

REASONS = {
    "Kafka sink, in memory": MERGED,
    "Kafka sink, SQLite": MERGED,
    "Kafka sink, command log": MERGED,
    "Kafka sink, znodes there": KEPT,
    "Kafka sink, SQLite file": KEPT,
    "Kafka sink, command log's size": REPLAYED,
    "Kafka sink, open a command log": REPLAYED,
}


class MemoryCommandLog:
    """A command log in memory, which forgets what is trimmed. Its time is that of its entries, a second apart."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._first = 0

    @property
    def size_bytes(self) -> int:
        """Of the entries that are kept."""
        return sum(len(entry.body) for entry in self.entries)

    def start(self) -> int:
        return self._first - 1

    def read(self, after: int) -> Sequence[Entry]:
        if after < self.start():
            raise TrimmedError("the log was trimmed", after=after)
        return self.entries[after + 1 - self._first :]

    def append(self, after: int, body: bytes) -> Sequence[Entry] | None:
        position = self._first + len(self.entries)
        entry = Entry(position, 1_000 * position, body)
        self.entries.append(entry)
        return [entry] if after == position - 1 else None

    def trim(self, position: int) -> None:
        del self.entries[: position + 1 - self._first]
        self._first = position + 1

    def close(self) -> None: ...


def kafka_batches(store: ZnodeStore) -> WriteBatch:
    """Batches of a Kafka sink, each with the rows of one task in one partition."""
    metadata.checked_store(store, None, None, create=True)
    lease: int | None = None
    target = TopicIdPartition("t", "id", 0)

    def write(number: int) -> None:
        nonlocal lease
        steps = Ledger(store, BatchRequest("sink", "query", "t", "run", number, str(number)))
        opened = steps.begin(lease=lease, buckets=None)
        if opened is None:
            raise RuntimeError("the batch was there before")
        lease = opened.record.lease
        participant = Participant(f"sink-0-{lease}.0.0", 0, 7, number % 30_000, 2, 10, 17, "out")
        steps.decide(opened, [participant], written={target: Extent(11 * number, 11 * number + 9)})
        ledger.complete(store, "sink", opened.number)
        steps.forget_old_rounds()
        steps.merge_old_extents(opened.number)

    return write


def embedded_batches(store: ZnodeStore, folder: Path) -> WriteBatch:
    """Batches of an embedded sink, each with one block in one partition; no data file is written."""
    clock = SteppedClock()
    log = runtime.open_with(str(folder), None, store, file_store(str(folder)), clock)
    log.create_topic("t")
    (partition,) = topics.partitions_of(store, "t")
    services, upkeep = log.services.new_round_services(), Upkeep(log.services)
    block = Block("data/00000001-made-up.avro", 0, 99, 0, 10, 1, 2)

    def write(number: int) -> None:
        opened = rounds.begin(services, BatchRequest("sink", "query", "t", "run", number, str(number)))
        if opened is None:
            raise RuntimeError("the batch was there before")
        opened.write({partition: [block]})
        opened.decide()
        clock.sleep_ms(1_000)
        upkeep.after_writing([partition])
        rounds.forget_old_rounds(store, "sink")

    return write


class Query:
    """A query that has written some batches."""

    def __init__(self, write: WriteBatch) -> None:
        self._write = write
        self._batches = 0

    def write(self) -> None:
        """Write the next batch."""
        self._write(self._batches)
        self._batches += 1

    def grow(self, curve: Curve, sizes: Sequence[int], name: str, store: CountedStore) -> Iterator[int]:
        """Write batches, and measure the next ones at each size; yields the sizes."""
        for size in sizes:
            while self._batches < size:
                self.write()
            curve.add(size, name, cost_of(Probe(self.write, store, each=min(ROUND, size // 8))))
            yield size


def run(folder: Path, *, quick: bool) -> list[Operation]:
    """Measure both sinks on each store."""
    curve = Curve(REASONS)
    kafka_in_memory(curve, QUICK if quick else SIZES)
    on_sqlite(curve, QUICK if quick else SIZES[:4], "Kafka sink", folder / "kafka.db", kafka_batches)
    on_command_log(curve, QUICK if quick else SIZES[:4])
    embedded_in_memory(curve, QUICK if quick else SIZES[:4], folder / "memory")
    embedded = partial(embedded_batches, folder=folder / "log")
    on_sqlite(curve, QUICK if quick else SIZES[:3], "embedded sink", folder / "log.db", embedded)
    return curve.operations


def kafka_in_memory(curve: Curve, sizes: Sequence[int]) -> None:
    """Measure the Kafka sink with its ledger in memory, and the query's checkpoint."""
    store = CountedStore(MemoryZnodeStore())
    for size in Query(kafka_batches(store)).grow(curve, sizes, "Kafka sink, in memory", store):
        curve.add(size, "Kafka sink, znodes there", {NUMBER: _znodes(store)})
        curve.add(size, OFFSET, {BYTES: _offset_bytes(size)})


def embedded_in_memory(curve: Curve, sizes: Sequence[int], folder: Path) -> None:
    """Measure the embedded sink with all znodes of its log in memory."""
    store = CountedStore(MemoryZnodeStore())
    for size in Query(embedded_batches(store, folder)).grow(curve, sizes, "embedded sink, in memory", store):
        curve.add(size, "embedded sink, znodes there", {NUMBER: _znodes(store)})


def on_sqlite(
    curve: Curve, sizes: Sequence[int], sink: str, file: Path, batches: Callable[[ZnodeStore], WriteBatch]
) -> None:
    """Measure a sink with the znodes in a SQLite file, and how large that is."""
    with closing(CountedStore(SqliteZnodeStore(file))) as store:
        for size in Query(batches(store)).grow(curve, sizes, f"{sink}, SQLite", store):
            curve.add(size, f"{sink}, SQLite file", {KILOBYTES: file.stat().st_size / 1000})


def on_command_log(curve: Curve, sizes: Sequence[int]) -> None:
    """Measure the Kafka sink with its ledger on a command log, and how long that is."""
    log = MemoryCommandLog()

    def opened() -> ReplicatedZnodeStore:
        return ReplicatedZnodeStore(lambda: log, recent_ms=limits.RECENT_MS)

    store = CountedStore(opened())
    for size in Query(kafka_batches(store)).grow(curve, sizes, "Kafka sink, command log", store):
        curve.add(size, "Kafka sink, command log's size", {KILOBYTES: log.size_bytes / 1000})
        curve.add(size, "Kafka sink, open a command log", cost_of(Probe(lambda: opened().close(), each=1)))


def _znodes(store: ZnodeStore) -> int:
    return sum(1 for _ in walking.walk(store, "/"))


def _offset_bytes(batches: int) -> int:
    """The size of the query's offset in its checkpoint, with ten rows in each batch."""
    offset = SourceOffset(random_id(), None, {"t": TopicOffsets(random_id(), {0: 10 * batches})})
    return len(json.dumps(offset.to_dict()))
