"""How the protocol's values are written into znodes, both ways. One pair of functions per value; `paths` says where.

Rows that repeat (blocks, index entries, owner spans) are JSON arrays, to keep tail znodes small; the rest are objects.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

from oncelog.ports import Znode
from oncelog.protocol.batch_ledger import LastBatch, QueryLedger
from oncelog.protocol.coordinator_core import TransactionMetadata
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
from oncelog.protocol.txn_state import TxnState
from oncelog.types import Block, OffsetAndMetadata, Outcome, ProducerIdAndEpoch
from oncelog.znodes import paths

Json = Any
Payload = dict[str, Any]

CACHED_PAYLOADS = 512
"""Of each kind: a client reads the same few znodes again and again, and the values are immutable."""


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


def encode_topic(topic: TopicState) -> bytes:
    return paths.encode(asdict(topic))


@lru_cache(maxsize=CACHED_PAYLOADS)
def decode_topic(path: str, data: bytes) -> TopicState:
    return paths.decode(path, data, _topic_from_json)


def _topic_from_json(payload: Payload) -> TopicState:
    return TopicState(
        topic_id=payload["topic_id"],
        partitions=int(payload["partitions"]),
        retention_ms=payload["retention_ms"],
        retention_bytes=payload["retention_bytes"],
        is_deleted=bool(payload["is_deleted"]),
    )


def encode_partition(state: PartitionState) -> bytes:
    return paths.encode(
        {
            "log_start": state.log_start,
            "log_end": state.log_end,
            "trim": state.trim,
            "owners": [_span_to_json(span) for span in state.owners],
            "roots": [ref_to_json(ref) for ref in state.roots],
            "tail_nodes": state.tail_nodes,
            "size_bytes": state.size_bytes,
            "is_deleted": state.is_deleted,
        }
    )


@lru_cache(maxsize=CACHED_PAYLOADS)
def decode_partition(path: str, data: bytes) -> PartitionState:
    return paths.decode(path, data, _partition_from_json)


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


def encode_tail_node(node: TailNode) -> bytes:
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
    return paths.encode(payload)


@lru_cache(maxsize=CACHED_PAYLOADS)
def decode_tail_node(path: str, data: bytes) -> TailNode:
    return paths.decode(path, data, _tail_node_from_json)


_TAIL_BOUNDS = ("base_offset", "end_offset", "records", "size_bytes", "max_timestamp_ms")


def _tail_node_from_json(payload: Payload) -> TailNode:
    base_offset, end_offset, records, size_bytes, max_timestamp_ms = (int(payload[name]) for name in _TAIL_BOUNDS)
    node = TailNode(base_offset, end_offset, records, size_bytes, max_timestamp_ms)
    if "entries" in payload:
        return replace(node, entries=tuple(entry_from_json(row) for row in payload["entries"]))
    file, blocks, producer, base_sequence, owner = payload["manifest"]
    manifest = Manifest(str(file), int(blocks), pair_from_json(producer), int(base_sequence), owner)
    return replace(node, manifest=manifest)


def encode_producer(entry: ProducerEntry) -> bytes:
    return paths.encode(
        {
            "epoch": entry.epoch,
            "batches": [[b.first_sequence, b.count, b.base_offset] for b in entry.batches],
            "open_first_offset": entry.open_first_offset,
            "open_owner": entry.open_owner,
        }
    )


@lru_cache(maxsize=CACHED_PAYLOADS)
def decode_producer(path: str, data: bytes) -> ProducerEntry:
    return paths.decode(path, data, _producer_from_json)


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


def encode_owner(owner: OwnerRecord) -> bytes:
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
    return paths.encode(payload)


@lru_cache(maxsize=CACHED_PAYLOADS)
def decode_owner(path: str, data: bytes) -> OwnerRecord:
    return paths.decode(path, data, _owner_from_json)


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


def encode_group_partition(state: GroupPartitionState) -> bytes:
    current = state.current
    return paths.encode(
        {
            "current": None if current is None else [current.value.offset, current.value.metadata, current.order],
            "pending": [[p.owner, p.value.offset, p.value.metadata, p.order] for p in state.pending],
        }
    )


def decode_group_partition(path: str, data: bytes) -> GroupPartitionState:
    return paths.decode(path, data, _group_partition_from_json)


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


def encode_group(group: GroupRecord) -> bytes:
    return paths.encode(asdict(group))


def decode_group(path: str, data: bytes) -> GroupRecord:
    return paths.decode(path, data, lambda p: GroupRecord(p["owning_prefix"], bool(p["is_deleted"]), p["nonce"]))


def encode_ledger(ledger: QueryLedger) -> bytes:
    return paths.encode(asdict(ledger))


@lru_cache(maxsize=CACHED_PAYLOADS)
def decode_ledger(path: str, data: bytes) -> QueryLedger:
    return paths.decode(path, data, _ledger_from_json)


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


def encode_transaction(metadata: TransactionMetadata) -> bytes:
    payload = {name: getattr(metadata, name) for name in TransactionMetadata.__slots__}
    payload["partitions"] = [paths.partition(partition) for partition in metadata.partitions]
    return paths.encode(payload)


@lru_cache(maxsize=CACHED_PAYLOADS)
def decode_transaction(path: str, data: bytes) -> TransactionMetadata:
    return paths.decode(path, data, _transaction_from_json)


def _transaction_from_json(payload: Payload) -> TransactionMetadata:
    fields = {name: value for name, value in payload.items() if name != "version"}
    fields["state"] = TxnState(payload["state"])
    fields["partitions"] = tuple(paths.partition_of(path) for path in payload["partitions"])
    fields["pending_groups"] = tuple(payload["pending_groups"])
    return TransactionMetadata(**fields)
