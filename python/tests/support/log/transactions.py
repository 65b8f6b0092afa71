"""One transactional id as a coordinator service keeps it: the core's steps, carried out on plain dictionaries.

Every step that is carried out is run a second time, as if its answer had been lost: it must answer the same and write
nothing (invariant I5). Every instruction is carried out under its own condition: an owner is created once, extended
while it is open, and decided once (invariant I6).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from oncelog.protocol.coordinator_core import step
from oncelog.protocol.coordinator_events import (
    AddOffsets,
    AddPartitions,
    CommitAtOnce,
    Complete,
    CompleteTransaction,
    CreateOwner,
    Decide,
    EndTxn,
    Event,
    Expire,
    ExtendOwner,
    InitProducerId,
    Instruction,
    Prepare,
    ProducerIdNeeded,
    Step,
    TimedOut,
)
from oncelog.protocol.transaction_metadata import TransactionMetadata
from oncelog.protocol.txn_state import TxnState
from oncelog.types import Outcome, ProducerIdAndEpoch, TopicIdPartition

ID = "copier-0"
TIMEOUT_MS = 60_000
MAX_TIMEOUT_MS = 900_000


def partition(number: int) -> TopicIdPartition:
    return TopicIdPartition("flights", "f1", number)


def owner_of(producer: ProducerIdAndEpoch) -> str:
    return f"/transactions/{ID}/{producer}"


def stored(state: TxnState, epoch: int = 5, **fields: Any) -> TransactionMetadata:
    """Metadata as it lies in the store in `state`, of producer id 7."""
    producer = ProducerIdAndEpoch(7, epoch)
    if state is TxnState.ONGOING:
        fields = {"partitions": (partition(0),), "owner": owner_of(producer), **fields}
    return TransactionMetadata(
        **{"transactional_id": ID, "producer_id": 7, "epoch": epoch, "timeout_ms": TIMEOUT_MS, "state": state, **fields}
    )


class World:
    """The metadata of one transactional id and all owners, moved by events."""

    def __init__(self, metadata: TransactionMetadata | None = None) -> None:
        self.metadata = metadata
        self.owners: dict[str, Outcome] = {}
        if metadata is not None and metadata.state is TxnState.ONGOING and metadata.owner is not None:
            self.owners[metadata.owner] = Outcome.OPEN
        self.listed: dict[str, tuple[tuple[TopicIdPartition, ...], tuple[str, ...]]] = {}
        self.instructions: tuple[Instruction, ...] = ()
        self._next_producer_id = 1000
        self._nonces = 0

    @property
    def known(self) -> TransactionMetadata:
        assert self.metadata is not None
        return self.metadata

    @property
    def state(self) -> TxnState:
        return self.known.state

    @property
    def owner_outcome(self) -> Outcome | None:
        owner = None if self.metadata is None else self.metadata.owner
        return None if owner is None else self.owners.get(owner)

    def nonce(self) -> str:
        self._nonces += 1
        return f"nonce-{self._nonces}"

    def fresh_producer_id(self) -> int:
        self._next_producer_id += 1
        return self._next_producer_id

    def run(self, event: Event) -> Step:
        """The step, with a fresh producer id where it asks for one; nothing is carried out."""
        try:
            return step(self.metadata, event)
        except ProducerIdNeeded:
            assert not isinstance(event, AddPartitions | AddOffsets | Prepare | Expire)
            return step(self.metadata, replace(event, fresh_producer_id=self.fresh_producer_id()))

    def do(self, event: Event) -> ProducerIdAndEpoch:
        """Run the step, carry it out, and run it again as after a lost answer."""
        done = self.run(event)
        for instruction in done.instructions:
            self._carry_out(instruction)
        self.metadata, self.instructions = done.metadata, done.instructions
        if isinstance(event, InitProducerId | Complete | Expire):
            event = replace(event, owner_outcome=self.owner_outcome)
        again = step(self.metadata, event)
        assert again == Step(self.metadata, (), done.answer), f"not idempotent: {event}"
        assert again.metadata is self.metadata, f"writes again: {event}"
        return done.answer

    def _carry_out(self, instruction: Instruction) -> None:
        match instruction:
            case CreateOwner(owner, _, partitions, groups):
                assert owner not in self.owners
                self.owners[owner] = Outcome.OPEN
                self.listed[owner] = (partitions, groups)
            case ExtendOwner(owner, _, partitions, groups):
                assert self.owners[owner] is Outcome.OPEN
                self.listed[owner] = (partitions, groups)
            case Decide(owner, outcome):
                assert self.owners[owner] is Outcome.OPEN
                assert outcome is not Outcome.OPEN
                self.owners[owner] = outcome

    # What producers, sinks, settlers and sweepers ask for.

    def init_event(self, **fields: Any) -> InitProducerId:
        known: dict[str, Any] = {
            "transactional_id": ID,
            "timeout_ms": TIMEOUT_MS,
            "max_timeout_ms": MAX_TIMEOUT_MS,
            "nonce": fields.get("nonce") or self.nonce(),
            "owner_outcome": self.owner_outcome,
        }
        return InitProducerId(**{**known, **fields})

    def init(self, **fields: Any) -> ProducerIdAndEpoch:
        return self.do(self.init_event(**fields))

    def add(self, producer: ProducerIdAndEpoch, *numbers: int, owner: str | None = None) -> ProducerIdAndEpoch:
        partitions = tuple(partition(number) for number in numbers or (0,))
        return self.do(
            AddPartitions(
                transactional_id=ID, producer=producer, partitions=partitions, owner=owner or owner_of(producer)
            )
        )

    def add_offsets(self, producer: ProducerIdAndEpoch, group: str, owner: str | None = None) -> ProducerIdAndEpoch:
        return self.do(
            AddOffsets(transactional_id=ID, producer=producer, group=group, owner=owner or owner_of(producer))
        )

    def prepare(self, producer: ProducerIdAndEpoch) -> ProducerIdAndEpoch:
        return self.do(Prepare(transactional_id=ID, producer=producer))

    def commit(self, producer: ProducerIdAndEpoch) -> ProducerIdAndEpoch:
        return self.do(EndTxn(transactional_id=ID, producer=producer, commit=True))

    def commit_at_once(self, producer: ProducerIdAndEpoch) -> ProducerIdAndEpoch:
        return self.do(CommitAtOnce(transactional_id=ID, producer=producer, owner=owner_of(producer)))

    def abort(self, producer: ProducerIdAndEpoch) -> ProducerIdAndEpoch:
        return self.do(EndTxn(transactional_id=ID, producer=producer, commit=False))

    def complete_transaction(self, producer: ProducerIdAndEpoch, token: ProducerIdAndEpoch) -> ProducerIdAndEpoch:
        return self.do(CompleteTransaction(transactional_id=ID, producer=producer, owner=owner_of(token)))

    def time_out(self, producer: ProducerIdAndEpoch) -> ProducerIdAndEpoch:
        return self.do(TimedOut(transactional_id=ID, producer=producer))

    def complete(self) -> ProducerIdAndEpoch:
        return self.do(Complete(transactional_id=ID, owner_outcome=self.owner_outcome))

    def expire(self) -> ProducerIdAndEpoch:
        return self.do(Expire(transactional_id=ID, owner_outcome=self.owner_outcome))
