"""The index over rolls: transactions that span files, aborted ranges over leaves and parents, long histories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from oncelog import limits
from oncelog.clients.producer import Producer
from oncelog.errors import CorruptDataError, DataLossError
from oncelog.log import index, partition_log, partition_reads, snapshot
from oncelog.log.index_files import IndexFiles
from oncelog.protocol.partition import IndexEntry, IndexRef, Marker, TailNode
from oncelog.runtime import Log
from oncelog.types import Block, IsolationLevel, Outcome, ProducerIdAndEpoch
from oncelog.znodes import paths, payloads
from tests.support.log.faulty import InterruptedStore
from tests.support.log.logs import (
    TOPIC,
    LogWorld,
    MemoryFiles,
    log_world,
    numbered,
    partition,
    send,
    started,
    state,
    tp,
    uncommitted,
    values,
    write_aborted,
    write_committed,
    write_open,
)

COMMITTED = IsolationLevel.READ_COMMITTED


@pytest.fixture(autouse=True)
def _small_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TAIL_MAX_ENTRIES", 4)
    monkeypatch.setattr(limits, "INDEX_FANOUT", 3)


def levels(log: Log) -> list[int]:
    return [ref.level for ref in state(log).roots]


def spanning(producer: Producer, name: str, batches: int) -> list[bytes]:
    """A transaction of many appends, left open."""
    producer.begin_transaction()
    sent = numbered(name, batches)
    for value in sent:
        send(producer, value)
    return sent


# Spans over files -----------------------------------------------------------------------------------------------------


def test_rolling_keeps_every_offset_and_lists_few_roots(log: Log) -> None:
    """conformance: 29."""
    with log.producer() as producer:
        for value in numbered("a", 100):
            send(producer, value)

    assert values(log) == numbered("a", 100)
    assert max(levels(log)) >= 2
    assert len(state(log).roots) <= 2 * (max(levels(log)) + 1)
    assert state(log).tail_nodes < limits.TAIL_MAX_ENTRIES


@pytest.mark.parametrize("is_settled", [False, True])
@pytest.mark.parametrize("is_committed", [False, True])
def test_a_transaction_that_spans_index_files_is_shown_whole_or_not_at_all(
    world: LogWorld, *, is_committed: bool, is_settled: bool
) -> None:
    """conformance: 29."""
    producer, other = started(world.log), started(world.log, "other")
    write_committed(other, b"before")
    sent = spanning(producer, "spanning", 40)
    assert values(world.log) == [b"before"]
    write_committed(other, b"after")
    if is_committed:
        producer.commit_transaction()
    else:
        producer.abort_transaction()
    if is_settled:
        world.settle()

    assert values(world.log) == [b"before", *(sent if is_committed else []), b"after"]
    assert max(levels(world.log)) >= 1


@pytest.mark.parametrize("is_settled", [False, True])
def test_a_read_from_anywhere_leaves_out_an_aborted_transaction_whose_marker_lies_files_away(
    tmp_path: Path, *, is_settled: bool
) -> None:
    """conformance: 29, 38."""
    with log_world(tmp_path) as world:
        world.log.create_topic(TOPIC)
        producer, other = started(world.log), started(world.log, "other")
        spanning(producer, "aborted", 10)
        kept = []
        for at in range(30):
            write_committed(other, b"kept-%d" % at)
            kept.append((state(world.log).log_end - 1, b"kept-%d" % at))
            if at == 15:
                send(producer, b"aborted too")
        producer.abort_transaction()
        if is_settled:
            world.settle()
        end = state(world.log).log_end
        assert max(levels(world.log)) >= 1

        for start in range(end + 1):
            expected = [value for offset, value in kept if offset >= start]
            assert values(world.log, starts={tp(): start}) == expected, start


def test_every_range_of_a_long_mixed_history_shows_what_a_scan_of_it_shows(tmp_path: Path) -> None:
    """conformance: 29, 38, 40."""
    with log_world(tmp_path) as world:
        world.log.create_topic(TOPIC)
        truth: dict[int, bytes] = {}
        producers = [started(world.log, f"copier-{at}") for at in range(3)]
        opened: list[list[tuple[int, bytes]]] = [[], [], []]
        for at in range(90):
            which = (at * 7 + at // 5) % 3
            producer, written = producers[which], opened[which]
            if not written:
                producer.begin_transaction()
            value = b"value-%d" % at
            written.append((send(producer, value)[0], value))
            if at % 4 == 3:
                if at % 8 == 3:
                    producer.commit_transaction()
                    truth.update(written)
                else:
                    producer.abort_transaction()
                written.clear()
            if at % 11 == 0:
                world.settle()
        for producer in producers:
            producer.close()
        world.settle()
        end = state(world.log).log_end
        files = world.log.services.new_index_files()

        for start in range(0, end, 3):
            for stop in range(start, end + 1, 7):
                found = snapshot.visible_range(
                    world.log.services.store, files, partition(world.log), start, stop, COMMITTED
                )
                offsets = [
                    piece.base_offset + row for piece in found.slices for row in range(piece.first_row, piece.end_row)
                ]
                assert offsets == [offset for offset in sorted(truth) if start <= offset < stop]
                assert found.end == max(start, stop)
        assert values(world.log) == [truth[offset] for offset in sorted(truth)]


# Crashes and races ----------------------------------------------------------------------------------------------------


def test_two_processes_that_roll_at_once_leave_one_index(world: LogWorld) -> None:
    """conformance: 29."""
    with world.log.producer() as producer:
        for value in numbered("a", 3):
            send(producer, value)
    where = partition(world.log)
    rival = world.open().services
    store = InterruptedStore(world.store(), lambda: partition_log.roll(rival.store, rival.new_index_files(), where))
    services = world.open(store).services
    store.interrupt()

    assert not partition_log.roll(services.store, services.new_index_files(), where)
    assert store.has_struck
    assert (len(state(world.log).roots), state(world.log).tail_nodes) == (1, 0)
    assert values(world.log) == numbered("a", 3)


def test_an_append_between_the_reads_and_the_write_of_a_roll_stays_in_the_tail(world: LogWorld) -> None:
    """conformance: 29."""
    with world.log.producer() as producer:
        for value in numbered("a", 2):
            send(producer, value)
        store = InterruptedStore(world.store(), lambda: send(producer, b"between"))
        services = world.open(store).services
        store.interrupt()
        assert partition_log.roll(services.store, services.new_index_files(), partition(world.log))

    assert state(world.log).tail_nodes == 1
    assert values(world.log) == [*numbered("a", 2), b"between"]


def test_a_hole_in_the_index_or_a_missing_index_file_is_an_error_and_never_no_rows(tmp_path: Path) -> None:
    """conformance: 26, 30, 40."""
    for damage in ("tail", "file", "truncated", "flipped"):
        with log_world(tmp_path / damage, "sqlite") as world:
            world.is_checked = False
            log = world.log
            log.create_topic(TOPIC)
            with log.producer() as producer:
                for value in numbered("a", 6):
                    send(producer, value)
            store, where = log.services.store, partition(log)
            if damage == "tail":
                path = f"{paths.tail(where)}/{store.children(paths.tail(where))[0]}"
                store.transact(lambda view, path=path: view.delete(path))  # type: ignore[misc]
            else:
                file = tmp_path / damage / state(log).roots[0].file
                content = file.read_bytes()
                if damage == "file":
                    file.unlink()
                elif damage == "truncated":
                    file.write_bytes(content[:-9])
                else:
                    file.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])

            with pytest.raises((CorruptDataError, DataLossError)) as raised:
                values(log)
            expected = "missing_offset=4" if damage == "tail" else state(log).roots[0].file
            assert expected in str(raised.value)


def test_stray_files_beside_the_log_disturb_nobody(tmp_path: Path) -> None:
    """conformance: 26."""
    with log_world(tmp_path, "sqlite") as world:
        world.log.create_topic(TOPIC)
        with world.log.producer() as producer:
            for value in numbered("a", 9):
                send(producer, value)
        for folder in ("data", "index", "manifests"):
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / "README.txt").write_text("not ours")
            (tmp_path / folder / "00000001-empty.avro").touch()

        assert values(world.log) == numbered("a", 9)
        world.log.admin.collect()
        assert (tmp_path / "data" / "README.txt").exists()


# Long histories -------------------------------------------------------------------------------------------------------

ENTRIES = 100_000
OPEN_FOR = 1_000
"""One transaction in a hundred stays open for this many entries before it is aborted."""


class History:
    """An index of a hundred thousand entries over in-memory files, which counts what is read of it."""

    def __init__(self) -> None:
        self.files = CountedFiles()
        self.end = 0
        self.roots: tuple[IndexRef, ...] = ()
        numbers = count()
        entries = self._entries()
        writer = IndexFiles(self.files)
        while chunk := [entry for _, entry in zip(range(2 * 256), entries, strict=False)]:
            node = TailNode(chunk[0].base_offset, chunk[-1].end_offset, 0, 0, 0, tuple(chunk))
            self.roots = index.rolled(writer, self.roots, [node], lambda: f"index/{next(numbers)}")
        self.index = index.PartitionIndex(self.roots, ())

    def _entries(self) -> Iterator[IndexEntry]:
        for at in range(ENTRIES):
            producer = ProducerIdAndEpoch(at % 97, at)
            owner = f"/transactions/a/{producer}"
            if at % 100 == 99 and at >= OPEN_FOR:
                first = at - OPEN_FOR
                marker = Marker(Outcome.ABORT, first, (ProducerIdAndEpoch(first % 97, first),))
                yield IndexEntry(at, 1, producer, -1, owner, None, marker)
            else:
                yield IndexEntry(at, 1, producer, 0, owner, Block("data/1-a", 0, 1, 0, 1, at, at), None)

    def reads_of(self, start: int, end: int) -> int:
        """Files read by one lookup of a range that nothing was cached for."""
        self.files.reads = 0
        fresh = IndexFiles(self.files)
        assert len(list(self.index.entries(fresh, start, end))) == end - start
        expected = {
            at for at in range(ENTRIES) if at % 100 == 99 and at >= max(start, OPEN_FOR) and at - OPEN_FOR < end
        }
        assert {marker.base_offset for marker in self.index.aborting_markers(fresh, start, end)} == expected
        return self.files.reads


class CountedFiles(MemoryFiles):
    reads = 0

    def read(self, name: str, position: int, length: int) -> bytes:
        self.reads += 1
        return super().read(name, position, length)


@pytest.fixture(scope="module")
def history() -> Iterator[History]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(limits, "INDEX_FANOUT", 16)
        yield History()


@pytest.mark.slow
@pytest.mark.parametrize("start", [0, 1, 511, 512, 50_000, 99_487, ENTRIES - 1])
def test_a_lookup_in_a_hundred_thousand_entries_reads_a_path_of_files_and_not_the_history(
    history: History, start: int
) -> None:
    """conformance: 29."""
    depth = max(ref.level for ref in history.roots) + 1
    leaves_of_the_marker = OPEN_FOR // 512 + 2

    assert depth == 2
    assert history.reads_of(start, start + 1) <= depth + leaves_of_the_marker


@pytest.mark.slow
def test_the_roots_of_a_hundred_thousand_entries_are_few(history: History) -> None:
    """conformance: 29."""
    assert sum(ref.entries for ref in history.roots) == ENTRIES
    assert len(history.roots) <= 2 * 15


@pytest.mark.slow
def test_a_time_is_found_by_a_path_of_files_too(history: History) -> None:
    """conformance: 37."""
    for timestamp_ms, offset in ((0, 0), (70_000, 70_000), (99_998, 99_998), (99_099, 99_100)):
        history.files.reads = 0
        entry = history.index.first_entry_since(IndexFiles(history.files), timestamp_ms, 0)
        assert entry is not None
        assert entry.base_offset == offset
        assert history.files.reads <= 4
    assert history.index.first_entry_since(IndexFiles(history.files), ENTRIES, 0) is None


def test_an_append_and_a_plan_at_the_end_of_a_long_history_read_none_of_it(log: Log) -> None:
    """conformance: 29."""
    with log.producer() as producer:
        for value in numbered("a", 60):
            send(producer, value)
        world_files = log.services.files
        reads = world_files.reads  # type: ignore[attr-defined]
        reads.clear()
        send(producer, b"last")
    with log.consumer(auto_offset_reset="latest") as consumer:
        consumer.assign([tp()])
        consumer.seek(tp(), 60)

        assert [record.value for record in consumer.poll()] == [b"last"]
    assert [name for name in reads if name.startswith("index/")] == []


def test_what_is_rolled_is_what_was_there(world: LogWorld) -> None:
    """conformance: 29."""
    log = world.log
    write_aborted(started(log), b"aborted")
    write_open(started(log), b"open")
    where, store = partition(log), log.services.store
    files = log.services.new_index_files()

    def entries() -> list[IndexEntry]:
        with store.snapshot() as reader:
            seen = partition_reads.read_partition(reader, where)
            found = partition_reads.read_index(reader, where, seen)
        return list(found.entries(files, seen.log_start, seen.log_end))

    before = entries()
    assert partition_log.roll(store, files, where)
    assert entries() == before
    assert state(log).tail_nodes == 0
    assert not partition_log.roll(store, files, where)
    assert uncommitted(log) == [b"aborted", b"open"]


@pytest.mark.slow
def test_a_limited_read_of_a_large_backlog_reads_what_it_shows_and_not_the_backlog(
    history: History, tmp_path: Path
) -> None:
    """conformance: 29."""
    with log_world(tmp_path) as world:
        world.is_checked = False  # its data files are made up
        world.log.create_topic(TOPIC)
        where, store = partition(world.log), world.log.services.store
        stuffed = replace(state(world.log), log_end=ENTRIES, roots=history.roots)
        store.transact(lambda view: view.set(paths.partition(where), payloads.encode_partition(stuffed)))
        for start in (0, 40_000, 98_000):
            history.files.reads = 0
            files = IndexFiles(history.files)
            found = snapshot.visible_range(store, files, where, start, ENTRIES, COMMITTED, max_records=10)

            assert found.count == 10
            assert history.files.reads <= 3 + (snapshot.WINDOW_ENTRIES + OPEN_FOR) // 512 + 2
