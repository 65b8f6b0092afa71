"""Index files and manifests: index entries in immutable Avro files, which `index` walks.

A *leaf* has consecutive entries, a *parent* the refs of the level below it, and a *manifest* the blocks of an append
that is too large for a znode. Files are immutable, so parsed files are cached.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import Any, TypeVar

from oncelog.errors import CorruptDataError, DataLossError, ensure
from oncelog.log import codec
from oncelog.ports import FileStore
from oncelog.protocol.partition import IndexEntry, IndexRef, Marker, TailNode
from oncelog.protocol.sequencing import sequence_add
from oncelog.types import BLOCK_FIELDS, NO_TIMESTAMP, Block, Outcome, ProducerIdAndEpoch

T = TypeVar("T")

CACHED_FILES = 64

# Without the count, which the index entry has itself.
_BLOCK_FIELDS: list[dict[str, Any]] = [
    {"name": name, "type": "string" if kind is str else "long"}
    for name, kind in BLOCK_FIELDS.items()
    if name != "count"
]
_BLOCK_SCHEMA: dict[str, Any] = {"type": "record", "name": "Block", "fields": _BLOCK_FIELDS}
_PAIR_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "ProducerIdAndEpoch",
    "fields": [{"name": "producer_id", "type": "long"}, {"name": "epoch", "type": "int"}],
}
_MARKER_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Marker",
    "fields": [
        {"name": "outcome", "type": "string"},
        {"name": "first_offset", "type": "long"},
        {"name": "aborted", "type": {"type": "array", "items": _PAIR_SCHEMA}},
    ],
}
ENTRY_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "IndexEntry",
    "namespace": "oncelog",
    "fields": [
        {"name": "base_offset", "type": "long"},
        {"name": "count", "type": "int"},
        {"name": "producer_id", "type": "long"},
        {"name": "epoch", "type": "int"},
        {"name": "base_sequence", "type": "int"},
        {"name": "owner", "type": ["null", "string"]},
        {"name": "block", "type": ["null", _BLOCK_SCHEMA]},
        {"name": "marker", "type": ["null", _MARKER_SCHEMA]},
    ],
}
REF_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "IndexRef",
    "namespace": "oncelog",
    "fields": [
        {"name": "file", "type": "string"},
        {"name": "level", "type": "int"},
        {"name": "start", "type": "long"},
        {"name": "end", "type": "long"},
        {"name": "entries", "type": "long"},
        {"name": "records", "type": "long"},
        {"name": "size_bytes", "type": "long"},
        {"name": "max_timestamp_ms", "type": "long"},
        {"name": "aborted_first", "type": ["null", "long"]},
    ],
}
MANIFEST_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "ManifestBlock",
    "namespace": "oncelog",
    "fields": [*_BLOCK_FIELDS, {"name": "count", "type": "int"}],
}


# Rows -----------------------------------------------------------------------------------------------------------------


def _block_row(block: Block) -> dict[str, Any]:
    return {name: getattr(block, name) for name in BLOCK_FIELDS}  # a schema without the count ignores it


_in_order = itemgetter(*BLOCK_FIELDS)


def _block_of(row: dict[str, Any]) -> Block:
    return Block(*_in_order(row))


def _entry_row(entry: IndexEntry) -> dict[str, Any]:
    marker = entry.marker
    return {
        "base_offset": entry.base_offset,
        "count": entry.count,
        "producer_id": entry.producer.producer_id,
        "epoch": entry.producer.epoch,
        "base_sequence": entry.base_sequence,
        "owner": entry.owner,
        "block": _block_row(entry.block) if entry.block else None,
        "marker": marker
        and {
            "outcome": marker.outcome.value,
            "first_offset": marker.first_offset,
            "aborted": [{"producer_id": pair.producer_id, "epoch": pair.epoch} for pair in marker.aborted],
        },
    }


def _entry_of(row: dict[str, Any]) -> IndexEntry:
    marker = row["marker"]
    return IndexEntry(
        row["base_offset"],
        row["count"],
        ProducerIdAndEpoch(row["producer_id"], row["epoch"]),
        row["base_sequence"],
        row["owner"],
        _block_of({**row["block"], "count": row["count"]}) if row["block"] else None,
        marker
        and Marker(
            Outcome(marker["outcome"]),
            marker["first_offset"],
            tuple(ProducerIdAndEpoch(pair["producer_id"], pair["epoch"]) for pair in marker["aborted"]),
        ),
    )


def _ref_row(ref: IndexRef) -> dict[str, Any]:
    return {field["name"]: getattr(ref, field["name"]) for field in REF_SCHEMA["fields"]}


# Totals ---------------------------------------------------------------------------------------------------------------


def _leaf_ref(file: str, entries: Sequence[IndexEntry]) -> IndexRef:
    blocks = [entry.block for entry in entries if entry.block]
    return IndexRef(
        file=file,
        level=0,
        start=entries[0].base_offset,
        end=entries[-1].end_offset,
        entries=len(entries),
        records=sum(block.count for block in blocks),
        size_bytes=sum(block.length for block in blocks),
        max_timestamp_ms=max((block.max_timestamp_ms for block in blocks), default=NO_TIMESTAMP),
        aborted_first=_least(entry.marker.first_offset for entry in entries if entry.marker and entry.marker.aborted),
    )


def _parent_ref(file: str, children: Sequence[IndexRef]) -> IndexRef:
    return IndexRef(
        file=file,
        level=children[0].level + 1,
        start=children[0].start,
        end=children[-1].end,
        entries=sum(child.entries for child in children),
        records=sum(child.records for child in children),
        size_bytes=sum(child.size_bytes for child in children),
        max_timestamp_ms=max(child.max_timestamp_ms for child in children),
        aborted_first=_least(child.aborted_first for child in children if child.aborted_first is not None),
    )


def _least(offsets: Iterable[int]) -> int | None:
    return min(offsets, default=None)


# Files ----------------------------------------------------------------------------------------------------------------


class IndexFiles:
    """Reads, caches and writes the index files and manifests of one log.

    Not shared between threads. Files are written before any znode names them (invariant I12).
    """

    def __init__(self, files: FileStore) -> None:
        self._files = files
        self._cache: OrderedDict[str, tuple[Any, ...]] = OrderedDict()

    def write_manifest(self, name: str, blocks: Sequence[Block]) -> None:
        """Write the blocks of one large append; they get their offsets by the append itself."""
        self._write(name, MANIFEST_SCHEMA, map(_block_row, blocks))

    def write_leaf(self, name: str, entries: Sequence[IndexEntry]) -> IndexRef:
        """Write consecutive entries; returns their ref."""
        ensure(
            all(a.end_offset == b.base_offset for a, b in pairwise(entries)), "index entries leave no gap", file=name
        )
        self._write(name, ENTRY_SCHEMA, map(_entry_row, entries))
        return _leaf_ref(name, entries)

    def write_parent(self, name: str, children: Sequence[IndexRef]) -> IndexRef:
        """Write refs of one level; returns their parent's ref."""
        ensure(len({child.level for child in children}) == 1, "children of one parent have one level", file=name)
        self._write(name, REF_SCHEMA, map(_ref_row, children))
        return _parent_ref(name, children)

    def tail_entries(self, node: TailNode) -> tuple[IndexEntry, ...]:
        """The entries of a tail node, from its manifest if it has one."""
        if node.manifest is None:
            return node.entries
        manifest = node.manifest
        blocks = self._read(manifest.file, MANIFEST_SCHEMA, _block_of, _are_blocks)
        entries = []
        offset, sequence = node.base_offset, manifest.base_sequence
        for block in blocks:
            entries.append(IndexEntry(offset, block.count, manifest.producer, sequence, manifest.owner, block, None))
            offset += block.count
            sequence = sequence_add(sequence, block.count)
        _check_holds(manifest.file, (manifest.blocks, node.end_offset), (len(blocks), offset))
        return tuple(entries)

    def leaf(self, ref: IndexRef) -> tuple[IndexEntry, ...]:
        """The entries of a level 0 ref."""
        entries = self._read(ref.file, ENTRY_SCHEMA, _entry_of, _are_entries)
        found = (len(entries), entries[0].base_offset, entries[-1].end_offset) if entries else (0, 0, 0)
        _check_holds(ref.file, (ref.entries, ref.start, ref.end), found)
        return entries

    def children(self, ref: IndexRef) -> tuple[IndexRef, ...]:
        """The refs below a ref of level 1 or more."""
        refs = self._read(ref.file, REF_SCHEMA, lambda row: IndexRef(**row), _are_siblings)
        found = (sum(child.entries for child in refs), refs[0].start, refs[-1].end) if refs else (0, 0, 0)
        level = refs[0].level + 1 if refs else 0
        _check_holds(ref.file, (ref.level, ref.entries, ref.start, ref.end), (level, *found))
        return refs

    def _write(self, name: str, schema: dict[str, Any], rows: Iterable[dict[str, Any]]) -> None:
        output = self._files.create(name)
        try:
            codec.write_rows(output, schema, rows)
            output.finish()
        except BaseException:
            output.discard()
            raise

    def _read(
        self,
        name: str,
        schema: dict[str, Any],
        build: Callable[[dict[str, Any]], T],
        are_sound: Callable[[Sequence[T]], bool],
    ) -> tuple[T, ...]:
        if name in self._cache:
            self._cache.move_to_end(name)
            return self._cache[name]
        try:
            data = self._files.read(name, 0, self._files.size(name))
        except FileNotFoundError as error:
            raise DataLossError("an index file is gone; restore it from a backup", file=name) from error
        rows = _built(codec.read_rows(data, schema, name), build)
        if rows is None or not are_sound(rows):
            raise CorruptDataError("an index file holds rows that oncelog never writes", file=name)
        self._cache[name] = rows
        if len(self._cache) > CACHED_FILES:
            self._cache.popitem(last=False)
        return rows


