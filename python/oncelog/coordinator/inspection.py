"""Describes transactions, rounds and ledgers for tools. It only reads, and decides nothing.

Ages are by the store's time, which the caller reads once (znodes/clock.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from oncelog.batches.ledger import EMBEDDED
from oncelog.coordinator import owners, transactional_ids
from oncelog.errors import InvalidProducerIdMappingError
from oncelog.ports import Znode, ZnodeReader, ZnodeStore
from oncelog.protocol.transaction_metadata import TransactionMetadata
from oncelog.protocol.txn_state import TxnState
from oncelog.types import Outcome, ProducerIdAndEpoch, TopicPartition
from oncelog.znodes import paths, payloads


@dataclass(frozen=True, slots=True)
class RoundName:
    """A round: attempt `number` to write a micro-batch of the sink with this `prefix`."""

    prefix: str
    number: int


@dataclass(frozen=True, slots=True)
class OwnerDescription:
    """One owner of data or offsets: a producer's transaction, or a round of a micro-batch.

    Attributes:
        path: of its znode.
        transactional_id, producer: of a producer's transaction; None for a round.
        round: None for a transaction.
        outcome: open, commit or abort. If it is decided, it is not settled yet.
        is_prepared: whether it is prepared, and so never times out.
        age_ms: time since the transaction began, or since the round was last renewed.
        timeout_ms: the age at which any process may abort it.
        partitions: those that it wrote to.
        groups: those whose offsets it holds.
    """

    path: str
    transactional_id: str | None
    producer: ProducerIdAndEpoch | None
    round: RoundName | None
    outcome: Outcome
    is_prepared: bool
    age_ms: int
    timeout_ms: int
    partitions: tuple[TopicPartition, ...]
    groups: tuple[str, ...]

    @property
    def is_overdue(self) -> bool:
        """Whether it is open beyond its time-out."""
        return self.outcome is Outcome.OPEN and not self.is_prepared and self.age_ms > self.timeout_ms


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """One transactional id.

    Attributes:
        producer: its current producer id and epoch.
        state: of its transaction. If a micro-batch's round owns the transaction, the round's decision counts.
        round: the round that owns the transaction, if one does.
    """

    transactional_id: str
    producer: ProducerIdAndEpoch
    state: TxnState
    round: RoundName | None


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """Everything about one transactional id.

    Attributes:
        producer, state, round: as in `TransactionListing`.
        is_prepared: whether its transaction is prepared, and so never times out.
        timeout_ms: of its transactions.
        idle_ms: time since its znode was last written.
        partitions: those that the open or last unsettled transaction wrote to.
        groups: those whose offsets this transaction holds.
        owner: of this transaction; None if there is none, or if it is settled.
    """

    transactional_id: str
    producer: ProducerIdAndEpoch
    state: TxnState
    round: RoundName | None
    is_prepared: bool
    timeout_ms: int
    idle_ms: int
    partitions: tuple[TopicPartition, ...]
    groups: tuple[str, ...]
    owner: OwnerDescription | None


@dataclass(frozen=True, slots=True)
class RoundDescription:
    """One round of a prefix.

    Attributes:
        batch_id, fingerprint: of the batch that it writes.
        run_id: the run of the query that writes it.
        age_ms: time since its driver last renewed it, or since its decision.
        timeout_ms: the age at which any process may abort it if it is open.
        partitions: those that it wrote to.
        transactional_ids: of its participants.
    """

    number: int
    outcome: Outcome
    batch_id: int | None
    fingerprint: str | None
    run_id: str | None
    age_ms: int
    timeout_ms: int
    partitions: tuple[TopicPartition, ...]
    transactional_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LedgerDescription:
    """The ledger of a sink.

    Attributes:
        query_id, sink_name: the query and the sink that it belongs to.
        run_id: the run of the query that may write.
        superseded_runs: earlier runs, which may not write any more.
        group_id: the consumer group whose offsets its batches commit, if any.
        last_batch_id, last_round, last_fingerprint: of the last decided batch; None before the first one.
        rounds: those that still have a znode, oldest first; only the newest may be open.
    """

    prefix: str
    query_id: str
    sink_name: str
    run_id: str
    superseded_runs: tuple[str, ...]
    group_id: str | None
    last_batch_id: int | None
    last_round: int | None
    last_fingerprint: str | None
    rounds: tuple[RoundDescription, ...]

    @property
    def open_rounds(self) -> list[RoundDescription]:
        """The undecided rounds; by the ledger's rules at most one."""
        return [found for found in self.rounds if found.outcome is Outcome.OPEN]


