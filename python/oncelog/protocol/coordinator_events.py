"""What is asked of a transaction coordinator, and what a step of it amounts to. Values only: coordinator_core.py steps.

Where an event has `fresh_producer_id`, offer an id from the allocator only when `ProducerIdNeeded` asked for one. Where
it has `owner_outcome`, it is what the znode of the stored metadata's `owner` says now, in the same snapshot; None when
there is no such znode: it was settled and deleted.
"""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.protocol.transaction_metadata import TransactionMetadata
from oncelog.types import Outcome, ProducerIdAndEpoch, TopicIdPartition

# Events ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerId:
    """A producer starts, or goes on after an error: it gets an identity, and every older one is fenced.

    Attributes:
        timeout_ms: of its transactions, within (0, `max_timeout_ms`].
        nonce: minted by the caller once for all attempts of this call.
        base_nonce: the metadata's nonce that an attempt with an unknown outcome was based on ("" where there was no
            metadata); None before such an attempt. Another nonce found now means that a newer producer started in
            between, so this call is superseded and not repeated (invariant I5).
        expected: the identity the caller has and wants to go on from (KIP-360); None to fence whoever has one.
        keep_prepared: leave a prepared transaction as it is, to be completed by this producer (KIP-939).
        round: path of the open round that this producer takes part in; None for a producer of its own.
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
    """Write to these partitions in the transaction; the first ones begin it.

    Attributes:
        owner: path of the transaction's owner: the round's, where a round initialised the id.
    """

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: tuple[TopicIdPartition, ...]
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOffsets:
    """Stage offsets of a consumer group in the transaction; begins it like `AddPartitions`."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    group: str
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Promise that the open transaction can be committed: no more writes, no time-out, only an end may follow."""

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
class CompleteTransaction:
    """End the prepared transaction by a token of an outside database: commit if the token names it, else abort.

    Attributes:
        owner: of the transaction that the token names, which that database recorded with its own last commit (KIP-939).
            Only the owner's name outlives the end of a transaction, so that a retry can be told from a contradiction.
    """

    transactional_id: str
    producer: ProducerIdAndEpoch
    owner: str
    fresh_producer_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedOut:
    """The open transaction of `producer` is older than its timeout: abort and fence it."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    fresh_producer_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """Nothing lists the owner of the last transaction any more. Harmless when the id went on meanwhile."""

    transactional_id: str
    owner_outcome: Outcome | None
    fresh_producer_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expire:
    """The id was not used for its expiration time."""

    transactional_id: str
    owner_outcome: Outcome | None


Transactional = AddPartitions | AddOffsets | Prepare | EndTxn | CompleteTransaction | TimedOut
Event = InitProducerId | Transactional | Complete | Expire


# Results --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CreateOwner:
    """Create the owner's znode, open, listing these partitions and groups for `producer`."""

    owner: str
    producer: ProducerIdAndEpoch
    partitions: tuple[TopicIdPartition, ...]
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExtendOwner:
    """Make the owner's znode, which exists and must be open, list these partitions and groups as well."""

    owner: str
    producer: ProducerIdAndEpoch
    partitions: tuple[TopicIdPartition, ...]
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decide:
    """Write the outcome, commit or abort, into the owner's znode, which must be open. This is the decision."""

    owner: str
    outcome: Outcome


Instruction = CreateOwner | ExtendOwner | Decide


@dataclass(frozen=True, slots=True)
class Step:
    """What a step leads to.

    Attributes:
        metadata: to be stored; the very object the step was given when there is nothing to write.
        instructions: to be carried out in the same multi, in order.
        answer: the identity to go on with. For `Prepare`, the prepared transaction: its token. After an
            `InitProducerId` that kept one, the token is ``metadata.prepared_transaction``.
    """

    metadata: TransactionMetadata
    instructions: tuple[Instruction, ...]
    answer: ProducerIdAndEpoch


class ProducerIdNeeded(Exception):  # noqa: N818 - a question to the service, never an error a user sees
    """The step needs a fresh producer id: allocate one and run it again with ``fresh_producer_id``."""
