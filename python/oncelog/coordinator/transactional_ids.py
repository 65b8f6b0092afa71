"""Transactional ids as znodes: loads metadata, runs a step of the pure core, stores the result, executes instructions.

All functions work on the view of a running step, so that callers can combine several in one multi. All rules are in
protocol/coordinator_core.py; this module decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from oncelog import limits
from oncelog.coordinator import groups
from oncelog.errors import CorruptDataError, InvalidTxnStateError, StepTooLargeError
from oncelog.log import partition_reads
from oncelog.ports import ZnodeReader, ZnodeView
from oncelog.protocol import coordinator_core as core
from oncelog.protocol import coordinator_events as events
from oncelog.protocol.coordinator_events import ProducerIdNeeded, Step
from oncelog.protocol.partition import OwnerState
from oncelog.protocol.transaction_metadata import TransactionMetadata
from oncelog.protocol.txn_state import TxnState
from oncelog.types import Outcome, ProducerIdAndEpoch, TopicIdPartition
from oncelog.znodes import paths, payloads
from oncelog.znodes.payloads import OwnerRecord


def load(reader: ZnodeReader, transactional_id: str) -> TransactionMetadata | None:
    """The stored metadata; None if the id is unknown.

    Raises:
        CorruptDataError: the id's znode cannot be read, or has the metadata of another id.
    """
    return load_many(reader, [transactional_id]).get(transactional_id)


def load_many(reader: ZnodeReader, transactional_ids: Iterable[str]) -> dict[str, TransactionMetadata]:
    """The same of several ids, read together, without those that are unknown."""
    wanted = list(transactional_ids)
    where = [paths.transaction(one) for one in wanted]
    found = {}
    for transactional_id, path, znode in zip(wanted, where, reader.get_many(where), strict=True):
        if znode is None:
            continue
        stored = payloads.decode_transaction(path, znode.data)
        if stored.transactional_id != transactional_id:
            raise CorruptDataError("a znode holds the metadata of another id", path=path, found=stored.transactional_id)
        found[transactional_id] = stored
    return found


def owner_outcome(reader: ZnodeReader, metadata: TransactionMetadata | None) -> Outcome | None:
    """The outcome of the id's open or last transaction; None if its owner was settled and deleted."""
    if metadata is None or metadata.owner is None:
        return None
    state = partition_reads.read_owner(reader, metadata.owner)
    return None if state is None else state.outcome


def effective_state(reader: ZnodeReader, stored: TransactionMetadata) -> TxnState:
    """The state as readers see it: for a participant of a round, the round's decision counts, though it is not stored.

    A participant that the round does not list (any more) is not committed. It is complete once no partition lists the
    round.
    """
    if stored.round is None or stored.open_transaction is None or stored.owner is None:
        return stored.state
    owner = partition_reads.read_owner(reader, stored.owner)
    outcome = Outcome.ABORT if owner is None else owner.outcome_for(stored.open_transaction)
    if outcome is Outcome.OPEN:
        return TxnState.ONGOING
    is_settled = not any(_lists(reader, partition, stored.owner) for partition in stored.partitions)
    if outcome is Outcome.COMMIT:
        return TxnState.COMPLETE_COMMIT if is_settled else TxnState.PREPARE_COMMIT
    return TxnState.COMPLETE_ABORT if is_settled else TxnState.PREPARE_ABORT


def _lists(reader: ZnodeReader, partition: TopicIdPartition, owner: str) -> bool:
    if not partition_reads.exists(reader, partition):
        return False
    return partition_reads.read_partition(reader, partition).span_of(owner) is not None


def apply(view: ZnodeView, event: events.Event) -> Step:
    """Run one step of the core on the stored metadata, and write the result. If the core raises, nothing is written."""
    before = load(view, event.transactional_id)
    step = core.step(before, event)
    if step.metadata is not before:
        path = paths.transaction(event.transactional_id)
        data = payloads.encode_transaction(step.metadata)
        if isinstance(event, events.AddPartitions | events.AddOffsets):
            ensure_room(path, data)
        write = view.create if before is None else view.set
        write(path, data)
    for instruction in step.instructions:
        _execute(view, instruction, step.metadata.timeout_ms)
        if isinstance(instruction, events.Decide):
            _finish_if_unlisted(view, instruction.owner)
    return step


