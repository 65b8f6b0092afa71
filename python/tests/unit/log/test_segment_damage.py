"""Damage of data files, by enumeration: every one ends in an error that names the file, never in a wrong row."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from oncelog.errors import CorruptDataError, OncelogError, UnsupportedFormatError
from oncelog.log import codec, columns
from oncelog.log.codec import Place
from oncelog.log.files import LocalFileStore
from oncelog.log.segment import SegmentWriter, read_block, scan_file
from oncelog.types import Block
from tests.unit.log.batches import Row, batch_of, rows_of

ROWS: list[Row] = [
    (b"k1", b"text " * 10, [("trace", b"\x00\xff"), ("empty", b"")], 1_700_000_000_000),
    (None, b"", None, 1_700_000_000_007),
    (b"", None, [], 1_699_999_999_000),
    (b"k4", b"text " * 8, [("größe", None)], 1_700_000_070_000),
]
FLIPS = (0x01, 0x80)
"""The lowest bit, and the one by which Avro continues a number."""


@pytest.fixture
def files(tmp_path: Path) -> LocalFileStore:
    return LocalFileStore(tmp_path)


@pytest.fixture(params=codec.CODECS)
def block(request: pytest.FixtureRequest, files: LocalFileStore) -> Block:
    """The second of three blocks of a file."""
    writer = SegmentWriter(files, "data/00000001-", codec=request.param)
    _, second, _ = (writer.append(batch_of(rows))[0] for rows in (ROWS[:2], ROWS, ROWS[2:]))
    writer.finish()
    return second


def content(files: LocalFileStore, name: str) -> bytes:
    return files.read(name, 0, files.size(name))


def read_or_refusal(files: LocalFileStore, block: Block) -> pa.RecordBatch | OncelogError:
    try:
        return read_block(files, block)
    except (CorruptDataError, UnsupportedFormatError) as error:
        return error


def flipped(data: bytes, start: int, end: int) -> Iterator[bytes]:
    for at in range(start, end):
        for pattern in FLIPS:
            yield data[:at] + bytes([data[at] ^ pattern]) + data[at + 1 :]


def test_every_flipped_byte_of_a_block_is_found(files: LocalFileStore, tmp_path: Path, block: Block) -> None:
    data = content(files, block.file)

    for damaged in flipped(data, block.position, block.position + block.length):
        (tmp_path / block.file).write_bytes(damaged)
        with pytest.raises(CorruptDataError) as caught:
            read_block(files, block)
        assert caught.value.fields["file"] == block.file
        assert caught.value.fields["position"] == block.position
        assert caught.value.fields["differs"] == "crc32"


def test_every_truncation_within_a_block_or_before_is_found(
    files: LocalFileStore, tmp_path: Path, block: Block
) -> None:
    data = content(files, block.file)

    for length in [0, 1, *range(block.position - 1, block.position + block.length)]:
        (tmp_path / block.file).write_bytes(data[:length])
        with pytest.raises(CorruptDataError, match=r"differs='length'"):
            read_block(files, block)


def test_damage_beside_a_block_does_not_concern_its_reader(files: LocalFileStore, tmp_path: Path, block: Block) -> None:
    data = content(files, block.file)
    end = block.position + block.length
    (tmp_path / block.file).write_bytes(bytes(block.position) + data[block.position : end])

    assert rows_of(read_block(files, block)) == ROWS


@pytest.mark.parametrize(
    "change",
    [
        {"count": 5},
        {"min_timestamp_ms": 0},
        {"max_timestamp_ms": 0},
        {"crc32": 0},
        {"length": 10},
        {"length": 2**60},
        {"position": 2**60},
        {"position": 0},
    ],
    ids=str,
)
def test_a_block_that_is_not_what_the_index_says_is_found(
    files: LocalFileStore, block: Block, change: dict[str, int]
) -> None:
    with pytest.raises(CorruptDataError) as caught:
        read_block(files, replace(block, **change))  # type: ignore[arg-type]

    fields = caught.value.fields
    assert fields["file"] == block.file
    assert fields["expected"] != fields["found"]
    assert fields["differs"] in {*change, "length", "crc32"}


def test_bytes_that_were_never_a_block_are_refused_even_under_their_own_crc(
    files: LocalFileStore, tmp_path: Path, block: Block
) -> None:
    # Nobody flips a byte and mends the CRC; but a reader that survives this one survives every file.
    data = content(files, block.file)
    start, end = block.position, block.position + block.length

    refused = 0
    for damaged in flipped(data, start, end - codec.SYNC_BYTES):
        (tmp_path / block.file).write_bytes(damaged)
        result = read_or_refusal(files, replace(block, crc32=zlib.crc32(damaged[start:end])))
        if isinstance(result, OncelogError):
            assert result.fields["file"] == block.file
            refused += 1
        else:
            assert result.num_rows == block.count
            for column in ("key", "value", "timestamp_ms"):  # every offset stays within its buffer
                result.column(column).validate(full=True)
    assert refused > 50


@pytest.mark.slow
def test_a_scan_survives_every_flipped_byte_of_a_block(files: LocalFileStore, tmp_path: Path, block: Block) -> None:
    data = content(files, block.file)

    for damaged in flipped(data, block.position, block.position + block.length):
        (tmp_path / block.file).write_bytes(damaged)
        # What is neither refused nor complete is a bug; damage within a value is for the index's CRC-32 to find.
        with suppress(CorruptDataError, UnsupportedFormatError):
            assert len(list(scan_file(files, block.file))) == 3


def test_a_scan_finds_every_damage_of_sync_markers_and_of_the_header_that_matters(
    files: LocalFileStore, tmp_path: Path, block: Block
) -> None:
    data = content(files, block.file)
    header_length = codec.read_data_header(data, block.file).length
    places = [
        (0, 4),
        (header_length - codec.SYNC_BYTES, header_length),
        (block.position + block.length - codec.SYNC_BYTES, block.position + block.length),
    ]

    for start, end in places:
        for damaged in flipped(data, start, end):
            (tmp_path / block.file).write_bytes(damaged)
            with pytest.raises(CorruptDataError, match=block.file):
                list(scan_file(files, block.file))


def test_a_scan_gives_the_blocks_before_the_damage_and_then_says_where_it_is(
    files: LocalFileStore, tmp_path: Path, block: Block
) -> None:
    data = content(files, block.file)

    for length in range(block.position + 1, block.position + block.length):
        (tmp_path / block.file).write_bytes(data[:length])
        scan = scan_file(files, block.file)
        assert rows_of(next(scan).records) == ROWS[:2]
        with pytest.raises(CorruptDataError) as caught:
            next(scan)
        assert caught.value.fields["position"] == block.position


def test_a_file_that_is_no_data_file_is_refused(files: LocalFileStore, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for data in [b"", b"Obj\x01", b"PAR1" * 100, b'{"json": true}']:
        (tmp_path / "data/x").write_bytes(data)
        with pytest.raises(CorruptDataError, match="data/x"):
            list(scan_file(files, "data/x"))


def test_a_newer_layout_asks_for_an_upgrade(
    files: LocalFileStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sync_marker = codec.new_sync_marker()
    with monkeypatch.context() as newer:
        newer.setattr(columns, "FORMAT_VERSION", 2)
        place = Place("data/x", len(codec.file_header(sync_marker)))
        parts, block = codec.encode_block(batch_of(ROWS), "zstd", sync_marker, place)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/x").write_bytes(codec.file_header(sync_marker) + b"".join(parts))

    for read in (lambda: read_block(files, block), lambda: next(scan_file(files, "data/x"))):
        with pytest.raises(UnsupportedFormatError) as caught:
            read()
        assert caught.value.fields == {"file": "data/x", "position": place.position, "version": 2, "known": 1}


def test_a_newer_header_asks_for_an_upgrade(files: LocalFileStore, tmp_path: Path) -> None:
    header = codec.file_header(codec.new_sync_marker()).replace(b"oncelog.version\x021", b"oncelog.version\x022")
    (tmp_path / "data").mkdir()
    (tmp_path / "data/x").write_bytes(header)

    with pytest.raises(UnsupportedFormatError, match="version=2"):
        list(scan_file(files, "data/x"))