def _built(rows: list[dict[str, Any]], build: Callable[[dict[str, Any]], T]) -> tuple[T, ...] | None:
    """The values of rows; None if one is invalid."""
    try:
        return tuple(map(build, rows))
    except ValueError:  # an unknown outcome
        return None


def _are_blocks(blocks: Sequence[Block]) -> bool:
    return all(block.count > 0 and block.position >= 0 and block.length > 0 for block in blocks)


def _are_entries(entries: Sequence[IndexEntry]) -> bool:
    """Whether each entry is either a record batch or a marker, and there are no gaps between them."""
    return (
        all((entry.block is None) != (entry.marker is None) and entry.count > 0 for entry in entries)
        and _are_blocks([entry.block for entry in entries if entry.block])
        and all(a.end_offset == b.base_offset for a, b in pairwise(entries))
    )


def _are_siblings(refs: Sequence[IndexRef]) -> bool:
    """Whether all refs are of one level, without gaps between them."""
    return len({ref.level for ref in refs}) <= 1 and all(a.end == b.start for a, b in pairwise(refs))


def _check_holds(file: str, expected: tuple[int, ...], found: tuple[int, ...]) -> None:
    if expected != found:
        raise CorruptDataError(
            "an index file does not hold what its ref says; restore it from a backup",
            file=file,
            expected=expected,
            found=found,
        )