def _execute(view: ZnodeView, instruction: events.Instruction, timeout_ms: int) -> None:
    if isinstance(instruction, events.Decide):
        _decide(view, instruction)
        return
    partitions = tuple(paths.partition(partition) for partition in instruction.partitions)
    if isinstance(instruction, events.CreateOwner):
        record = OwnerRecord(Outcome.OPEN, partitions, timeout_ms=timeout_ms)
        grow_owner(view, instruction.owner, record, exists=False)
    elif not paths.is_round(instruction.owner):  # only its driver writes a round's znode (rounds.py)
        record = _open_owner(view, instruction.owner)
        grow_owner(view, instruction.owner, replace(record, partitions=partitions))


def ensure_room(path: str, data: bytes) -> None:
    """Refuse a transaction that grows so large that the step that ends it would not fit into a multi.

    Raises:
        StepTooLargeError: abort it; nothing was written.
    """
    if len(data) > limits.MAX_TRANSACTION_BYTES:
        raise StepTooLargeError(
            "the transaction has too many partitions to be ended in one step; write to fewer partitions in one "
            "transaction, or use shorter names",
            path=path,
            size_bytes=len(data),
            maximum_bytes=limits.MAX_TRANSACTION_BYTES,
        )


def grow_owner(view: ZnodeView, owner: str, record: OwnerRecord, *, exists: bool = True) -> None:
    """Write an open owner that names more partitions or groups than before.

    Raises:
        StepTooLargeError: see `ensure_room`.
    """
    data = payloads.encode_owner(record)
    ensure_room(owner, data)
    (view.set if exists else view.create)(owner, data)


def _decide(view: ZnodeView, decision: events.Decide) -> None:
    record = _open_owner(view, decision.owner)
    view.set(decision.owner, payloads.encode_owner(replace(record, outcome=decision.outcome)))
    view.set_blind(paths.COMMITS, b"")


def _finish_if_unlisted(view: ZnodeView, owner: str) -> None:
    """Finish an owner that only staged offsets, together with its decision: no partition lists it for a settler."""
    state = partition_reads.read_owner(view, owner)
    if state is None or state.partitions or len(state.groups) > groups.PARTITIONS_PER_STEP:
        return
    size_bytes = sum(len(znode.data) for znode in view.get_many(state.groups) if znode is not None)
    if size_bytes <= limits.MAX_TRANSACTION_BYTES and fold(view, owner, state):
        view.delete(owner)


def _open_owner(view: ZnodeView, owner: str) -> OwnerRecord:
    znode = view.get(owner)
    record = payloads.decode_owner(owner, znode.data) if znode else None
    if record is None or record.outcome is not Outcome.OPEN:
        raise InvalidTxnStateError("the transaction's owner is not open", owner=owner)
    return record


def commit_at_once(
    view: ZnodeView, transactional_id: str, producer: ProducerIdAndEpoch, owner: str, fresh_producer_id: int | None
) -> ProducerIdAndEpoch:
    """Commit a transaction that consists of one append to one partition, which the caller makes in the same step.

    The append writes the marker, too (`partition_log.append`). Returns the identity of the next transaction.
    """
    event = events.CommitAtOnce(
        transactional_id=transactional_id, producer=producer, owner=owner, fresh_producer_id=fresh_producer_id
    )
    return apply(view, event).answer


def add_groups_to_owner(view: ZnodeView, owner: str, group_partitions: Sequence[str]) -> None:
    """Add group partitions to the owner's znode, so that settling finds them."""
    record = _open_owner(view, owner)
    listed = tuple(sorted({*record.groups, *group_partitions}))
    grow_owner(view, owner, replace(record, groups=listed))


# Participants of a round ----------------------------------------------------------------------------------------------


def join_round(
    view: ZnodeView, transactional_id: str, round_path: str, nonce: str, fresh_producer_id: int | None
) -> ProducerIdAndEpoch:
    """Initialise a participant for an open round; also completes its transaction in an earlier round, if any."""
    stored = load(view, transactional_id)
    event = events.InitProducerId(
        transactional_id=transactional_id,
        timeout_ms=limits.DEFAULT_TRANSACTION_TIMEOUT_MS,
        max_timeout_ms=limits.MAX_TRANSACTION_TIMEOUT_MS,
        nonce=nonce,
        owner_outcome=owner_outcome(view, stored),
        round=round_path,
        fresh_producer_id=fresh_producer_id,
    )
    return apply(view, event).answer


