"""Data files: writes record batches as blocks, and reads single blocks.

It only touches files, never znodes. Tasks write with `SegmentWriter` or `BlockBuffer`, and pass the blocks to the
process that appends them. Readers get blocks from the index. All blocks are durable once `finish` has returned.

Crash points of a writer: a crash before `finish` returns leaves only orphan files, which no znode names.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from oncelog import limits
from oncelog.crash_points import CrashPoint, reach
from oncelog.errors import CorruptDataError, DataLossError, ensure
from oncelog.log import codec as avro
from oncelog.log.codec import Place
from oncelog.log.records import RECORD_OVERHEAD_BYTES, concatenated, record_sizes
from oncelog.ports import FileStore, OutputFile
from oncelog.randomness import random_id
from oncelog.types import Block

K = TypeVar("K", bound=Hashable)

HEADER_READ_BYTES = 64 * 1024
"""Far more than the length of a data file's header."""

PIECES_MAX = 64
PIECE_OVERHEAD_BYTES = 4096
"""A buffered record batch takes memory in addition to its records; when there are many, they are joined."""


# Writing --------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _DataFile:
    name: str
    output: OutputFile
    sync_marker: bytes


class SegmentWriter:
    """Writes record batches of any partitions into new data files.

    No file is created before the first record. Any failure discards all files of the writer, and then none of its
    blocks may be used.

    Args:
        prefix: for the names of new files (`generations.prefix`).
        codec: one of `codec.CODECS`.
        block_target_bytes: batches are cut into blocks of about this size, uncompressed.
        roll_bytes: a new file begins when one has this size.
    """

    def __init__(
        self,
        files: FileStore,
        prefix: str,
        *,
        codec: str = limits.DEFAULT_CODEC,
        block_target_bytes: int = limits.BLOCK_TARGET_BYTES,
        roll_bytes: int = limits.FILE_ROLL_BYTES,
    ) -> None:
        avro.check_codec(codec)
        ensure(0 < block_target_bytes <= limits.MAX_RECORD_BYTES, "a block fits into memory", target=block_target_bytes)
        self.block_target_bytes = block_target_bytes
        self._files = files
        self._prefix = prefix
        self._codec = codec
        self._roll_bytes = roll_bytes
        self._current: _DataFile | None = None
        self._outputs: list[OutputFile] = []
        self._is_closed = False

    def append(self, records: pa.RecordBatch) -> list[Block]:
        """Write a record batch of `codec.RECORD_SCHEMA`; returns its blocks, in the order of its records.

        Raises:
            FileWriteError: a file could not be written.
        """
        ensure(not self._is_closed, "nothing is appended after finish, discard or a failure", prefix=self._prefix)
        try:
            return [self._write(piece) for piece in _pieces(records, self.block_target_bytes)]
        except BaseException:
            self.discard()
            raise

    def finish(self) -> None:
        """Make every file durable (invariant I12).

        Raises:
            FileWriteError: a file could not be made durable.
        """
        ensure(not self._is_closed, "a writer is finished once, and not after a failure", prefix=self._prefix)
        try:
            self._finish_file()
        except BaseException:
            self.discard()
            raise
        self._is_closed = True

    def discard(self) -> None:
        """Remove all files, including finished ones. Safe to call twice."""
        self._is_closed = True
        self._current = None
        for output in self._outputs:
            output.discard()

    def _write(self, records: pa.RecordBatch) -> Block:
        file = self._current = self._current or self._new_file()
        parts, block = avro.encode_block(records, self._codec, file.sync_marker, Place(file.name, file.output.position))
        for part in parts:
            file.output.write(part)
        if file.output.position >= self._roll_bytes:
            self._finish_file()
        return block

    def _new_file(self) -> _DataFile:
        name = f"{self._prefix}{random_id()}.avro"
        output = self._files.create(name)
        self._outputs.append(output)
        sync_marker = avro.new_sync_marker()
        output.write(avro.file_header(sync_marker))
        return _DataFile(name, output, sync_marker)

    def _finish_file(self) -> None:
        if self._current is not None:
            reach(CrashPoint.FILE_FINISH)
            self._current.output.finish()
            reach(CrashPoint.FILE_FINISHED)
            self._current = None


def _pieces(records: pa.RecordBatch, target_bytes: int) -> Iterator[pa.RecordBatch]:
    """Cut records into batches of about equal size, at most one and a half times the target and one record more."""
    if records.num_rows == 0:
        return
    # Arrow's own count is enough for a small batch; the sizes of single records are not needed.
    if records.nbytes <= target_bytes:
        yield records
        return
    ends = np.cumsum(record_sizes(records) + RECORD_OVERHEAD_BYTES)
    count = max(1, round(int(ends[-1]) / target_bytes))
    cuts = np.searchsorted(ends, ends[-1] * np.arange(1, count) / count)
    for start, end in zip([0, *cuts], [*cuts, records.num_rows], strict=True):
        if start < end:
            yield records.slice(start, end - start)


