"""Znode payloads of every kind, and the paths of znodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any

from oncelog.batches import payloads as ledger_payloads
from oncelog.batches.ledger import EMBEDDED
from oncelog.batches.payloads import GivenUp
from oncelog.batches.rules import LastBatch, QueryLedger
from oncelog.coordinator import producer_ids
from oncelog.errors import CorruptDataError, FatalError, InvariantViolation, UnsupportedFormatError
from oncelog.log import collection, generations
from oncelog.ports import Stat, Znode
from oncelog.protocol.group_offsets import CommittedOffset, GroupPartitionState, PendingOffset
from oncelog.protocol.partition import (
    IndexEntry,
    IndexRef,
    Manifest,
    Marker,
    OwnerSpan,
    PartitionState,
    TailNode,
    TopicState,
)
from oncelog.protocol.sequencing import AppendedBatch, ProducerEntry
from oncelog.protocol.transaction_metadata import TransactionMetadata
from oncelog.protocol.txn_state import TxnState
from oncelog.types import Block, OffsetAndMetadata, Outcome, ProducerIdAndEpoch, TopicIdPartition
from oncelog.znodes import copying, log_payloads, paths, payloads
from oncelog.znodes.memory import MemoryZnodeStore
from oncelog.znodes.payloads import GroupRecord, OwnerRecord
from oncelog.znodes.rules import split_path
from tests.fuzz.mutators import Pairs, mutated_json, mutated_text, parsed
from tests.fuzz.target import Target, Verdict, expect, expect_of, expect_typed

REFUSALS = (CorruptDataError, UnsupportedFormatError)
PATH = "/where/it/is"
PAIRS = (ProducerIdAndEpoch(7, 0), ProducerIdAndEpoch(2**40, 32766))
OWNER = "/transactions/copier/7.0"
ROUND = "/queries/copier/rounds/3"
BLOCK = Block("data/00000001-a.avro", 100, 2000, 2**32 - 1, 3, 0, 2**53)
IN_PARTITION = TopicIdPartition("flights", "0a1b", 1)

_entries = (
    IndexEntry(0, 3, PAIRS[0], 0, OWNER, BLOCK, None),
    IndexEntry(3, 3, PAIRS[1], 2**31 - 1, None, BLOCK, None),
    IndexEntry(6, 1, PAIRS[0], -1, OWNER, None, Marker(Outcome.ABORT, 0, PAIRS)),
)
_transaction = TransactionMetadata(transactional_id="copier", producer_id=7, epoch=4, timeout_ms=60_000)
_open_transaction = TransactionMetadata(
    transactional_id="größe",
    producer_id=7,
    epoch=4,
    timeout_ms=60_000,
    state=TxnState.ONGOING,
    previous_producer_id=6,
    last_epoch=3,
    next_producer_id=8,
    next_epoch=0,
    partitions=(IN_PARTITION,),
    pending_groups=("g",),
    prepared=True,
    owner=OWNER,
    round=ROUND,
    nonce="n",
)
VALUES: Mapping[str, list[Any]] = {
    "topic": [TopicState("0a1b", 3), TopicState("0a1b", 500, 0, 2**40, is_deleted=True)],
    "partition": [
        PartitionState(),
        PartitionState(
            2,
            70,
            9,
            (OwnerSpan(OWNER, 5, 9, PAIRS), OwnerSpan(ROUND, 6, 6, PAIRS[:1])),
            (IndexRef("index/1", 1, 0, 50, 9, 40, 900, 7, 3), IndexRef("index/2", 0, 50, 60, 2, 9, 99, -1, None)),
            3,
            12345,
        ),
    ],
    "tail_node": [
        TailNode(0, 7, 6, 4000, 9, _entries),
        TailNode(7, 99, 92, 9, -1, manifest=Manifest("manifests/1", 65, PAIRS[1], 5, ROUND)),
    ],
    "producer": [
        ProducerEntry(0),
        ProducerEntry(3, tuple(AppendedBatch(at, 1, 10 + at) for at in range(5)), 12, OWNER),
    ],
    "owner": [
        OwnerRecord(
            Outcome.OPEN, (paths.partition(IN_PARTITION),), (paths.group_partition("g", IN_PARTITION),), None, 60
        ),
        OwnerRecord(Outcome.COMMIT, (paths.partition(IN_PARTITION),), (), PAIRS, 9, 4, "fp", "run", "nonce"),
    ],
    "group_partition": [
        GroupPartitionState(),
        GroupPartitionState(
            CommittedOffset(OffsetAndMetadata(9, "me"), -3), (PendingOffset(OWNER, OffsetAndMetadata(12), 4),)
        ),
    ],
    "group": [GroupRecord(), GroupRecord("copier", is_deleted=True, nonce="n")],
    "ledger": [
        QueryLedger("q", "s", "r"),
        QueryLedger("q", "s", "r", ("r0", "r1"), 7, LastBatch(3, "fp", 6, "r0", "call"), "g"),
    ],
    "given_up": [
        GivenUp(0, 0, 0, (), 0, "", ""),
        GivenUp(7, 3, 9, ("part-0", "part-1"), 12, "the table is gone", "operator", was_shown=True),
    ],
    "transaction": [_transaction, _open_transaction],
}
"""Of every kind of payload, one with as little and one with as much as may be."""


def codec(name: str) -> Any:
    """The function of that name which writes or reads payloads of a kind."""
    return getattr(ledger_payloads if name.endswith(("_ledger", "_given_up")) else payloads, name)


OPTIONAL = {
    "owner": {"participants", "batch_id", "fingerprint", "run_id", "nonce"},
    "kafka_round": {"began_ms"},
}

OPTIONAL_WITHIN = {("ledger", "last"): ["call_id"]}
"""Fields of a field that an older oncelog leaves out; written again, they are null."""


class Payload(Target):
    """A mutated payload of one kind: a value that a writer could have written, or a clear error with the znode's path.

    Oracle: a znode has no checksum, so another valid value cannot be told. But a payload that is read is one: written
    again it is the same JSON (same fields, no type converted, nothing dropped, no name twice), every field has its
    declared type, and every number lies within the bounds that its name stands for.
    """

    weight = 0.8

    def __init__(self, kind: str) -> None:
        self.name = f"payload-{kind.replace('_', '-')}"
        self._kind = kind

    def prepare(self) -> None:
        self.encode = codec(f"encode_{self._kind}")
        self.decode = codec(f"decode_{self._kind}")
        self.written = [self.encode(value) for value in VALUES[self._kind]]
        self.trees = [parsed(codec(f"encode_{kind}")(value)) for kind in VALUES for value in VALUES[kind]]

    def valid(self) -> Iterable[bytes]:
        return self.written

    def make(self, chance: Random) -> bytes:
        return mutated_json(chance, chance.choice(self.written), self.trees)

    def check(self, data: bytes) -> Verdict:
        try:
            value = self.decode(PATH, data)
        except REFUSALS as error:
            expect(error.fields["path"] == PATH, "the error names another znode", fields=error.fields)
            return Verdict.REFUSED
        expect_typed(value)
        self._expect_same_again(parsed(data), self.encode(value))
        indented = json.dumps(json.loads(self.encode(value)), indent=1).encode()  # not what the process remembers
        expect(self.decode(PATH, indented) == value, "what is written of it reads as another value")
        return Verdict.CORRECT

    def _expect_same_again(self, found: Any, again: bytes) -> None:
        expect(isinstance(found, Pairs), "a payload that is no object was read")
        names = [name for name, _ in found]
        expect(len(set(names)) == len(names), "a payload that names a field twice was read")
        rest = dict(parsed(again))
        for name, value in found:
            if value is None and name not in rest:
                continue  # it is left out
            expect(name in rest, "a field was dropped", name=name)
            if isinstance(value, Pairs):
                left_out = {*OPTIONAL_WITHIN.get((self._kind, name), ())} - {inner for inner, _ in value}
                value = Pairs([*value, *((inner, None) for inner in left_out)])
            expect(canonical(value) == canonical(rest.pop(name)), "a field was converted", name=name, found=value)
        missing = rest.keys() - OPTIONAL.get(self._kind, set())
        expect(self._kind == "transaction" or not missing, "a field was made up", names=missing)


def canonical(tree: Any) -> str:
    """JSON text with sorted names; it tells 1 from 1.0 and true."""
    return json.dumps(json.loads(json.dumps(tree) if not isinstance(tree, Pairs) else _text(tree)), sort_keys=True)


def _text(pairs: Pairs) -> str:
    expect(len({name for name, _ in pairs}) == len(pairs), "an object that names a field twice was read")
    return "{" + ",".join(f"{json.dumps(name)}:{canonical(value)}" for name, value in pairs) + "}"


class SmallPayload(Target):
    """The payloads that the log as a whole has: its format, the generation, producer ids, candidates, holds.

    Oracle: the reader's value is of its documented type and within 64 bits, and equal to what the field of the JSON
    says; or a clear error with the znode's path. Producer ids that are used up are an error too.
    """

    name = "payload-of-the-log"
    weight = 0.8

    def prepare(self) -> None:
        self.paths = [paths.FORMAT, paths.GENERATION, paths.PRODUCER_IDS, paths.CANDIDATES, f"{paths.HOLDS}/a"]
        self.written = [
            paths.encode({"cluster_id": "c1"}),
            paths.encode({"generation": 3}),
            paths.encode({"next": 2000, "nonce": "n"}),
            paths.encode(
                {"found_ms": {"data/00000001-a.avro": 2, "index/00000002-b.avro": 3}, "parts": [f"{0:032x}-1"]}
            ),
            paths.encode({"writer": "a job"}),
        ]
        self.trees = [parsed(data) for data in self.written]

    def valid(self) -> Iterable[bytes]:
        return [bytes([at]) + data for at, data in enumerate(self.written)]

    def make(self, chance: Random) -> bytes:
        at = chance.randrange(5)
        return bytes([at]) + mutated_json(chance, self.written[at], self.trees)

    def check(self, data: bytes) -> Verdict:
        at, payload = data[0] % 5, data[1:]
        path = self.paths[at]
        try:
            found = self._read(at, payload)
        except REFUSALS as error:
            expect(error.fields["path"] == path, "the error names another znode", fields=error.fields)
            return Verdict.REFUSED
        except FatalError:
            expect(at == 2, "an error that nobody documents")
            return Verdict.REFUSED
        fields = json.loads(payload)
        expect_of(found, (str, int, int, dict[str, int], str)[at], path)
        expected = [fields.get(name) for name in ("cluster_id", "generation", "next", "found_ms", "writer")][at]
        if at == 3 and "files" in fields:
            expected = {}
        expect(found == expected, "another value than stands there", found=found)
        return Verdict.CORRECT

    def _read(self, at: int, payload: bytes) -> object:
        if at == 0:
            return copying.cluster_id_of(payload)
        if at == 4:
            return log_payloads.decode_hold(self.paths[at], payload)
        store = MemoryZnodeStore()
        store.transact(lambda view: _create_below(view, self.paths[at], payload))
        if at == 1:
            return generations.current(store)
        if at == 3:
            return collection.read_candidates(store)
        return store.transact(lambda view: producer_ids._next_block(view, "mine"))


def _create_below(view: Any, path: str, data: bytes) -> None:
    parent = path.rpartition("/")[0]
    if parent:
        view.create(parent)
    view.create(path, data)


class ZnodePath(Target):
    """Paths of znodes, taken apart: the parts of which the same path is made again, or a clear error with the path.

    Oracle: the function that makes a path out of its parts.
    """

    name = "znode-path"

    def prepare(self) -> None:
        self.paths = [
            paths.partition(IN_PARTITION),
            paths.group_partition("größe/1", IN_PARTITION),
            EMBEDDED.round_path("a b", 12),
            paths.transaction_owner("co.pier", 7, 3),
        ]

    def valid(self) -> Iterable[bytes]:
        return [bytes([at]) + path.encode() for at, path in enumerate(self.paths)]

    def make(self, chance: Random) -> bytes:
        at = chance.randrange(4)
        return bytes([at]) + mutated_text(chance, self.paths[at], self.paths).encode("utf-8", "surrogatepass")

    def check(self, data: bytes) -> Verdict:
        at, path = data[0] % 4, data[1:].decode("utf-8", "surrogatepass")
        try:
            split_path(path)
        except InvariantViolation:
            return Verdict.REFUSED  # no store has such a path
        try:
            again = self._again(at, path)
        except CorruptDataError as error:
            expect(error.fields["path"] == path, "the error names another path", fields=error.fields)
            return Verdict.REFUSED
        expect(paths.name_of(again) == paths.name_of(path), "the parts of a path make another one", again=again)
        return Verdict.CORRECT

    def _again(self, at: int, path: str) -> str:
        if at == 0:
            return paths.partition(paths.partition_of(path))
        if at == 1:
            return paths.group_partition(*paths.group_partition_of(path))
        if at == 2:
            return EMBEDDED.round_path(*paths.round_of(path))
        producer = paths.producer_of(path)
        return paths.transaction_owner(paths.transactional_id_of(path), producer.producer_id, producer.epoch)


class OwnerZnode(Payload):
    """An owner's znode as the protocol reads it. Oracle: that of `Payload`, and the state is what the record says."""

    def __init__(self) -> None:
        super().__init__("owner")
        self.name = "owner-state"

    def check(self, data: bytes) -> Verdict:
        try:
            state = payloads.owner_state(PATH, Znode(data, Stat(1, 5, 0, 0, 0)))
        except REFUSALS as error:
            expect(error.fields["path"] == PATH, "the error names another znode", fields=error.fields)
            return Verdict.REFUSED
        record = self.decode(PATH, data)
        expect(state.decided_zxid == 5 and state.outcome is record.outcome, "another state than the record's")
        return Verdict.CORRECT


TARGETS: dict[str, Callable[[], Target]] = {
    **{f"payload-{kind.replace('_', '-')}": (lambda kind=kind: Payload(kind)) for kind in VALUES},  # type: ignore[misc]
    OwnerZnode().name: OwnerZnode,
    SmallPayload.name: SmallPayload,
    ZnodePath.name: ZnodePath,
}
