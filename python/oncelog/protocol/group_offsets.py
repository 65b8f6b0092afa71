"""The committed offset of one (group, partition): the current value, and those of undecided or unsettled owners.

An offset sent to a transaction is *pending* until its owner is decided. A commit makes it current, unless there already
is a commit that came later in the group's order. An abort drops it (KIP-98, KIP-447's stable fetch).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from oncelog.errors import UnstableOffsetCommitError
from oncelog.protocol.partition import OwnerState
from oncelog.types import OffsetAndMetadata, Outcome


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A committed offset, and its order: the version of the group's znode that the commit wrote."""

    value: OffsetAndMetadata
    order: int


@dataclass(frozen=True, slots=True)
class PendingOffset:
    """An offset of a transaction or micro-batch; it counts once `owner` is committed."""

    owner: str
    value: OffsetAndMetadata
    order: int


@dataclass(frozen=True, slots=True)
class GroupPartitionState:
    """The state of one partition of one group, as in its znode."""

    current: CommittedOffset | None = None
    pending: tuple[PendingOffset, ...] = ()

    def committed(self, value: OffsetAndMetadata, order: int) -> GroupPartitionState:
        """The state after a plain commit at `order`."""
        return replace(self, current=_later(self.current, CommittedOffset(value, order)))

    def staged(self, owner: str, value: OffsetAndMetadata, order: int) -> GroupPartitionState:
        """The state after `owner` staged an offset at `order`, in place of an earlier one of the same owner."""
        others = tuple(pending for pending in self.pending if pending.owner != owner)
        return replace(self, pending=(*others, PendingOffset(owner, value, order)))

    def settled(self, owner: str, outcome: Outcome) -> GroupPartitionState:
        """The state after the offset of `owner` was folded in or dropped, by its decided `outcome`."""
        current = self.current
        for pending in self.pending:
            if pending.owner == owner and outcome is Outcome.COMMIT:
                current = _later(current, CommittedOffset(pending.value, pending.order))
        return GroupPartitionState(current, tuple(other for other in self.pending if other.owner != owner))


def resolve(
    state: GroupPartitionState, owners: Mapping[str, OwnerState], *, require_stable: bool
) -> OffsetAndMetadata | None:
    """The offset that a fetch returns.

    Args:
        owners: the states of all owners in ``state.pending``, read after `state`.
        require_stable: raise an error if a pending offset is undecided, instead of returning the old value.

    Raises:
        UnstableOffsetCommitError: wait until the named owner is decided.
    """
    for pending in state.pending:
        outcome = owners[pending.owner].outcome
        if outcome is not Outcome.OPEN:
            state = state.settled(pending.owner, outcome)
        elif require_stable:
            raise UnstableOffsetCommitError(
                "the group has offsets in an undecided transaction; wait, or abort it", owner=pending.owner
            )
    return state.current.value if state.current else None


def _later(current: CommittedOffset | None, candidate: CommittedOffset) -> CommittedOffset:
    return candidate if current is None or candidate.order >= current.order else current
