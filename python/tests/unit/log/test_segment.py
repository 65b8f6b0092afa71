"""Writing data files: cutting into blocks, rolling, gathering small batches; and reading blocks back."""

from __future__ import annotations

import resource
from pathlib import Path

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from oncelog import limits
from oncelog.errors import DataLossError, FileWriteError, InvalidOptionError, InvariantViolation
from oncelog.log import codec
from oncelog.log.files import LocalFileStore
from oncelog.log.segment import BlockBuffer, SegmentWriter, read_block, scan_file
from oncelog.types import Block
from tests.unit.log.batches import EVERYTHING, batch_of, rows_of, values_batch

PREFIX = "data/00000007-"
KIB = 1024


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def files(root: Path) -> LocalFileStore:
    return LocalFileStore(root)


def names(files: LocalFileStore) -> list[str]:
    return [name for name, _, _ in files.names("data")]


def numbered(count: int, size: int = 100) -> pa.RecordBatch:
    return values_batch([b"%0*d" % (size, number) for number in range(count)])


def values_of(files: LocalFileStore, blocks: list[Block]) -> list[bytes]:
    return [value for block in blocks for value in read_block(files, block).column("value").to_pylist()]


# Writing -------------------------------------------------------------------------------------------------------------


def test_blocks_that_were_written_are_read_back(files: LocalFileStore) -> None:
    writer = SegmentWriter(files, PREFIX)
    blocks = writer.append(batch_of(EVERYTHING)) + writer.append(batch_of(EVERYTHING[1:3]))
    writer.finish()

    assert [rows_of(read_block(files, block)) for block in blocks] == [EVERYTHING, EVERYTHING[1:3]]
    assert read_block(files, blocks[0], ["value"]).equals(batch_of(EVERYTHING).select(["value"]))


def test_a_block_says_where_it_is_and_what_is_in_it(files: LocalFileStore) -> None:
    writer = SegmentWriter(files, PREFIX)
    first, second = writer.append(batch_of(EVERYTHING)) + writer.append(numbered(5))
    writer.finish()

    assert first.file == second.file
    assert first.position + first.length == second.position
    assert second.position + second.length == files.size(first.file)
    assert (first.count, first.min_timestamp_ms, first.max_timestamp_ms) == (4, 1_699_999_999_000, 1_700_000_070_000)
    assert (second.count, second.min_timestamp_ms, second.max_timestamp_ms) == (5, 0, 0)


def test_a_file_is_named_by_the_prefix_and_a_random_id(files: LocalFileStore) -> None:
    for _ in range(3):
        writer = SegmentWriter(files, PREFIX)
        writer.append(numbered(1))
        writer.finish()

    assert len(set(names(files))) == 3
    for name in names(files):
        assert name.startswith(PREFIX)
        assert name.endswith(".avro")
        assert len(name) == len(PREFIX) + 32 + len(".avro")


def test_no_file_is_created_before_the_first_record(files: LocalFileStore, root: Path) -> None:
    writer = SegmentWriter(files, PREFIX)
    assert writer.append(numbered(0)) == []
    writer.finish()

    assert not root.exists()


def test_a_large_batch_is_cut_into_blocks_of_about_equal_size(files: LocalFileStore) -> None:
    batch = numbered(10_000)
    writer = SegmentWriter(files, PREFIX, codec="null", block_target_bytes=100 * KIB)

    blocks = writer.append(batch)
    writer.finish()

    counts = [block.count for block in blocks]
    assert len(blocks) == round(10_000 * 116 / (100 * KIB))
    assert sum(counts) == 10_000
    assert max(counts) - min(counts) <= 1
    assert values_of(files, blocks) == batch.column("value").to_pylist()


def test_a_record_larger_than_the_target_is_a_block_of_its_own(files: LocalFileStore) -> None:
    values = [b"a", b"x" * (300 * KIB), b"b", b"y" * (300 * KIB), b"c"]
    writer = SegmentWriter(files, PREFIX, block_target_bytes=100 * KIB)

    blocks = writer.append(values_batch(values))
    writer.finish()

    assert values_of(files, blocks) == values
    assert max(block.count for block in blocks) <= 3


