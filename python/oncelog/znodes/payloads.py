"""Encodes and decodes the protocol's values in znodes: a pair of functions for each; `paths` says where they are.

Values are JSON objects; values that repeat in them are rows (rows.py). log_payloads.py has what a log has only once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from oncelog.limits import MAX_PARTITIONS
from oncelog.ports import Znode
from oncelog.protocol.group_offsets import CommittedOffset, GroupPartitionState, PendingOffset
from oncelog.protocol.partition import (
    Manifest,
    OwnerState,
    PartitionState,
    TailNode,
    TopicState,
)
from oncelog.protocol.sequencing import ProducerEntry
from oncelog.protocol.transaction_metadata import TransactionMetadata
from oncelog.protocol.txn_state import TxnState
from oncelog.types import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    OffsetAndMetadata,
    Outcome,
    ProducerIdAndEpoch,
)
from oncelog.znodes import fields, paths, rows
from oncelog.znodes.kinds import Kind, Payload

Json = Any

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
        "owners": [rows.span_to_row(span) for span in state.owners],
        "roots": [rows.ref_to_row(ref) for ref in state.roots],
        "tail_nodes": state.tail_nodes,
        "size_bytes": state.size_bytes,
        "is_deleted": state.is_deleted,
    }


def _partition_from_json(payload: Payload) -> PartitionState:
    return PartitionState(
        log_start=fields.number(payload["log_start"]),
        log_end=fields.number(payload["log_end"]),
        trim=fields.number(payload["trim"]),
        owners=fields.several(rows.span_from_row, payload["owners"]),
        roots=fields.several(rows.ref_from_row, payload["roots"]),
        tail_nodes=fields.number(payload["tail_nodes"]),
        size_bytes=fields.number(payload["size_bytes"]),
        is_deleted=fields.flag(payload["is_deleted"]),
    )


def _tail_node_to_json(node: TailNode) -> Payload:
    payload: Payload = {name: getattr(node, name) for name in _TAIL_BOUNDS}
    if node.manifest is None:
        payload["entries"] = [rows.entry_to_row(entry) for entry in node.entries]
    else:
        manifest = node.manifest
        payload["manifest"] = [
            manifest.file,
            manifest.blocks,
            rows.pair_to_row(manifest.producer),
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
        return replace(node, entries=fields.several(rows.entry_from_row, payload["entries"]))
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
        "batches": [rows.batch_to_row(batch) for batch in entry.batches],
        "open_first_offset": entry.open_first_offset,
        "open_owner": entry.open_owner,
    }


def _producer_from_json(payload: Payload) -> ProducerEntry:
    return ProducerEntry(
        epoch=fields.epoch(payload["epoch"]),
        batches=fields.several(rows.batch_from_row, payload["batches"]),
        open_first_offset=fields.maybe(fields.number, payload["open_first_offset"]),
        open_owner=fields.maybe(fields.path, payload["open_owner"]),
    )


# Owners ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OwnerRecord:
    """The payload of any owner's znode; `owner_state` adds the zxid of its decision.

    Attributes:
        partitions, groups: paths of the partitions and group partitions that may list it.
        participants: the (producer id, epoch) pairs that a commit makes visible; None for all (a producer's
            transaction).
        timeout_ms: for a transaction, since its znode's ctime; for a round, since the last set of its znode.
        batch_id, fingerprint, run_id, nonce: only rounds have these.
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
        payload["participants"] = [rows.pair_to_row(pair) for pair in owner.participants]
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
    """The owner's state for the protocol, from its znode."""
    owner = decode_owner(path, znode.data)
    participants = None if owner.participants is None else frozenset(owner.participants)
    return OwnerState(owner.outcome, znode.stat.mzxid, participants, owner.partitions, owner.groups)


# Groups ---------------------------------------------------------------------------------------------------------------


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
    """The payload of a group's znode.

    Attributes:
        owning_prefix: the transactional-id prefix of the sink that owns the group's offsets, if one does.
        is_deleted: whether it is a tombstone. It keeps the version, which orders commits, if the group is used again.
        nonce: of the last commit outside of a transaction, or of the round that staged offsets. A client that finds
            its own nonce knows that its commit succeeded, and that there was no later one.
    """

    owning_prefix: str | None = None
    is_deleted: bool = False
    nonce: str | None = None


def _group_to_json(group: GroupRecord) -> Payload:
    return asdict(group)


def _group_from_json(payload: Payload) -> GroupRecord:
    return GroupRecord(
        owning_prefix=fields.maybe(fields.text, payload["owning_prefix"]),
        is_deleted=fields.flag(payload["is_deleted"]),
        nonce=fields.maybe(fields.text, payload["nonce"]),
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
"""The reader of each field. A field that is missing gets its default."""


# Kinds ---------------------------------------------------------------------------------------------------------------

_topic = Kind(_topic_to_json, _topic_from_json, TopicState.__slots__)
_partition = Kind(_partition_to_json, _partition_from_json, PartitionState.__slots__)
_tail_node = Kind(_tail_node_to_json, _tail_node_from_json, TailNode.__slots__)
_producer = Kind(_producer_to_json, _producer_from_json, ProducerEntry.__slots__)
_owner = Kind(_owner_to_json, _owner_from_json, OwnerRecord.__slots__)
_group_partition = Kind(_group_partition_to_json, _group_partition_from_json, GroupPartitionState.__slots__)
_group = Kind(_group_to_json, _group_from_json, GroupRecord.__slots__)
_transaction = Kind(_transaction_to_json, _transaction_from_json, TransactionMetadata.__slots__)

encode_topic, decode_topic = _topic.encode, _topic.decode
encode_partition, decode_partition = _partition.encode, _partition.decode
encode_tail_node, decode_tail_node = _tail_node.encode, _tail_node.decode
encode_producer, decode_producer = _producer.encode, _producer.decode
encode_owner, decode_owner = _owner.encode, _owner.decode
encode_group_partition, decode_group_partition = _group_partition.encode, _group_partition.decode
encode_group, decode_group = _group.encode, _group.decode
encode_transaction, decode_transaction = _transaction.encode, _transaction.decode
