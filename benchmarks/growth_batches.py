"""One query that writes more and more batches: what the next one costs in its ledger, and what the ledger takes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.growth_costs import BYTES, KILOBYTES, NUMBER, Curve, Operation, Probe, SteppedClock
from oncelog import limits, metadata, runtime
from oncelog.batches.ledger import EMBEDDED
from oncelog.batches.rules import BatchRequest
from oncelog.batches.steps import BatchSteps
from oncelog.batches.transaction import run_steps
from oncelog.clients.upkeep import Upkeep
from oncelog.coordinator import rounds
from oncelog.coordinator.rounds import Round
from oncelog.log import topics
from oncelog.log.files import file_store
from oncelog.ports import ZnodeStore, ZnodeView
from oncelog.randomness import random_id
from oncelog.spark.offsets import SourceOffset, TopicOffsets
from oncelog.types import Block, TopicIdPartition
from oncelog.znodes import walking
from oncelog.znodes.memory import MemoryZnodeStore
from oncelog.znodes.replicated.port import Entry, TrimmedError
from oncelog.znodes.replicated.store import ReplicatedZnodeStore
from oncelog.znodes.sqlite import SqliteZnodeStore
from oncelog_kafka.ledger import ledger
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS, Ledger
from oncelog_kafka.protocol.extents import Extent
from oncelog_kafka.protocol.participants import Participant
from tests.support.log.counted import CountedStore

EXPLANATION = """\
One query writes its batches to one partition, and the next batch is measured: all steps of its ledger, with what is
forgotten behind it. The rows are made up, and no data file is written. The *Kafka sink* has a participant in each
batch; its ledger is also measured on a command log, which is how it lies in a topic. The *embedded sink* appends a
block, and settles the batch before. 100,000 batches are really written. For 1,000,000, a ledger that has 10,000
batches is moved ahead, and the last 2,000 are written, which replace all that is below it. The runs on disk, and those
of the embedded sink, end at 10,000 batches: their costs do not grow any more then."""

MERGED = """\
every 32nd batch reads the extents of the newest 1,000 batches, to merge older ones. So the cost grows until there are \
so many, and then stays."""
KEPT = "the extents of the newest 1,000 batches are kept for readers of whole batches, and not one more."
TAIL = """\
the newest entries of a partition are a znode each. When there are 256, they are rolled into an index file, and their \
room is used again."""
REPLAYED = """\
a command log is trimmed up to the last snapshot but one, and there is a snapshot after every 5,000 entries. So who \
opens it replays at most 10,000 entries."""

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
MOST = 100_000
"""Batches that a query really writes, in memory; on disk it is fewer."""

MOVED_FROM, WRITTEN_BEHIND = 10_000, 2_000
"""Of a query with more: batches that are written before some are left out, and behind those. The latter are more than
those whose extents are kept."""

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
    "embedded sink, znodes there": TAIL,
    "embedded sink, SQLite": TAIL,
    "embedded sink, SQLite file": TAIL,
    "Kafka sink, command log's size": REPLAYED,
    "Kafka sink, open a command log": REPLAYED,
}


class MemoryCommandLog:
    """A command log in memory, which forgets what is trimmed. Its time is that of its entries, a second apart."""

    foreign = 0

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


class Query:
    """A query that has written some batches to a store that counts.

    Args:
        store: with the znodes of its ledger.
        write: writes its batch of a number.
    """

    def __init__(self, store: CountedStore, write: WriteBatch) -> None:
        self.store = store
        self._write = write
        self._batches = 0

    def write(self) -> None:
        """Write the next batch."""
        self._write(self._batches)
        self._batches += 1

    def grow(self, batches: int) -> None:
        """Write its batches up to a number; more than `MOST` are not all written."""
        if batches > MOST:
            self.grow(MOVED_FROM)
            self._batches = batches - WRITTEN_BEHIND
            _move_ahead(self.store, self._batches)
        while self._batches < batches:
            self.write()


def _move_ahead(store: ZnodeStore, batches: int) -> None:
    """Move the ledger ahead, as if the sink had written so many batches."""

    def step(view: ZnodeView) -> None:
        found = KAFKA_LEDGERS.require(view, "sink")
        if found.last is None:
            raise RuntimeError("no batch was written")
        last = replace(found.last, batch_id=batches - 1, round=batches)
        KAFKA_LEDGERS.put(view, "sink", replace(found, current_round=batches, last=last))

    store.transact(step)


def kafka_query(uncounted: ZnodeStore) -> Query:
    """A query with a Kafka sink, each of whose batches has the rows of one task in one partition."""
    store = CountedStore(uncounted)
    metadata.checked_store(store, None, None, create=True)
    lease: int | None = None
    target = TopicIdPartition("t", "id", 0)

    def write(number: int) -> None:
        nonlocal lease
        steps = Ledger(store, BatchRequest("sink", "query", "t", "run", number, str(number)))
        (opened,) = run_steps(store, [lambda: steps.plan(lease=lease, buckets=None, take=lambda _: None)])
        if opened is None:
            raise RuntimeError("the batch was there before")
        lease = opened.record.lease
        participant = Participant(f"sink-0-{lease}.0.0", 0, 7, number % 30_000, 2, 10, 17, "out")
        written = {target: Extent(11 * number, 11 * number + 9)}
        run_steps(store, [lambda: steps.decide(opened, [participant], written)])
        ledger.complete(store, "sink", opened.number)
        steps.forget_old_rounds()
        steps.merge_old_extents(opened.number)

    return Query(store, write)


def embedded_query(uncounted: ZnodeStore, folder: Path) -> Query:
    """A query with an embedded sink, each of whose batches has one block in one partition; no data file is written."""
    store = CountedStore(uncounted)
    clock = SteppedClock()
    log = runtime.open_with(str(folder), None, store, file_store(str(folder)), clock)
    log.create_topic("t")
    (partition,) = topics.partitions_of(store, "t")
    services, upkeep = log.services.new_round_services(), Upkeep(log.services)
    block = Block("data/00000001-made-up.avro", 0, 99, 0, 10, 1, 2)

    def write(number: int) -> None:
        steps = BatchSteps(EMBEDDED, store, BatchRequest("sink", "query", "t", "run", number, str(number)))
        planned: list[Round | None] = []
        run_steps(store, [lambda: rounds.plan(services, steps, planned.append)])
        (opened,) = planned
        if opened is None:
            raise RuntimeError("the batch was there before")
        opened.write({partition: [block]})
        run_steps(store, [opened.decide])
        clock.sleep_ms(1_000)
        upkeep.after_writing([partition])
        rounds.forget_old_rounds(store, "sink")

    return Query(store, write)


def run(folder: Path, *, quick: bool) -> list[Operation]:
    """Measure both sinks on each store."""
    curve, sizes = Curve(REASONS), SIZES[:2] if quick else SIZES
    in_memory = {size: kafka_query(MemoryZnodeStore()) for size in sizes}
    _measure(curve, "Kafka sink, in memory", in_memory)
    for size, query in in_memory.items():
        curve.add(size, "Kafka sink, znodes there", {NUMBER: _znodes(query.store)})
    for size in sizes:
        curve.add(size, "offset in the checkpoint", {BYTES: _offset_bytes(size)})
    shorter = sizes[: SIZES.index(MOST)]
    files = {size: folder / f"kafka-{size}.db" for size in shorter}
    _on_sqlite(curve, "Kafka sink", files, {size: kafka_query(SqliteZnodeStore(file)) for size, file in files.items()})
    _on_command_log(curve, shorter)
    embedded = {size: embedded_query(MemoryZnodeStore(), folder / f"memory-{size}") for size in shorter}
    _measure(curve, "embedded sink, in memory", embedded)
    for size, query in embedded.items():
        curve.add(size, "embedded sink, znodes there", {NUMBER: _znodes(query.store)})
    files = {size: folder / f"log-{size}.db" for size in shorter}
    embedded = {size: embedded_query(SqliteZnodeStore(file), file.with_suffix("")) for size, file in files.items()}
    _on_sqlite(curve, "embedded sink", files, embedded)
    return curve.operations


def _measure(curve: Curve, name: str, queries: Mapping[int, Query]) -> None:
    """Measure the next batches of queries, each of which has written so many."""
    for size, query in queries.items():
        query.grow(size)
    rounds_of = {size: min(ROUND, size // 8) for size in queries}
    probes = {size: Probe(query.write, query.store, each=rounds_of[size]) for size, query in queries.items()}
    curve.measure({size: {name: probe} for size, probe in probes.items()})


def _on_sqlite(curve: Curve, sink: str, files: Mapping[int, Path], queries: Mapping[int, Query]) -> None:
    _measure(curve, f"{sink}, SQLite", queries)
    for size, query in queries.items():
        query.store.close()
        curve.add(size, f"{sink}, SQLite file", {KILOBYTES: files[size].stat().st_size / 1000})


def _on_command_log(curve: Curve, sizes: Sequence[int]) -> None:
    logs = {size: MemoryCommandLog() for size in sizes}

    def opened(size: int) -> ReplicatedZnodeStore:
        return ReplicatedZnodeStore(lambda: logs[size], recent_ms=limits.RECENT_MS)

    _measure(curve, "Kafka sink, command log", {size: kafka_query(opened(size)) for size in sizes})
    for size, log in logs.items():
        curve.add(size, "Kafka sink, command log's size", {KILOBYTES: log.size_bytes / 1000})
    openings = {size: Probe(partial(opened, size), each=1) for size in sizes}
    curve.measure({size: {"Kafka sink, open a command log": probe} for size, probe in openings.items()})


def _znodes(store: ZnodeStore) -> int:
    return sum(1 for _ in walking.walk(store, "/"))


def _offset_bytes(batches: int) -> int:
    """The size of the query's offset in its checkpoint, with ten rows in each batch."""
    offset = SourceOffset(random_id(), None, {"t": TopicOffsets(random_id(), {0: 10 * batches})})
    return len(json.dumps(offset.to_dict()))