def test_a_writer_rolls_to_a_new_file_and_a_block_never_spans_two(files: LocalFileStore) -> None:
    writer = SegmentWriter(files, PREFIX, codec="null", block_target_bytes=100 * KIB, roll_bytes=300 * KIB)
    blocks = [block for _ in range(10) for block in writer.append(numbered(800))]
    writer.finish()

    by_file = {
        name: [block for block in blocks if block.file == name] for name in dict.fromkeys(b.file for b in blocks)
    }
    assert sorted(by_file) == sorted(names(files))
    for name, own in by_file.items():
        assert own[-1].position + own[-1].length == files.size(name)
        assert own[-1].position < 300 * KIB
    assert len(by_file) == 3
    assert values_of(files, blocks) == numbered(800).column("value").to_pylist() * 10


def test_discarding_removes_every_file_of_the_writer_and_no_other(files: LocalFileStore) -> None:
    kept = SegmentWriter(files, PREFIX)
    kept.append(numbered(1))
    kept.finish()
    before = names(files)
    writer = SegmentWriter(files, PREFIX, roll_bytes=1)
    for _ in range(3):
        writer.append(numbered(1))
    assert len(names(files)) == 4

    writer.discard()
    writer.discard()

    assert names(files) == before


def test_a_writer_that_was_finished_or_discarded_takes_no_more(files: LocalFileStore) -> None:
    finished, discarded = SegmentWriter(files, PREFIX), SegmentWriter(files, PREFIX)
    finished.finish()
    discarded.discard()

    for writer in [finished, discarded]:
        with pytest.raises(InvariantViolation):
            writer.append(numbered(1))
        with pytest.raises(InvariantViolation):
            writer.finish()


def test_a_write_that_fails_discards_every_file_of_the_writer(files: LocalFileStore) -> None:
    writer = SegmentWriter(files, PREFIX, codec="null", block_target_bytes=10 * KIB, roll_bytes=20 * KIB)
    writer.append(numbered(1000))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (files.size(names(files)[-1]) + KIB, hard))
    try:
        with pytest.raises(FileWriteError, match="File too large"):
            writer.append(values_batch([b"x" * 100 * KIB]))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    assert names(files) == []
    with pytest.raises(InvariantViolation):
        writer.append(numbered(1))


def test_an_unknown_codec_is_refused_before_anything_is_written(files: LocalFileStore, root: Path) -> None:
    with pytest.raises(InvalidOptionError, match="gzip"):
        SegmentWriter(files, PREFIX, codec="gzip")
    assert not root.exists()


def test_blocks_are_small_enough_to_be_held_in_memory(files: LocalFileStore) -> None:
    for target in [0, limits.MAX_RECORD_BYTES + 1]:
        with pytest.raises(InvariantViolation):
            SegmentWriter(files, PREFIX, block_target_bytes=target)


# Whole files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec_name", codec.CODECS)
def test_a_scan_finds_every_block_without_the_index(files: LocalFileStore, codec_name: str) -> None:
    writer = SegmentWriter(files, PREFIX, codec=codec_name, block_target_bytes=10 * KIB)
    blocks = writer.append(numbered(1000)) + writer.append(batch_of(EVERYTHING))
    writer.finish()

    found = list(scan_file(files, blocks[0].file))

    assert [(each.position, each.length, each.crc32) for each in found] == [
        (block.position, block.length, block.crc32) for block in blocks
    ]
    assert all(each.records.equals(read_block(files, block)) for each, block in zip(found, blocks, strict=True))


def test_any_avro_reader_reads_a_whole_data_file(files: LocalFileStore, root: Path) -> None:
    writer = SegmentWriter(files, PREFIX)
    blocks = writer.append(batch_of(EVERYTHING)) + writer.append(numbered(7))
    writer.finish()

    with (root / blocks[0].file).open("rb") as file:
        found = [(batch["version"], batch["count"], batch["compression"]) for batch in fastavro.reader(file)]  # type: ignore[call-overload,index]

    assert found == [(1, 4, "zstd"), (1, 7, "zstd")]


def test_sync_markers_of_two_files_differ(files: LocalFileStore) -> None:
    writer = SegmentWriter(files, PREFIX, roll_bytes=1)
    blocks = [*writer.append(numbered(1)), *writer.append(numbered(1))]
    writer.finish()

    ends = {files.read(block.file, block.position + block.length - 16, 16) for block in blocks}
    assert len(ends) == 2