def add_partitions(
    view: ZnodeView,
    transactional_id: str,
    producer: ProducerIdAndEpoch,
    partitions: Sequence[TopicIdPartition],
    owner: str,
) -> Step:
    """Add partitions to the transaction; the first ones begin it."""
    event = events.AddPartitions(
        transactional_id=transactional_id, producer=producer, partitions=tuple(partitions), owner=owner
    )
    return apply(view, event)


def prepare(view: ZnodeView, transactional_id: str, producer: ProducerIdAndEpoch) -> ProducerIdAndEpoch:
    """Mark the open transaction as prepared; returns the identity that its token names."""
    return apply(view, events.Prepare(transactional_id=transactional_id, producer=producer)).answer


# Upkeep ---------------------------------------------------------------------------------------------------------------


def fold(view: ZnodeView, owner: str, state: OwnerState) -> bool:
    """Before a decided owner's znode is deleted: fold in or drop its group offsets, complete its transactional ids.

    Args:
        owner: path of an owner that no partition lists.
        state: of the owner, or a part of it.

    Returns:
        False if an id needs a new producer id for that. Then its next init completes it, and the znode must stay.
    """
    for path in state.groups:
        groups.settle(view, path, owner, state)
    for transactional_id in ids_of(owner, state.partitions):
        stored = load(view, transactional_id)
        if stored is None or stored.owner != owner or stored.state is TxnState.DEAD:
            continue
        try:
            apply(view, events.Complete(transactional_id=transactional_id, owner_outcome=state.outcome))
        except ProducerIdNeeded:
            return False
    return True


def ids_of(owner: str, partitions: Iterable[str]) -> list[str]:
    """The transactional ids of an owner that wrote to `partitions`: its own, or those of a round's participants."""
    if not paths.is_round(owner):
        return [paths.transactional_id_of(owner)]
    prefix, _ = paths.round_of(owner)
    numbers = {paths.partition_of(path).partition for path in partitions}
    return [f"{prefix}-{number}" for number in sorted(numbers)]


def time_out(view: ZnodeView, owner: str, fresh_producer_id: int | None) -> bool:
    """Abort and fence the transaction of `owner` if it is open and not prepared; returns whether this step did it."""
    transactional_id = paths.transactional_id_of(owner)
    stored = load(view, transactional_id)
    if stored is None or stored.owner != owner or stored.open_transaction is None or stored.prepared:
        return False
    apply(
        view,
        events.TimedOut(
            transactional_id=transactional_id, producer=stored.producer, fresh_producer_id=fresh_producer_id
        ),
    )
    return True


def force_abort(view: ZnodeView, transactional_id: str, owner: str, fresh_producer_id: int | None) -> bool:
    """Abort the transaction of `owner`, prepared or not, for an operator, and fence its producer.

    Returns:
        whether this step did it; False if that transaction is decided. The id may have begun its next one.

    Raises:
        InvalidTxnStateError: a micro-batch owns it; abort the round instead.
    """
    stored = load(view, transactional_id)
    if stored is None or stored.open_transaction is None or stored.owner != owner:
        return False
    apply(
        view,
        events.EndTxn(
            transactional_id=transactional_id,
            producer=stored.producer,
            commit=False,
            fresh_producer_id=fresh_producer_id,
        ),
    )
    return True


def expire(view: ZnodeView, transactional_id: str, version: int) -> bool:
    """Expire an idle id if its znode still has `version`. The znode stays as a tombstone (limits.TOMBSTONE_MS)."""
    znode = view.get(paths.transaction(transactional_id))
    if znode is None or znode.stat.version != version:
        return False
    stored = load(view, transactional_id)
    outcome = owner_outcome(view, stored)
    try:
        apply(view, events.Expire(transactional_id=transactional_id, owner_outcome=outcome))
    except (InvalidTxnStateError, ProducerIdNeeded):
        return False
    return True


def remove_tombstone(view: ZnodeView, transactional_id: str) -> None:
    """Delete the znode of an id that expired long ago."""
    stored = load(view, transactional_id)
    path = paths.transaction(transactional_id)
    if stored is not None and stored.state is TxnState.DEAD and not view.children(path):
        view.delete(path)
