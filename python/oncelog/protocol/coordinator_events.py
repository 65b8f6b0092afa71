"""The requests to a transaction coordinator, and the results of its steps, as values. The step is coordinator_core.py.

`fresh_producer_id` is a new producer id; set it only after a `ProducerIdNeeded`. `owner_outcome` is the outcome in the
znode of the stored metadata's `owner`, read in the same snapshot; None if there is no such znode, because it was
settled and deleted.
"""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.protocol.transaction_metadata import TransactionMetadata
from oncelog.types import Outcome, ProducerIdAndEpoch, TopicIdPartition

# Events ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerId:
    """A producer starts, or continues after an error: it gets an identity, and all older ones are fenced.

    Attributes:
        timeout_ms: of its transactions, within (0, `max_timeout_ms`].
        nonce: the same one for all tries of this call.
        base_nonce: the metadata's nonce before an earlier try with an unknown outcome ("" if there was no metadata);
            None if there was no such try. If the nonce is another one now, a newer producer started in between, and
            this call must not be repeated (invariant I5).
        expected: the caller's identity, from which it wants to continue (KIP-360); None to fence any identity.
        keep_prepared: keep a prepared transaction, which this producer must then complete (KIP-939).
        round: path of the open round in which this producer is a participant; None for an independent producer.
    """

    transactional_id: str
    timeout_ms: int
    max_timeout_ms: int
    nonce: str
    owner_outcome: Outcome | None
    base_nonce: str | None = None
    expected: ProducerIdAndEpoch | None = None
    keep_prepared: bool = False
    round: str | None = None
    fresh_producer_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPartitions:
    """Add partitions to the transaction; the first ones begin it.

    Attributes:
        owner: path of the transaction's owner; the round's path if a round initialised the id.
    """

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: tuple[TopicIdPartition, ...]
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOffsets:
    """Stage offsets of a consumer group in the transaction; may begin it, like `AddPartitions`."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    group: str
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Prepare the open transaction: it takes no more writes and never times out; it can only be ended."""

    transactional_id: str
    producer: ProducerIdAndEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxn:
    """Commit or abort the open transaction."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    commit: bool
    fresh_producer_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAtOnce:
    """Begin, commit and complete a transaction that consists of one append to one partition (one-phase commit).

    Attributes:
        owner: of the transaction; it has nothing to decide or to settle, so it gets no znode.
    """

    transactional_id: str
    producer: ProducerIdAndEpoch
    owner: str
    fresh_producer_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteTransaction:
    """End the prepared transaction by the token from an external database: commit if the token names it, else abort.

    Attributes:
        owner: of the transaction that the token names, which that database recorded with its last commit (KIP-939). The
            owner's name is stored even after the end of a transaction, to distinguish a retry from a contradiction.
    """

    transactional_id: str
    producer: ProducerIdAndEpoch
    owner: str
    fresh_producer_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut:
    """The open transaction of `producer` is beyond its time-out: abort and fence it."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    fresh_producer_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """Nothing lists the owner of the last transaction any more. Harmless if the id has begun its next one."""

    transactional_id: str
    owner_outcome: Outcome | None
    fresh_producer_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire:
    """The id has been idle for its expiration time."""

    transactional_id: str
    owner_outcome: Outcome | None


Transactional = AddPartitions | AddOffsets | Prepare | EndTxn | CommitAtOnce | CompleteTransaction | TimedOut
Event = InitProducerId | Transactional | Complete | Expire


# Results --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateOwner:
    """Create the owner's znode as open, with these partitions and groups."""

    owner: str
    producer: ProducerIdAndEpoch
    partitions: tuple[TopicIdPartition, ...]
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExtendOwner:
    """Add these partitions and groups to the owner's znode, which exists and must be open."""

    owner: str
    producer: ProducerIdAndEpoch
    partitions: tuple[TopicIdPartition, ...]
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decide:
    """Write the outcome into the owner's znode, which must be open. This is the decision."""

    owner: str
    outcome: Outcome


Instruction = CreateOwner | ExtendOwner | Decide


@dataclass(frozen=True, slots=True)
class Step:
    """The result of a step.

    Attributes:
        metadata: to store; the object that the step was given if there is nothing to write.
        instructions: to execute in the same multi, in order.
        answer: the identity with which to continue; for `Prepare`, the identity of the prepared transaction, which its
            token names. After an `InitProducerId` that kept one, this is ``metadata.prepared_transaction``.
    """

    metadata: TransactionMetadata
    instructions: tuple[Instruction, ...]
    answer: ProducerIdAndEpoch


class ProducerIdNeeded(Exception):  # noqa: N818 - a request to the caller; users never see it
    """The step needs a new producer id: allocate one, and run it again with ``fresh_producer_id``."""
