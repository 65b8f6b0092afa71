"""How the protocol's values are written into znodes, both ways. One pair of functions per value; `paths` says where.

Rows that repeat (blocks, index entries, owner spans) are JSON arrays, to keep tail znodes small; the rest are objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

from oncelog.limits import MAX_PARTITIONS
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
from oncelog.types import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    Block,
    OffsetAndMetadata,
    Outcome,
    ProducerIdAndEpoch,
)
from oncelog.znodes import fields, paths

T = TypeVar("T")

Json = Any
Payload = dict[str, Any]

CACHE_BYTES = 2**20
"""Payloads each kind remembers: a client reads the same few znodes again and again, often as it wrote them itself."""


class Kind(Generic[T]):
    """One kind of payload. Remembers what it wrote and read, by its bytes: the values are immutable."""

    def __init__(
        self, to_json: Callable[[T], Payload], from_json: Callable[[Payload], T], names: Iterable[str]
    ) -> None:
        self._to_json = to_json
        self._from_json = from_json
        self._names = frozenset(names)
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
        value = paths.decode(path, data, self._built)
        self._remember(data, value)
        return value

    def _built(self, payload: Payload) -> T:
        # A field that this release does not know would be lost with its next write.
        if not payload.keys() <= self._names | {"version"}:
            raise ValueError(f"unknown fields {sorted(payload.keys() - self._names)}")
        return self._from_json(payload)

    def _remember(self, data: bytes, value: T) -> None:
        if self._known_bytes + len(data) > CACHE_BYTES:
            self._known.clear()
            self._known_bytes = 0
        self._known[data] = value
        self._known_bytes += len(data)


# Rows -----------------------------------------------------------------------------------------------------------------


def pair_to_json(pair: ProducerIdAndEpoch) -> Json:
    return [pair.producer_id, pair.epoch]


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


def _marker_to_json(marker: Marker) -> Json:
    return [marker.outcome.value, marker.first_offset, [pair_to_json(pair) for pair in marker.aborted]]


def _marker_from_json(row: Json) -> Marker:
    outcome, first_offset, aborted = fields.rows(row)
    return Marker(Outcome(fields.text(outcome)), fields.number(first_offset), fields.several(fields.pair, aborted))


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
    base_offset, count, producer_id, epoch, base_sequence, owner, block, marker = fields.rows(row)
    if (block is None) == (marker is None):
        raise ValueError("either a block or a marker")
    return IndexEntry(
        base_offset=fields.number(base_offset),
        count=fields.number(count, least=1),
        producer=ProducerIdAndEpoch(fields.number(producer_id), fields.epoch(epoch)),
        base_sequence=fields.sequence(base_sequence, least=NO_SEQUENCE),
        owner=fields.maybe(fields.path, owner),
        block=fields.maybe(block_from_json, block),
        marker=fields.maybe(_marker_from_json, marker),
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


def _span_to_json(span: OwnerSpan) -> Json:
    return [span.owner, span.first, span.last, [pair_to_json(pair) for pair in span.producers]]


def _span_from_json(row: Json) -> OwnerSpan:
    owner, first, last, producers = fields.rows(row)
    if not fields.rows(producers):
        raise ValueError("an owner that nobody wrote for")
    return OwnerSpan(
        fields.path(owner), fields.number(first), fields.number(last), fields.several(fields.pair, producers)
    )


# Topics and partitions ------------------------------------------------------------------------------------------------


def _topic_to_json(topic: TopicState) -> Payload:
    return asdict(topic)


def _topic_from_json(payload: Payload) -> TopicState:
    return TopicState(
        topic_id=fields.segment(payload["topic_id"]),
        partitions=fields.number(payload["partitions"], least=1, most=MAX_PARTITIONS),
        retention_ms=fields.maybe(fields.number, payload["retention_ms"]),
        retention_bytes=fields.maybe(fields.number, payload["retention_bytes"]),
        is_deleted=fields.flag(payload["is_deleted"]),
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
        log_start=fields.number(payload["log_start"]),
        log_end=fields.number(payload["log_end"]),
        trim=fields.number(payload["trim"]),
        owners=fields.several(_span_from_json, payload["owners"]),
        roots=fields.several(ref_from_json, payload["roots"]),
        tail_nodes=fields.number(payload["tail_nodes"]),
        size_bytes=fields.number(payload["size_bytes"]),
        is_deleted=fields.flag(payload["is_deleted"]),
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
    base_offset, end_offset, records, size_bytes = (fields.number(payload[name]) for name in _TAIL_BOUNDS[:4])
    node = TailNode(base_offset, end_offset, records, size_bytes, fields.timestamp_ms(payload["max_timestamp_ms"]))
    if ("entries" in payload) == ("manifest" in payload):
        raise ValueError("either entries or a manifest")
    if "entries" in payload:
        return replace(node, entries=fields.several(entry_from_json, payload["entries"]))
    file, blocks, producer, base_sequence, owner = fields.rows(payload["manifest"])
    manifest = Manifest(
        file=fields.text(file),
        blocks=fields.number(blocks),
        producer=fields.pair(producer),
        base_sequence=fields.sequence(base_sequence),
        owner=fields.maybe(fields.path, owner),
    )
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
        epoch=fields.epoch(payload["epoch"]),
        batches=fields.several(_batch_from_json, payload["batches"]),
        open_first_offset=fields.maybe(fields.number, payload["open_first_offset"]),
        open_owner=fields.maybe(fields.path, payload["open_owner"]),
    )


def _batch_from_json(row: Json) -> AppendedBatch:
    first_sequence, count, base_offset = fields.rows(row)
    return AppendedBatch(fields.sequence(first_sequence), fields.number(count, least=1), fields.number(base_offset))


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
        outcome=Outcome(fields.text(payload["outcome"])),
        partitions=fields.several(fields.path, payload["partitions"]),
        groups=fields.several(fields.path, payload["groups"]),
        participants=None if participants is None else fields.several(fields.pair, participants),
        timeout_ms=fields.number(payload["timeout_ms"]),
        batch_id=fields.maybe(fields.signed, payload.get("batch_id")),
        fingerprint=fields.maybe(fields.text, payload.get("fingerprint")),
        run_id=fields.maybe(fields.text, payload.get("run_id")),
        nonce=fields.maybe(fields.text, payload.get("nonce")),
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
    return GroupPartitionState(
        current=fields.maybe(_committed_from_json, payload["current"]),
        pending=fields.several(_pending_from_json, payload["pending"]),
    )


def _committed_from_json(row: Json) -> CommittedOffset:
    offset, metadata, order = fields.rows(row)
    return CommittedOffset(_offset_from_json(offset, metadata), fields.signed(order))


def _pending_from_json(row: Json) -> PendingOffset:
    owner, offset, metadata, order = fields.rows(row)
    return PendingOffset(fields.path(owner), _offset_from_json(offset, metadata), fields.signed(order))


def _offset_from_json(offset: Json, metadata: Json) -> OffsetAndMetadata:
    return OffsetAndMetadata(fields.number(offset), fields.text(metadata))


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """A group's own znode.

    Attributes:
        owning_prefix: the transactional-id prefix of the sink that owns its offsets, if one does.
        is_deleted: a tombstone: the version, which orders commits, goes on if the name comes back.
        nonce: of the last commit outside any transaction, or of the round that staged offsets: whoever finds its own
            knows that its commit took place, and that nobody came after it.
    """

    owning_prefix: str | None = None
    is_deleted: bool = False
    nonce: str | None = None


def _group_to_json(group: GroupRecord) -> Payload:
    return asdict(group)


def _ledger_to_json(ledger: QueryLedger) -> Payload:
    return asdict(ledger)


def _group_from_json(payload: Payload) -> GroupRecord:
    return GroupRecord(
        owning_prefix=fields.maybe(fields.text, payload["owning_prefix"]),
        is_deleted=fields.flag(payload["is_deleted"]),
        nonce=fields.maybe(fields.text, payload["nonce"]),
    )


def _ledger_from_json(payload: Payload) -> QueryLedger:
    return QueryLedger(
        query_id=fields.text(payload["query_id"]),
        sink_name=fields.text(payload["sink_name"]),
        run_id=fields.text(payload["run_id"]),
        superseded_runs=fields.several(fields.text, payload["superseded_runs"]),
        current_round=fields.number(payload["current_round"]),
        last=fields.maybe(_last_batch_from_json, payload["last"]),
        group_id=fields.maybe(fields.text, payload["group_id"]),
    )


def _last_batch_from_json(payload: Json) -> LastBatch:
    if payload.keys() != set(LastBatch.__slots__):
        raise ValueError("other fields than those of a batch")
    return LastBatch(
        batch_id=fields.signed(payload["batch_id"]),
        fingerprint=fields.text(payload["fingerprint"]),
        round=fields.number(payload["round"]),
        run_id=fields.text(payload["run_id"]),
    )


# Transactions ---------------------------------------------------------------------------------------------------------


def _transaction_to_json(metadata: TransactionMetadata) -> Payload:
    payload = {name: getattr(metadata, name) for name in TransactionMetadata.__slots__}
    payload["partitions"] = [paths.partition(partition) for partition in metadata.partitions]
    return payload


def _transaction_from_json(payload: Payload) -> TransactionMetadata:
    return TransactionMetadata(
        **{name: read(payload[name]) for name, read in _OF_TRANSACTION.items() if name in payload}
    )


_OF_TRANSACTION: dict[str, Callable[[Any], Any]] = {
    "transactional_id": fields.text,
    "producer_id": fields.number,
    "epoch": fields.epoch,
    "timeout_ms": fields.number,
    "state": TxnState,
    "previous_producer_id": partial(fields.number, least=NO_PRODUCER_ID),
    "last_epoch": partial(fields.epoch, least=NO_PRODUCER_EPOCH),
    "next_producer_id": partial(fields.number, least=NO_PRODUCER_ID),
    "next_epoch": partial(fields.epoch, least=NO_PRODUCER_EPOCH),
    "partitions": partial(fields.several, paths.partition_of),
    "pending_groups": partial(fields.several, fields.text),
    "prepared": fields.flag,
    "owner": partial(fields.maybe, fields.path),
    "round": partial(fields.maybe, fields.path),
    "nonce": fields.text,
}
"""How each field is read; one that is not there has its default."""


# Kinds ---------------------------------------------------------------------------------------------------------------

_topic = Kind(_topic_to_json, _topic_from_json, TopicState.__slots__)
_partition = Kind(_partition_to_json, _partition_from_json, PartitionState.__slots__)
_tail_node = Kind(_tail_node_to_json, _tail_node_from_json, TailNode.__slots__)
_producer = Kind(_producer_to_json, _producer_from_json, ProducerEntry.__slots__)
_owner = Kind(_owner_to_json, _owner_from_json, OwnerRecord.__slots__)
_group_partition = Kind(_group_partition_to_json, _group_partition_from_json, GroupPartitionState.__slots__)
_group = Kind(_group_to_json, _group_from_json, GroupRecord.__slots__)
_ledger = Kind(_ledger_to_json, _ledger_from_json, QueryLedger.__slots__)
_transaction = Kind(_transaction_to_json, _transaction_from_json, TransactionMetadata.__slots__)

encode_topic, decode_topic = _topic.encode, _topic.decode
encode_partition, decode_partition = _partition.encode, _partition.decode
encode_tail_node, decode_tail_node = _tail_node.encode, _tail_node.decode
encode_producer, decode_producer = _producer.encode, _producer.decode
encode_owner, decode_owner = _owner.encode, _owner.decode
encode_group_partition, decode_group_partition = _group_partition.encode, _group_partition.decode
encode_group, decode_group = _group.encode, _group.decode
encode_ledger, decode_ledger = _ledger.encode, _ledger.decode
encode_transaction, decode_transaction = _transaction.encode, _transaction.decode
