"""Encodes and decodes values that repeat within a payload as JSON arrays, which keeps tail znodes small."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from types import UnionType
from typing import Any, TypeVar, get_args, get_type_hints

from oncelog.protocol.partition import IndexEntry, IndexRef, Marker, OwnerSpan
from oncelog.protocol.sequencing import AppendedBatch
from oncelog.types import NO_SEQUENCE, Block, Bounds, Outcome, ProducerIdAndEpoch
from oncelog.znodes import fields

T = TypeVar("T")

Row = Any


def _flat(kind: type[T]) -> tuple[Callable[[T], Row], Callable[[Row], T]]:
    """The functions of a dataclass of strings and numbers: its row has all fields in order, each within its bounds."""
    hints = get_type_hints(kind, include_extras=True)
    allowed = [_types_and_bounds(hint) for hint in hints.values()]

    def from_row(row: Row) -> T:
        for value, (types, least, most) in zip(fields.rows(row), allowed, strict=True):
            found = type(value)
            if found not in types or (found is int and not least <= value <= most):
                raise ValueError(f"not a row of {kind.__name__}: {value!r}")
        return kind(*row)

    return attrgetter(*hints), from_row


def _types_and_bounds(hint: Any) -> tuple[tuple[type, ...], int, int]:
    types = get_args(hint) if isinstance(hint, UnionType) else (str if hint is str else int,)
    return (types, *getattr(hint, "__metadata__", (Bounds(),))[0])


block_to_row, block_from_row = _flat(Block)
ref_to_row, ref_from_row = _flat(IndexRef)
batch_to_row, batch_from_row = _flat(AppendedBatch)


def pair_to_row(pair: ProducerIdAndEpoch) -> Row:
    return [pair.producer_id, pair.epoch]


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


def span_to_row(span: OwnerSpan) -> Row:
    return [span.owner, span.first, span.last, [pair_to_row(pair) for pair in span.producers]]


def span_from_row(row: Row) -> OwnerSpan:
    owner, first, last, producers = fields.rows(row)
    if not fields.rows(producers):
        raise ValueError("an owner without producers")
    return OwnerSpan(
        fields.path(owner), fields.number(first), fields.number(last), fields.several(fields.pair, producers)
    )
