"""How the protocol's values are written into znodes, both ways. One pair of functions per value; `paths` says where.

Rows that repeat (blocks, index entries, owner spans) are JSON arrays, to keep tail znodes small; the rest are objects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Generic, TypeVar

from oncelog.ports import Znode
from oncelog.protocol.batch_ledger import LastBatch, QueryLedger
from oncelog.protocol.group_offsets import CommittedOffset, GroupPartitionState, PendingOffset
from oncelog.protocol.partition import (
    IndexEntry,
    IndexRef,
    Manifest,
    Marker,
    OwnerSpan,
    OwnerState,
    PartitionState,
    TailNode,
    TopicState,
)
from oncelog.protocol.sequencing import AppendedBatch, ProducerEntry
from oncelog.protocol.transaction_metadata import TransactionMetadata
from oncelog.protocol.txn_state import TxnState
from oncelog.types import Block, OffsetAndMetadata, Outcome, ProducerIdAndEpoch
from oncelog.znodes import paths

T = TypeVar("T")

Json = Any
Payload = dict[str, Any]

CACHE_BYTES = 2**20
"""Payloads each kind remembers: a client reads the same few znodes again and again, often as it wrote them itself."""


class Kind(Generic[T]):
    """One kind of payload. Remembers what it wrote and read, by its bytes: the values are immutable."""

    def __init__(self, to_json: Callable[[T], Payload], from_json: Callable[[Payload], T]) -> None:
        self._to_json = to_json
        self._from_json = from_json
        self._known: dict[bytes, T] = {}
        self._known_bytes = 0

    def encode(self, value: T) -> bytes:
        """The bytes of a znode that holds `value`."""
        data = paths.encode(self._to_json(value))
        self._remember(data, value)
        return data

    def decode(self, path: str, data: bytes) -> T:
        """The value in the bytes of the znode at `path`.

        Raises:
            CorruptDataError, UnsupportedFormatError: see `paths.decode`.
        """
        known = self._known.get(data)
        if known is not None:
            return known
        value = paths.decode(path, data, self._from_json)
        self._remember(data, value)
        return value

    def _remember(self, data: bytes, value: T) -> None:
        if self._known_bytes + len(data) > CACHE_BYTES:
            self._known.clear()
            self._known_bytes = 0
        self._known[data] = value
        self._known_bytes += len(data)


# Rows -----------------------------------------------------------------------------------------------------------------


def pair_to_json(pair: ProducerIdAndEpoch) -> Json:
    return [pair.producer_id, pair.epoch]


def pair_from_json(row: Json) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(int(row[0]), int(row[1]))


def _pairs_from_json(rows: Json) -> tuple[ProducerIdAndEpoch, ...]:
    return tuple(pair_from_json(row) for row in rows)


def block_to_json(block: Block) -> Json:
    return [
        block.file,
        block.position,
        block.length,
        block.crc32,
        block.count,
        block.min_timestamp_ms,
        block.max_timestamp_ms,
    ]


def block_from_json(row: Json) -> Block:
    file, *numbers = row
    return Block(str(file), *map(int, numbers))


def _marker_to_json(marker: Marker) -> Json:
    return [marker.outcome.value, marker.first_offset, [pair_to_json(pair) for pair in marker.aborted]]


def _marker_from_json(row: Json) -> Marker:
    outcome, first_offset, aborted = row
    return Marker(Outcome(outcome), int(first_offset), _pairs_from_json(aborted))


def entry_to_json(entry: IndexEntry) -> Json:
    return [
        entry.base_offset,
        entry.count,
        entry.producer.producer_id,
        entry.producer.epoch,
        entry.base_sequence,
        entry.owner,
        block_to_json(entry.block) if entry.block else None,
        _marker_to_json(entry.marker) if entry.marker else None,
    ]


def entry_from_json(row: Json) -> IndexEntry:
    base_offset, count, producer_id, epoch, base_sequence, owner, block, marker = row
    return IndexEntry(
        base_offset=int(base_offset),
        count=int(count),
        producer=ProducerIdAndEpoch(int(producer_id), int(epoch)),
        base_sequence=int(base_sequence),
        owner=None if owner is None else str(owner),
        block=None if block is None else block_from_json(block),
        marker=None if marker is None else _marker_from_json(marker),
    )


def ref_to_json(ref: IndexRef) -> Json:
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


def ref_from_json(row: Json) -> IndexRef:
    file, level, start, end, entries, records, size_bytes, max_timestamp_ms, aborted_first = row
    return IndexRef(
        str(file),
        int(level),
        int(start),
        int(end),
        int(entries),
        int(records),
        int(size_bytes),
        int(max_timestamp_ms),
        None if aborted_first is None else int(aborted_first),
    )


def _span_to_json(span: OwnerSpan) -> Json:
    return [span.owner, span.first, span.last, [pair_to_json(pair) for pair in span.producers]]


def _span_from_json(row: Json) -> OwnerSpan:
    owner, first, last, producers = row
    return OwnerSpan(str(owner), int(first), int(last), _pairs_from_json(producers))


# Topics and partitions ------------------------------------------------------------------------------------------------


def _topic_to_json(topic: TopicState) -> Payload:
    return asdict(topic)


def _topic_from_json(payload: Payload) -> TopicState:
    return TopicState(
        topic_id=payload["topic_id"],
        partitions=int(payload["partitions"]),
        retention_ms=payload["retention_ms"],
        retention_bytes=payload["retention_bytes"],
        is_deleted=bool(payload["is_deleted"]),
    )


def _partition_to_json(state: PartitionState) -> Payload:
    return {
        "log_start": state.log_start,
        "log_end": state.log_end,
        "trim": state.trim,
        "owners": [_span_to_json(span) for span in state.owners],
        "roots": [ref_to_json(ref) for ref in state.roots],
        "tail_nodes": state.tail_nodes,
        "size_bytes": state.size_bytes,
        "is_deleted": state.is_deleted,
    }


def _partition_from_json(payload: Payload) -> PartitionState:
    return PartitionState(
        log_start=int(payload["log_start"]),
        log_end=int(payload["log_end"]),
        trim=int(payload["trim"]),
        owners=tuple(_span_from_json(row) for row in payload["owners"]),
        roots=tuple(ref_from_json(row) for row in payload["roots"]),
        tail_nodes=int(payload["tail_nodes"]),
        size_bytes=int(payload["size_bytes"]),
        is_deleted=bool(payload["is_deleted"]),
    )


def _tail_node_to_json(node: TailNode) -> Payload:
    payload: Payload = {name: getattr(node, name) for name in _TAIL_BOUNDS}
    if node.manifest is None:
        payload["entries"] = [entry_to_json(entry) for entry in node.entries]
    else:
        manifest = node.manifest
        payload["manifest"] = [
            manifest.file,
            manifest.blocks,
            pair_to_json(manifest.producer),
            manifest.base_sequence,
            manifest.owner,
        ]
    return payload


_TAIL_BOUNDS = ("base_offset", "end_offset", "records", "size_bytes", "max_timestamp_ms")


def _tail_node_from_json(payload: Payload) -> TailNode:
    base_offset, end_offset, records, size_bytes, max_timestamp_ms = (int(payload[name]) for name in _TAIL_BOUNDS)
    node = TailNode(base_offset, end_offset, records, size_bytes, max_timestamp_ms)
    if "entries" in payload:
        return replace(node, entries=tuple(entry_from_json(row) for row in payload["entries"]))
    file, blocks, producer, base_sequence, owner = payload["manifest"]
    manifest = Manifest(str(file), int(blocks), pair_from_json(producer), int(base_sequence), owner)
    return replace(node, manifest=manifest)


def _producer_to_json(entry: ProducerEntry) -> Payload:
    return {
        "epoch": entry.epoch,
        "batches": [[b.first_sequence, b.count, b.base_offset] for b in entry.batches],
        "open_first_offset": entry.open_first_offset,
        "open_owner": entry.open_owner,
    }


def _producer_from_json(payload: Payload) -> ProducerEntry:
    return ProducerEntry(
        epoch=int(payload["epoch"]),
        batches=tuple(AppendedBatch(*map(int, row)) for row in payload["batches"]),
        open_first_offset=payload["open_first_offset"],
        open_owner=payload["open_owner"],
    )


# Owners ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OwnerRecord:
    """The payload of an owner's znode, whichever kind; `read_owner` adds the zxid of its decision.

    Attributes:
        outcome: open, commit or abort.
        partitions, groups: paths of the partitions and group partitions that may list it.
        participants: the pairs a commit makes visible; None when it is all of them (one producer's transaction).
        timeout_ms: of a producer's transaction, counted from the znode's ctime; for a round, from its last set.
        batch_id, fingerprint, run_id, nonce: of a round only.
    """

    outcome: Outcome
    partitions: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    participants: tuple[ProducerIdAndEpoch, ...] | None = None
    timeout_ms: int = 0
    batch_id: int | None = None
    fingerprint: str | None = None
    run_id: str | None = None
    nonce: str | None = None


def _owner_to_json(owner: OwnerRecord) -> Payload:
    payload: Payload = {
        "outcome": owner.outcome.value,
        "partitions": owner.partitions,
        "groups": owner.groups,
        "timeout_ms": owner.timeout_ms,
    }
    if owner.participants is not None:
        payload["participants"] = [pair_to_json(pair) for pair in owner.participants]
    for name in ("batch_id", "fingerprint", "run_id", "nonce"):
        value = getattr(owner, name)
        if value is not None:
            payload[name] = value
    return payload


def _owner_from_json(payload: Payload) -> OwnerRecord:
    participants = payload.get("participants")
    return OwnerRecord(
        outcome=Outcome(payload["outcome"]),
        partitions=tuple(payload["partitions"]),
        groups=tuple(payload["groups"]),
        participants=None if participants is None else _pairs_from_json(participants),
        timeout_ms=int(payload["timeout_ms"]),
        batch_id=payload.get("batch_id"),
        fingerprint=payload.get("fingerprint"),
        run_id=payload.get("run_id"),
        nonce=payload.get("nonce"),
    )


def owner_state(path: str, znode: Znode) -> OwnerState:
    """What the protocol needs of an owner's znode."""
    owner = decode_owner(path, znode.data)
    participants = None if owner.participants is None else frozenset(owner.participants)
    return OwnerState(owner.outcome, znode.stat.mzxid, participants, owner.partitions, owner.groups)


# Groups and queries ---------------------------------------------------------------------------------------------------


def _group_partition_to_json(state: GroupPartitionState) -> Payload:
    current = state.current
    return {
        "current": None if current is None else [current.value.offset, current.value.metadata, current.order],
        "pending": [[p.owner, p.value.offset, p.value.metadata, p.order] for p in state.pending],
    }


def _group_partition_from_json(payload: Payload) -> GroupPartitionState:
    current = None
    if payload["current"] is not None:
        offset, metadata, order = payload["current"]
        current = CommittedOffset(OffsetAndMetadata(int(offset), str(metadata)), int(order))
    pending = (
        PendingOffset(str(owner), OffsetAndMetadata(int(offset), str(metadata)), int(order))
        for owner, offset, metadata, order in payload["pending"]
    )
    return GroupPartitionState(current, tuple(pending))


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """A group's own znode.

    Attributes:
        owning_prefix: the transactional-id prefix of the sink that owns its offsets, if one does.
        is_deleted: a tombstone: the version, which orders commits, goes on if the name comes back.
        nonce: of the last commit outside any transaction; an attempt that finds its own has won before.
    """

    owning_prefix: str | None = None
    is_deleted: bool = False
    nonce: str | None = None


def _group_to_json(group: GroupRecord) -> Payload:
    return asdict(group)


def _ledger_to_json(ledger: QueryLedger) -> Payload:
    return asdict(ledger)


def _group_from_json(payload: Payload) -> GroupRecord:
    return GroupRecord(payload["owning_prefix"], bool(payload["is_deleted"]), payload["nonce"])


def _ledger_from_json(payload: Payload) -> QueryLedger:
    last = payload["last"]
    return QueryLedger(
        query_id=payload["query_id"],
        sink_name=payload["sink_name"],
        run_id=payload["run_id"],
        superseded_runs=tuple(payload["superseded_runs"]),
        current_round=int(payload["current_round"]),
        last=None if last is None else LastBatch(last["batch_id"], last["fingerprint"], last["round"], last["run_id"]),
        group_id=payload["group_id"],
    )


# Transactions ---------------------------------------------------------------------------------------------------------


def _transaction_to_json(metadata: TransactionMetadata) -> Payload:
    payload = {name: getattr(metadata, name) for name in TransactionMetadata.__slots__}
    payload["partitions"] = [paths.partition(partition) for partition in metadata.partitions]
    return payload


def _transaction_from_json(payload: Payload) -> TransactionMetadata:
    fields = {name: value for name, value in payload.items() if name != "version"}
    fields["state"] = TxnState(payload["state"])
    fields["partitions"] = tuple(paths.partition_of(path) for path in payload["partitions"])
    fields["pending_groups"] = tuple(payload["pending_groups"])
    return TransactionMetadata(**fields)


# Kinds ---------------------------------------------------------------------------------------------------------------

_topic = Kind(_topic_to_json, _topic_from_json)
_partition = Kind(_partition_to_json, _partition_from_json)
_tail_node = Kind(_tail_node_to_json, _tail_node_from_json)
_producer = Kind(_producer_to_json, _producer_from_json)
_owner = Kind(_owner_to_json, _owner_from_json)
_group_partition = Kind(_group_partition_to_json, _group_partition_from_json)
_group = Kind(_group_to_json, _group_from_json)
_ledger = Kind(_ledger_to_json, _ledger_from_json)
_transaction = Kind(_transaction_to_json, _transaction_from_json)

encode_topic, decode_topic = _topic.encode, _topic.decode
encode_partition, decode_partition = _partition.encode, _partition.decode
encode_tail_node, decode_tail_node = _tail_node.encode, _tail_node.decode
encode_producer, decode_producer = _producer.encode, _producer.decode
encode_owner, decode_owner = _owner.encode, _owner.decode
encode_group_partition, decode_group_partition = _group_partition.encode, _group_partition.decode
encode_group, decode_group = _group.encode, _group.decode
encode_ledger, decode_ledger = _ledger.encode, _ledger.decode
encode_transaction, decode_transaction = _transaction.encode, _transaction.decode
