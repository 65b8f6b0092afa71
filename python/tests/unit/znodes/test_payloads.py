"""Every payload reads back as the value that was written; damaged or newer ones are errors that name the znode."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.batches import payloads as ledger_payloads
from oncelog.batches.ledger import EMBEDDED
from oncelog.batches.payloads import GivenUp
from oncelog.batches.rules import LastBatch, QueryLedger
from oncelog.errors import CorruptDataError, UnsupportedFormatError
from oncelog.limits import DEDUPE_WINDOW, MAX_PARTITIONS
from oncelog.ports import Stat, Znode
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
    MAX_PRODUCER_EPOCH,
    MAX_SEQUENCE,
    NO_SEQUENCE,
    Block,
    OffsetAndMetadata,
    Outcome,
    ProducerIdAndEpoch,
    TopicIdPartition,
)
from oncelog.znodes import kinds, paths, payloads, rows
from oncelog.znodes.payloads import GroupRecord, OwnerRecord
from tests.support import strategies

PATH = "/where/it/is"


# Values ---------------------------------------------------------------------------------------------------------------


def tuples(elements: st.SearchStrategy[Any], max_size: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(elements, max_size=max_size).map(tuple)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


names = strategies.names()
numbers = strategies.integers(0)
epochs = st.integers(0, MAX_PRODUCER_EPOCH)
flags = st.booleans()
pairs = st.builds(ProducerIdAndEpoch, numbers, epochs)
counts = strategies.integers(1)
times = strategies.integers(-1)
sequences = st.integers(0, MAX_SEQUENCE)
segments = st.sampled_from(["0a1b", "x", "9"])
owners = st.sampled_from(
    [paths.transaction_owner("gr/öße", 7, 3), EMBEDDED.round_path("a b", 12), "/transactions/x/1.0"]
)
blocks = st.builds(Block, names, numbers, numbers, st.integers(0, 2**32 - 1), counts, times, times)
markers = st.builds(Marker, st.sampled_from(Outcome), numbers, tuples(pairs))
entries = st.one_of(
    st.builds(IndexEntry, numbers, counts, pairs, sequences, maybe(owners), blocks, st.none()),
    st.builds(IndexEntry, numbers, counts, pairs, st.just(NO_SEQUENCE), owners, st.none(), markers),
)
refs = st.builds(IndexRef, names, numbers, numbers, numbers, numbers, numbers, numbers, times, maybe(numbers))
spans = st.builds(OwnerSpan, owners, numbers, numbers, st.lists(pairs, min_size=1, max_size=3).map(tuple))
partitions = st.builds(TopicIdPartition, names, segments, st.integers(0, 500))
values = st.builds(OffsetAndMetadata, numbers, strategies.texts(5))
manifests = st.builds(Manifest, names, numbers, pairs, sequences, maybe(owners))
last_batches = st.builds(LastBatch, numbers, names, numbers, names, maybe(names))

topics = st.builds(TopicState, segments, st.integers(1, MAX_PARTITIONS), maybe(numbers), maybe(numbers), flags)
partition_states = st.builds(
    PartitionState, numbers, numbers, numbers, tuples(spans), tuples(refs), numbers, numbers, flags
)
tail_nodes = st.one_of(
    st.builds(TailNode, numbers, numbers, numbers, numbers, times, entries=tuples(entries)),
    st.builds(TailNode, numbers, numbers, numbers, numbers, times, manifest=manifests),
)
window = tuples(st.builds(AppendedBatch, sequences, counts, numbers), DEDUPE_WINDOW)
producer_entries = st.one_of(
    st.builds(ProducerEntry, epochs, window),
    st.builds(ProducerEntry, epochs, window, open_first_offset=numbers, open_owner=owners),
)
owner_records = st.builds(
    OwnerRecord,
    st.sampled_from(Outcome),
    tuples(st.builds(paths.partition, partitions)),
    tuples(st.builds(partial(paths.group_partition, "gr/öße"), partitions)),
    maybe(tuples(pairs)),
    numbers,
    maybe(numbers),
    maybe(names),
    maybe(names),
    maybe(names),
)
group_partitions = st.builds(
    GroupPartitionState,
    maybe(st.builds(CommittedOffset, values, numbers)),
    tuples(st.builds(PendingOffset, owners, values, numbers)),
)
groups = st.builds(GroupRecord, maybe(names), flags, maybe(names))
ledgers = st.builds(
    QueryLedger, names, names, names, tuples(names), numbers, maybe(last_batches), group_id=maybe(names)
)
given_up = st.builds(GivenUp, numbers, numbers, numbers, tuples(names), numbers, names, names, flags)


@st.composite
def transactions(draw: st.DrawFn) -> TransactionMetadata:
    """Metadata in every state that may be stored, with what may go with that state."""
    state = draw(st.sampled_from([state for state in TxnState if state is not TxnState.PREPARE_EPOCH_FENCE]))
    is_open = state is TxnState.ONGOING
    is_prepared = is_open and draw(flags)
    is_kept = is_prepared and draw(flags)
    touches = is_open or state in (TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT)
    own, kept = (draw(numbers), draw(epochs)), (draw(numbers), draw(epochs)) if is_kept else (-1, -1)
    now_id, now_epoch = kept if is_kept else own
    previous_id = draw(st.integers(-1, 9))
    return TransactionMetadata(
        transactional_id=draw(names),
        producer_id=own[0],
        epoch=own[1],
        timeout_ms=draw(numbers),
        state=state,
        previous_producer_id=previous_id,
        last_epoch=draw(st.integers(-1, min(9, now_epoch - 1) if previous_id == now_id else 9)),
        next_producer_id=kept[0],
        next_epoch=kept[1],
        partitions=(draw(partitions), *draw(tuples(partitions))) if touches else (),
        pending_groups=draw(tuples(names)) if touches else (),
        prepared=is_prepared,
        owner=draw(owners) if is_open else draw(maybe(owners)),
        round=draw(maybe(owners)),
        nonce=draw(st.text(max_size=5)),
    )


class Kind(NamedTuple):
    name: str
    encode: Callable[[Any], bytes]
    decode: Callable[[str, bytes], Any]
    values: st.SearchStrategy[Any]


KINDS = [
    Kind("topic", payloads.encode_topic, payloads.decode_topic, topics),
    Kind("partition", payloads.encode_partition, payloads.decode_partition, partition_states),
    Kind("tail node", payloads.encode_tail_node, payloads.decode_tail_node, tail_nodes),
    Kind("producer", payloads.encode_producer, payloads.decode_producer, producer_entries),
    Kind("owner", payloads.encode_owner, payloads.decode_owner, owner_records),
    Kind("group partition", payloads.encode_group_partition, payloads.decode_group_partition, group_partitions),
    Kind("group", payloads.encode_group, payloads.decode_group, groups),
    Kind("ledger", ledger_payloads.encode_ledger, ledger_payloads.decode_ledger, ledgers),
    Kind("given up", ledger_payloads.encode_given_up, ledger_payloads.decode_given_up, given_up),
    Kind("transaction", payloads.encode_transaction, payloads.decode_transaction, transactions()),
]

few_examples = settings(max_examples=settings().max_examples // 4)

every_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])


def as_another_wrote_it(payload: Any) -> bytes:
    """Bytes that this process never wrote, so that they are read and not remembered."""
    return json.dumps(payload, indent=1).encode()


def test_every_kind_of_payload_is_tested() -> None:
    names = [*vars(payloads), *vars(ledger_payloads)]
    pairs_of_functions = {name.removeprefix("encode_") for name in names if name.startswith("encode_")}

    assert {kind.name.replace(" ", "_") for kind in KINDS} == pairs_of_functions


# Both ways ------------------------------------------------------------------------------------------------------------


@every_kind
@given(st.data())
def test_a_value_reads_back_equal_from_its_bytes(kind: Kind, data: st.DataObject) -> None:
    value = data.draw(kind.values)
    written = kind.encode(value)

    assert kind.decode(PATH, as_another_wrote_it(json.loads(written))) == value
    assert kind.decode(PATH, written) == value, "remembered"


@every_kind
@few_examples
@given(st.data())
def test_a_payload_is_a_compact_json_object_with_its_version(kind: Kind, data: st.DataObject) -> None:
    written = kind.encode(data.draw(kind.values))

    payload = json.loads(written)
    assert payload["version"] == paths.PAYLOAD_VERSION
    assert written == json.dumps(payload, separators=(",", ":")).encode()


@given(owner_records, numbers)
def test_an_owner_is_decided_at_the_zxid_of_its_last_write(record: OwnerRecord, zxid: int) -> None:
    znode = Znode(payloads.encode_owner(record), Stat(1, zxid, 0, 0, 0))

    participants = None if record.participants is None else frozenset(record.participants)
    assert payloads.owner_state(PATH, znode) == OwnerState(
        record.outcome, zxid, participants, record.partitions, record.groups
    )


def test_payloads_of_some_bytes_are_remembered_and_the_others_are_read() -> None:
    read: list[int] = []

    def from_json(payload: dict[str, int]) -> int:
        read.append(payload["number"])
        return payload["number"]

    kind = kinds.Kind(lambda number: {"number": number, "padding": "x" * 2**16}, from_json, ["number", "padding"])
    room = kinds.CACHE_BYTES // (2**16 + 100)
    written = [kind.encode(number) for number in range(room)]

    assert [kind.decode(PATH, data) for data in written] == list(range(room))
    assert read == []
    kind.encode(-1)
    assert [kind.decode(PATH, data) for data in written[:2]] == [0, 1]
    assert read == [0, 1]


# Damaged and newer ----------------------------------------------------------------------------------------------------


@every_kind
@few_examples
@given(st.data())
def test_a_newer_version_is_refused_and_named_however_it_looks(kind: Kind, data: st.DataObject) -> None:
    version = data.draw(st.integers(paths.PAYLOAD_VERSION + 1, 99))
    payload = data.draw(st.sampled_from([json.loads(kind.encode(data.draw(kind.values))), {}]))

    with pytest.raises(UnsupportedFormatError) as refused:
        kind.decode(PATH, as_another_wrote_it({**payload, "version": version}))

    assert refused.value.fields == {"path": PATH, "found": version, "known": paths.PAYLOAD_VERSION}


NO_PAYLOADS = [b"", b"\0\0", b"\xff\xfe", b"null", b"1", b"[]", b"{}", b'"version"', b"[" * 100_000]


def expect_corrupt(kind: Kind, data: bytes) -> None:
    with pytest.raises(CorruptDataError) as refused:
        kind.decode(PATH, data)
    assert refused.value.fields["path"] == PATH


@every_kind
@pytest.mark.parametrize("data", NO_PAYLOADS, ids=[repr(data[:10]) for data in NO_PAYLOADS])
def test_what_is_no_payload_is_corrupt(kind: Kind, data: bytes) -> None:
    expect_corrupt(kind, data)


@every_kind
@few_examples
@given(st.data())
def test_a_truncated_payload_is_corrupt(kind: Kind, data: st.DataObject) -> None:
    written = kind.encode(data.draw(kind.values))

    expect_corrupt(kind, written[: data.draw(st.integers(0, len(written) - 1))])


OPTIONAL = {
    "owner": {"participants", "batch_id", "fingerprint", "run_id", "nonce"},
    "transaction": set(TransactionMetadata.__slots__) - {"transactional_id", "producer_id", "epoch", "timeout_ms"},
}
"""What a payload may lack: it then has its default."""


@every_kind
@few_examples
@given(st.data())
def test_a_payload_that_lacks_a_field_is_corrupt(kind: Kind, data: st.DataObject) -> None:
    payload = json.loads(kind.encode(data.draw(kind.values)))
    lost = data.draw(st.sampled_from(sorted(payload.keys() - OPTIONAL.get(kind.name, set()))))
    del payload[lost]

    expect_corrupt(kind, as_another_wrote_it(payload))


FOREIGN = [None, True, -1, 1.5, 1e999, float("nan"), "", "x", "/topics/t/i/0/more", [], [1], ["x", 2], {}, {"a": 1}]
"""JSON values; 1e999 is written as Infinity, which Python reads back."""


@every_kind
@settings(max_examples=settings().max_examples // 10)
@given(st.data())
def test_a_payload_with_a_foreign_value_in_any_place_is_read_or_is_corrupt(kind: Kind, data: st.DataObject) -> None:
    """Not every damage can be told; but no other error gets through, and none without the path."""
    payload = json.loads(kind.encode(data.draw(kind.values)))
    for holder, key in list(places(payload)):
        before = holder[key]
        for holder[key] in FOREIGN:
            error = error_of(kind, as_another_wrote_it(payload))
            assert error is None or error.fields["path"] == PATH
        holder[key] = before


BLOCK_ROW = ["data/00000001-a.avro", 0, 0, 2**32 - 1, 1, -1, 2**63 - 1]
REF_ROW = ["index/00000001-a.avro", 0, 0, 1, 1, 1, 1, -1, None]


@pytest.mark.parametrize(
    ("at", "value"),
    [(0, 7), (0, None), (1, -1), (1, 1.0), (1, True), (1, "7"), (1, None), (2, 2**63), (3, 2**32), (4, 0), (5, -2)],
)
def test_a_block_with_a_value_that_no_writer_gives_is_refused(at: int, value: object) -> None:
    rows.block_from_row(BLOCK_ROW)

    with pytest.raises(ValueError, match="not a row of Block"):
        rows.block_from_row([*BLOCK_ROW[:at], value, *BLOCK_ROW[at + 1 :]])


@pytest.mark.parametrize("value", [-1, "7", True])
def test_what_may_be_null_is_of_its_type_otherwise(value: object) -> None:
    assert rows.ref_from_row(REF_ROW).aborted_first is None

    with pytest.raises(ValueError, match="not a row of IndexRef"):
        rows.ref_from_row([*REF_ROW[:-1], value])


@pytest.mark.parametrize("row", [BLOCK_ROW[:-1], [*BLOCK_ROW, 0], {}, "1234567"])
def test_a_row_of_another_length_or_shape_is_refused(row: object) -> None:
    with pytest.raises(ValueError, match=r"argument|array"):
        rows.block_from_row(row)


def error_of(kind: Kind, data: bytes) -> CorruptDataError | UnsupportedFormatError | None:
    try:
        kind.decode(PATH, data)
    except (CorruptDataError, UnsupportedFormatError) as error:
        return error
    return None


def places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every place of a JSON tree, as what holds it and its key there."""
    keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for key in keys:
        yield node, key
        yield from places(node[key])
