"""Values that repeat within a payload, as JSON arrays, which keep tail znodes small: a pair of functions for each."""

from __future__ import annotations

from typing import Any

from oncelog.protocol.partition import IndexEntry, IndexRef, Marker, OwnerSpan
from oncelog.types import NO_SEQUENCE, Block, Outcome, ProducerIdAndEpoch
from oncelog.znodes import fields

Row = Any


def pair_to_row(pair: ProducerIdAndEpoch) -> Row:
    return [pair.producer_id, pair.epoch]


def block_to_row(block: Block) -> Row:
    return [
        block.file,
        block.position,
        block.length,
        block.crc32,
        block.count,
        block.min_timestamp_ms,
        block.max_timestamp_ms,
    ]


def block_from_row(row: Row) -> Block:
    file, position, length, crc32, count, min_timestamp_ms, max_timestamp_ms = fields.rows(row)
    return Block(
        file=fields.text(file),
        position=fields.number(position),
        length=fields.number(length),
        crc32=fields.number(crc32, most=fields.MAX_CRC32),
        count=fields.number(count, least=1),
        min_timestamp_ms=fields.timestamp_ms(min_timestamp_ms),
        max_timestamp_ms=fields.timestamp_ms(max_timestamp_ms),
    )


def marker_to_row(marker: Marker) -> Row:
    return [marker.outcome.value, marker.first_offset, [pair_to_row(pair) for pair in marker.aborted]]


def marker_from_row(row: Row) -> Marker:
    outcome, first_offset, aborted = fields.rows(row)
    return Marker(Outcome(fields.text(outcome)), fields.number(first_offset), fields.several(fields.pair, aborted))


def entry_to_row(entry: IndexEntry) -> Row:
    return [
        entry.base_offset,
        entry.count,
        entry.producer.producer_id,
        entry.producer.epoch,
        entry.base_sequence,
        entry.owner,
        block_to_row(entry.block) if entry.block else None,
        marker_to_row(entry.marker) if entry.marker else None,
    ]


def entry_from_row(row: Row) -> IndexEntry:
    base_offset, count, producer_id, epoch, base_sequence, owner, block, marker = fields.rows(row)
    if (block is None) == (marker is None):
        raise ValueError("either a block or a marker")
    return IndexEntry(
        base_offset=fields.number(base_offset),
        count=fields.number(count, least=1),
        producer=ProducerIdAndEpoch(fields.number(producer_id), fields.epoch(epoch)),
        base_sequence=fields.sequence(base_sequence, least=NO_SEQUENCE),
        owner=fields.maybe(fields.path, owner),
        block=fields.maybe(block_from_row, block),
        marker=fields.maybe(marker_from_row, marker),
    )


def ref_to_row(ref: IndexRef) -> Row:
    return [
        ref.file,
        ref.level,
        ref.start,
        ref.end,
        ref.entries,
        ref.records,
        ref.size_bytes,
        ref.max_timestamp_ms,
        ref.aborted_first,
    ]


def ref_from_row(row: Row) -> IndexRef:
    file, level, start, end, entries, records, size_bytes, max_timestamp_ms, aborted_first = fields.rows(row)
    return IndexRef(
        file=fields.text(file),
        level=fields.number(level),
        start=fields.number(start),
        end=fields.number(end),
        entries=fields.number(entries),
        records=fields.number(records),
        size_bytes=fields.number(size_bytes),
        max_timestamp_ms=fields.timestamp_ms(max_timestamp_ms),
        aborted_first=fields.maybe(fields.number, aborted_first),
    )


def span_to_row(span: OwnerSpan) -> Row:
    return [span.owner, span.first, span.last, [pair_to_row(pair) for pair in span.producers]]


def span_from_row(row: Row) -> OwnerSpan:
    owner, first, last, producers = fields.rows(row)
    if not fields.rows(producers):
        raise ValueError("an owner that nobody wrote for")
    return OwnerSpan(
        fields.path(owner), fields.number(first), fields.number(last), fields.several(fields.pair, producers)
    )