# Gathering ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Pending:
    """Buffered records of one key."""

    pieces: list[pa.RecordBatch] = field(default_factory=list)
    size_bytes: int = 0

    def add(self, records: pa.RecordBatch, size_bytes: int) -> None:
        if records.get_total_buffer_size() > 2 * size_bytes:
            records = concatenated([records])  # a small slice would keep its whole batch in memory
        self.pieces.append(records)
        self.size_bytes += size_bytes + PIECE_OVERHEAD_BYTES
        if len(self.pieces) >= PIECES_MAX:
            self.pieces = [concatenated(self.pieces)]
            self.size_bytes -= (PIECES_MAX - 1) * PIECE_OVERHEAD_BYTES


class BlockBuffer(Generic[K]):
    """Collects small record batches into larger blocks, by key (a partition of the log).

    It buffers at most about `budget_bytes`, however many keys there are: above that, it writes the records of the
    fullest key.

    Args:
        writer: the caller finishes or discards it.
        budget_bytes: the limit for all buffered records.
    """

    def __init__(self, writer: SegmentWriter, *, budget_bytes: int = limits.WRITER_BUFFER_BYTES) -> None:
        self._writer = writer
        self._budget_bytes = budget_bytes
        self._pending: dict[K, _Pending] = {}
        self._size_bytes = 0

    def append(self, key: K, records: pa.RecordBatch) -> list[tuple[K, Block]]:
        """Buffer records of `key`; returns the blocks that were written, which may be of other keys.

        The blocks of each key are in the order of its records.

        Raises:
            FileWriteError: a file could not be written; nothing of the writer may be used.
        """
        if records.num_rows == 0:
            return []
        size_bytes = records.nbytes
        if size_bytes >= self._writer.block_target_bytes:  # large enough for a block, so it is not copied
            return [*self._write(key), *((key, block) for block in self._writer.append(records))]
        pending = self._pending.setdefault(key, _Pending())
        before = pending.size_bytes
        pending.add(records, size_bytes)
        self._size_bytes += pending.size_bytes - before
        written = self._write(key) if pending.size_bytes >= self._writer.block_target_bytes else []
        while self._size_bytes > self._budget_bytes:
            written += self._write(max(self._pending, key=lambda other: self._pending[other].size_bytes))
        return written

    def flush(self) -> list[tuple[K, Block]]:
        """Write all buffered records; returns their blocks."""
        return [written for key in list(self._pending) for written in self._write(key)]

    def _write(self, key: K) -> list[tuple[K, Block]]:
        pending = self._pending.pop(key, None)
        if pending is None:
            return []
        self._size_bytes -= pending.size_bytes
        records = pending.pieces[0] if len(pending.pieces) == 1 else concatenated(pending.pieces)
        return [(key, block) for block in self._writer.append(records)]


# Reading --------------------------------------------------------------------------------------------------------------


class ScannedBlock(NamedTuple):
    """A block that a scan found; the CRC-32 is computed from its bytes."""

    position: int
    length: int
    crc32: int
    records: pa.RecordBatch


def read_block(files: FileStore, block: Block, columns: Sequence[str] | None = None) -> pa.RecordBatch:
    """The records of a block.

    Args:
        block: from the index.
        columns: names of the wanted columns; None for all. Others are not decompressed.

    Raises:
        DataLossError: the file is missing.
        CorruptDataError: the file does not hold what was written.
        UnsupportedFormatError: a newer oncelog wrote it.
        FileUnavailableError: the file cannot be read now.
    """
    place = Place(block.file, block.position)
    try:
        data = files.read(block.file, block.position, block.length)
    except FileNotFoundError as error:
        raise DataLossError(
            "a data file that the index names is gone; restore it from a backup", **place._asdict(), records=block.count
        ) from error
    _check_same("length", block.length, len(data), place)
    _check_same("crc32", block.crc32, zlib.crc32(data), place)
    decoded = avro.decode_block(data, place, columns)
    _check_same("count", block.count, decoded.count, place)
    _check_same("min_timestamp_ms", block.min_timestamp_ms, decoded.min_timestamp_ms, place)
    _check_same("max_timestamp_ms", block.max_timestamp_ms, decoded.max_timestamp_ms, place)
    return decoded.records


def scan_file(files: FileStore, name: str) -> Iterator[ScannedBlock]:
    """All blocks of a data file, in order, without the index.

    Only the CRC-32 in the index detects damaged bytes that can still be decoded.

    Raises:
        CorruptDataError: this is not a data file, or the next block is damaged.
        UnsupportedFormatError: a newer oncelog wrote it.
        FileNotFoundError: the file does not exist.
    """
    size = files.size(name)
    header = avro.read_data_header(files.read(name, 0, HEADER_READ_BYTES), name)
    position = header.length
    while position < size:
        place = Place(name, position)
        length = avro.block_length(files.read(name, position, avro.FRAMING_MAX_BYTES), place)
        data = files.read(name, position, length)
        _check_same("length", length, len(data), place)
        _check_same("sync_marker", header.sync_marker.hex(), data[-avro.SYNC_BYTES :].hex(), place)
        records = avro.decode_block(data, place).records
        try:
            records.validate(full=True)
        except pa.ArrowInvalid as error:
            raise CorruptDataError("a block holds impossible records", **place._asdict(), reason=str(error)) from error
        yield ScannedBlock(position, length, zlib.crc32(data), records)
        position += length


def _check_same(what: str, expected: object, found: object, place: Place) -> None:
    if expected != found:
        raise CorruptDataError(
            "a data file does not hold what was written; restore it from a backup",
            **place._asdict(),
            differs=what,
            expected=expected,
            found=found,
        )