def test_a_scan_of_a_missing_file_says_so(files: LocalFileStore) -> None:
    with pytest.raises(FileNotFoundError):
        list(scan_file(files, "data/missing"))


def test_a_block_whose_file_is_gone_is_data_loss_that_names_it(files: LocalFileStore) -> None:
    writer = SegmentWriter(files, PREFIX)
    (block,) = writer.append(numbered(3))
    writer.finish()
    files.delete(block.file)

    with pytest.raises(DataLossError) as caught:
        read_block(files, block)
    assert caught.value.fields == {"file": block.file, "position": block.position, "records": 3}


# Gathering -----------------------------------------------------------------------------------------------------------


def test_small_batches_of_a_key_become_one_block_in_their_order(files: LocalFileStore) -> None:
    writer = SegmentWriter(files, PREFIX)
    buffer: BlockBuffer[str] = BlockBuffer(writer)
    batch = numbered(300)
    for at in range(300):
        assert buffer.append("ab"[at % 2], batch.slice(at, 1)) == []

    written = dict(buffer.flush())
    writer.finish()

    values = batch.column("value").to_pylist()
    assert values_of(files, [written["a"]]) == values[::2]
    assert values_of(files, [written["b"]]) == values[1::2]
    assert buffer.flush() == []


def test_a_key_that_reaches_the_target_is_written_and_the_others_wait(files: LocalFileStore) -> None:
    writer = SegmentWriter(files, PREFIX, block_target_bytes=100 * KIB)
    buffer: BlockBuffer[int] = BlockBuffer(writer)
    buffer.append(1, numbered(10))
    written = [done for _ in range(12) for done in buffer.append(2, numbered(100))]

    assert [key for key, _ in written] == [2]
    assert sorted({key for key, _ in buffer.flush()}) == [1, 2]
    writer.discard()


def test_a_batch_of_the_target_is_written_after_what_waited_for_it(files: LocalFileStore) -> None:
    writer = SegmentWriter(files, PREFIX, block_target_bytes=10 * KIB)
    buffer: BlockBuffer[str] = BlockBuffer(writer)
    buffer.append("a", values_batch([b"first"]))

    written = buffer.append("a", numbered(1000))
    writer.finish()

    values = values_of(files, [block for _, block in written])
    assert values == [b"first", *numbered(1000).column("value").to_pylist()]


def test_beyond_the_budget_the_fullest_key_is_written_first(files: LocalFileStore) -> None:
    writer = SegmentWriter(files, PREFIX)
    buffer: BlockBuffer[str] = BlockBuffer(writer, budget_bytes=100 * KIB)
    buffer.append("little", numbered(100))
    buffer.append("much", numbered(500))

    written = buffer.append("little", numbered(300))

    assert [(key, block.count) for key, block in written] == [("much", 500)]
    writer.discard()


@pytest.mark.slow
def test_memory_stays_flat_however_many_keys_and_rows_there_are(files: LocalFileStore) -> None:
    budget_bytes = 4 * 1024 * KIB
    writer = SegmentWriter(files, PREFIX)
    buffer: BlockBuffer[int] = BlockBuffer(writer, budget_bytes=budget_bytes)
    rng = np.random.default_rng(1)
    before, highest = pa.total_allocated_bytes(), 0
    blocks = 0
    for _ in range(20):
        batch = values_batch([rng.bytes(1000) for _ in range(1000)])
        # Slices: each keeps the whole batch in memory, unless it is copied.
        for key in range(100):
            blocks += len(buffer.append(key, batch.slice(key * 10, 10)))
        del batch
        highest = max(highest, pa.total_allocated_bytes() - before)
    blocks += len(buffer.flush())
    writer.discard()

    assert highest < 1.5 * budget_bytes + 1000 * 1000
    assert blocks <= 20 * 100 / 4


def test_an_empty_batch_is_no_block(files: LocalFileStore, root: Path) -> None:
    writer = SegmentWriter(files, PREFIX)
    buffer: BlockBuffer[str] = BlockBuffer(writer)

    assert buffer.append("a", numbered(0)) == []
    assert buffer.flush() == []
    assert not root.exists()