# Owners ---------------------------------------------------------------------------------------------------------------


def describe_owners(reader: ZnodeReader, owner_paths: Iterable[str], now_ms: int) -> list[OwnerDescription]:
    """Describe the owners at these paths, except those that were settled and deleted meanwhile."""
    wanted = list(owner_paths)
    found = [(path, znode) for path, znode in zip(wanted, reader.get_many(wanted), strict=True) if znode is not None]
    ids = {paths.transactional_id_of(path) for path, _ in found if not paths.is_round(path)}
    known = transactional_ids.load_many(reader, ids)
    return [_describe_owner(path, znode, known, now_ms) for path, znode in found]


def _describe_owner(path: str, znode: Znode, known: Mapping[str, TransactionMetadata], now_ms: int) -> OwnerDescription:
    record = payloads.decode_owner(path, znode.data)
    touched = (_partitions(record.partitions), _groups(record.groups))
    if paths.is_round(path):
        age_ms = _since(znode.stat.mtime_ms, now_ms)
        name = _round_name(path)
        return OwnerDescription(path, None, None, name, record.outcome, False, age_ms, record.timeout_ms, *touched)
    transactional_id = paths.transactional_id_of(path)
    stored = known.get(transactional_id)
    is_prepared = stored is not None and stored.owner == path and stored.prepared
    age_ms = _since(znode.stat.ctime_ms, now_ms)
    return OwnerDescription(
        path,
        transactional_id,
        paths.producer_of(path),
        None,
        record.outcome,
        is_prepared,
        age_ms,
        record.timeout_ms,
        *touched,
    )


def find_hanging(store: ZnodeStore, now_ms: int, *, max_age_ms: int | None = None) -> list[OwnerDescription]:
    """Open transactions and rounds beyond their time-out or `max_age_ms`: see `Admin.find_hanging`. Reads all ids."""
    limit_ms = float("inf") if max_age_ms is None else max_age_ms
    described = describe_owners(store, owners.open_owners(store), now_ms)
    hanging = [owner for owner in described if owner.outcome is Outcome.OPEN]
    late = (owner for owner in hanging if owner.is_overdue or owner.age_ms > limit_ms)
    return sorted(late, key=lambda owner: -owner.age_ms)


# Transactional ids ----------------------------------------------------------------------------------------------------


def list_transactions(
    store: ZnodeStore,
    *,
    states: Collection[TxnState] = (),
    prefix: str = "",
    producer_ids: Collection[int] = (),
) -> Iterator[TransactionListing]:
    """The transactional ids that match all given filters: see `Admin.list_transactions`."""
    names = sorted(paths.name_of(segment) for segment in store.children(paths.TRANSACTIONS))
    wanted = [name for name in names if name.startswith(prefix)]
    for at in range(0, len(wanted), owners.ZNODES_PER_READ):
        for listing in _listings(store, wanted[at : at + owners.ZNODES_PER_READ]):
            if (not states or listing.state in states) and (
                not producer_ids or listing.producer.producer_id in producer_ids
            ):
                yield listing


def _listings(store: ZnodeStore, names: list[str]) -> Iterator[TransactionListing]:
    where = [paths.transaction(name) for name in names]
    with store.snapshot() as reader:
        for path, znode in zip(where, reader.get_many(where), strict=True):
            if znode is None:
                continue
            stored = payloads.decode_transaction(path, znode.data)
            if stored.state is not TxnState.DEAD:
                state = transactional_ids.effective_state(reader, stored)
                yield TransactionListing(stored.transactional_id, stored.producer, state, _round_name(stored.round))


def describe_transaction(store: ZnodeStore, transactional_id: str, now_ms: int) -> TransactionDescription:
    """Everything about one transactional id: see `Admin.describe_transaction`."""
    path = paths.transaction(transactional_id)
    with store.snapshot() as reader:
        znode = reader.get(path)
        stored = payloads.decode_transaction(path, znode.data) if znode else None
        if znode is None or stored is None or stored.state is TxnState.DEAD:
            raise InvalidProducerIdMappingError("no such transactional id", transactional_id=transactional_id)
        owner = next(iter(describe_owners(reader, _last_owner(stored), now_ms)), None)
        return TransactionDescription(
            transactional_id=transactional_id,
            producer=stored.producer,
            state=transactional_ids.effective_state(reader, stored),
            round=_round_name(stored.round),
            is_prepared=stored.prepared and stored.round is None,
            timeout_ms=stored.timeout_ms,
            idle_ms=_since(znode.stat.mtime_ms, now_ms),
            partitions=tuple(partition.topic_partition for partition in stored.partitions),
            groups=stored.pending_groups,
            owner=owner,
        )


def _last_owner(stored: TransactionMetadata) -> list[str]:
    return [] if stored.owner is None else [stored.owner]


# Ledgers --------------------------------------------------------------------------------------------------------------


def list_prefixes(reader: ZnodeReader) -> list[str]:
    """The transactional-id prefixes under which sinks have written."""
    return EMBEDDED.prefixes(reader)


def describe_ledger(store: ZnodeStore, prefix: str, now_ms: int) -> LedgerDescription:
    """The ledger of a prefix: see `Admin.describe_ledger`."""
    with store.snapshot() as reader:
        ledger = EMBEDDED.require(reader, prefix)
        last = ledger.last
        return LedgerDescription(
            prefix=prefix,
            query_id=ledger.query_id,
            sink_name=ledger.sink_name,
            run_id=ledger.run_id,
            superseded_runs=ledger.superseded_runs,
            group_id=ledger.group_id,
            last_batch_id=last.batch_id if last else None,
            last_round=last.round if last else None,
            last_fingerprint=last.fingerprint if last else None,
            rounds=tuple(_describe_rounds(reader, prefix, now_ms)),
        )


def _describe_rounds(reader: ZnodeReader, prefix: str, now_ms: int) -> Iterator[RoundDescription]:
    for number in EMBEDDED.round_numbers(reader, prefix):
        path = EMBEDDED.round_path(prefix, number)
        znode = reader.get(path)
        if znode is None:
            continue
        record = payloads.decode_owner(path, znode.data)
        partitions = _partitions(record.partitions)
        yield RoundDescription(
            number=number,
            outcome=record.outcome,
            batch_id=record.batch_id,
            fingerprint=record.fingerprint,
            run_id=record.run_id,
            age_ms=_since(znode.stat.mtime_ms, now_ms),
            timeout_ms=record.timeout_ms,
            partitions=partitions,
            transactional_ids=tuple(transactional_ids.ids_of(path, record.partitions)),
        )


def _since(then_ms: int, now_ms: int) -> int:
    """The time since `then_ms`; never negative, although a znode may be written after `now_ms` was read."""
    return max(now_ms - then_ms, 0)


def _round_name(path: str | None) -> RoundName | None:
    return None if path is None else RoundName(*paths.round_of(path))


def _partitions(found: Iterable[str]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(paths.partition_of(path).topic_partition for path in found))


def _groups(found: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({paths.group_partition_of(path)[0] for path in found}))
