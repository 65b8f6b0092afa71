"""The committed offset of a group: pending until its owner decides, then by the group's own order."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import UnstableOffsetCommitError
from oncelog.protocol.group_offsets import CommittedOffset, GroupPartitionState, PendingOffset, resolve
from oncelog.protocol.partition import OwnerSpan, OwnerState, PartitionState
from oncelog.protocol.visibility import plan
from oncelog.types import OffsetAndMetadata, Outcome, ProducerIdAndEpoch

OPEN, COMMIT, ABORT = (OwnerState(outcome, 1) for outcome in Outcome)
OLD, NEW, NEWER = OffsetAndMetadata(10, "old"), OffsetAndMetadata(20), OffsetAndMetadata(30, "newer")

EMPTY = GroupPartitionState()
STAGED = EMPTY.committed(OLD, 4).staged("t", NEW, 5)


@pytest.mark.parametrize("require_stable", [True, False])
def test_a_group_that_committed_nothing_has_no_offset(*, require_stable: bool) -> None:
    assert resolve(EMPTY, {}, require_stable=require_stable) is None


@pytest.mark.parametrize("require_stable", [True, False])
def test_a_plain_commit_counts_at_once(*, require_stable: bool) -> None:
    assert resolve(EMPTY.committed(OLD, 0), {}, require_stable=require_stable) == OLD
    assert resolve(EMPTY.committed(OLD, 0).committed(NEW, 1), {}, require_stable=require_stable) == NEW


def test_a_stable_fetch_waits_for_the_owner_and_names_it() -> None:
    """conformance: 45."""
    with pytest.raises(UnstableOffsetCommitError) as refused:
        resolve(STAGED, {"t": OPEN}, require_stable=True)

    assert refused.value.fields == {"owner": "t"}


def test_a_plain_fetch_returns_the_old_value_until_the_owner_decides() -> None:
    """conformance: 45."""
    assert resolve(STAGED, {"t": OPEN}, require_stable=False) == OLD
    assert resolve(EMPTY.staged("t", NEW, 0), {"t": OPEN}, require_stable=False) is None


@pytest.mark.parametrize(("decided", "value"), [(COMMIT, NEW), (ABORT, OLD)])
@pytest.mark.parametrize("require_stable", [True, False])
def test_a_decision_counts_at_once_and_settling_changes_nothing(
    decided: OwnerState, value: OffsetAndMetadata, *, require_stable: bool
) -> None:
    """conformance: 45."""
    settled = STAGED.settled("t", decided.outcome)

    assert resolve(STAGED, {"t": decided}, require_stable=require_stable) == value
    assert resolve(settled, {}, require_stable=require_stable) == value
    assert settled.pending == ()
    assert settled.settled("t", decided.outcome) == settled


def test_one_undecided_owner_among_decided_ones_makes_the_group_unstable() -> None:
    """conformance: 45."""
    state = STAGED.staged("u", NEWER, 6)

    for owners in ({"t": COMMIT, "u": OPEN}, {"t": OPEN, "u": COMMIT}):
        with pytest.raises(UnstableOffsetCommitError):
            resolve(state, owners, require_stable=True)
    assert resolve(state, {"t": COMMIT, "u": OPEN}, require_stable=False) == NEW
    assert resolve(state, {"t": OPEN, "u": COMMIT}, require_stable=False) == NEWER


def test_an_owner_that_stages_again_replaces_its_offset_and_its_place_in_the_order() -> None:
    state = EMPTY.staged("t", NEW, 1).staged("u", OLD, 2).staged("t", NEWER, 3)

    assert state.pending == (PendingOffset("u", OLD, 2), PendingOffset("t", NEWER, 3))
    assert resolve(state, {"t": COMMIT, "u": COMMIT}, require_stable=True) == NEWER


def test_a_plain_commit_that_came_after_a_staged_offset_wins_over_it() -> None:
    """However late the transaction commits, and however often that is replayed. conformance: 46."""
    state = STAGED.committed(NEWER, 6)

    for _ in range(2):
        assert resolve(state, {"t": COMMIT}, require_stable=True) == NEWER
        state = state.settled("t", Outcome.COMMIT)
    assert state == GroupPartitionState(CommittedOffset(NEWER, 6))


def test_a_plain_commit_that_came_before_a_staged_offset_loses_to_it() -> None:
    """conformance: 46."""
    assert resolve(STAGED, {"t": COMMIT}, require_stable=True) == NEW


# Data and offsets together --------------------------------------------------------------------------------------------

LOG = PartitionState(log_end=8, owners=(OwnerSpan("t", 3, 7, (ProducerIdAndEpoch(1, 0),)),))


@pytest.mark.parametrize("is_data_settled", [True, False])
@pytest.mark.parametrize("are_offsets_settled", [True, False])
@pytest.mark.parametrize(("decided", "offset"), [(COMMIT, NEW), (ABORT, OLD)])
def test_one_decision_makes_data_and_offsets_of_a_transaction_visible_or_neither(
    decided: OwnerState, offset: OffsetAndMetadata, *, is_data_settled: bool, are_offsets_settled: bool
) -> None:
    """Also when a crash came between settling the one and the other. conformance: 44."""
    log = PartitionState(log_end=9, trim=1) if is_data_settled else LOG
    group = STAGED.settled("t", decided.outcome) if are_offsets_settled else STAGED

    seen = plan(1, {"p": log}, {span.owner: decided for span in log.owners})

    assert seen.ends == {"p": log.log_end}
    assert is_data_settled or ("t" in seen.visible) is (decided is COMMIT)
    assert resolve(group, {"t": decided}, require_stable=True) == offset


def test_before_the_decision_neither_data_nor_offsets_are_visible() -> None:
    """conformance: 44."""
    assert plan(1, {"p": LOG}, {"t": OPEN}).ends == {"p": 3}
    assert resolve(STAGED, {"t": OPEN}, require_stable=False) == OLD


# Every history --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Commit:
    offset: int


@dataclass(frozen=True)
class Stage:
    owner: str
    offset: int


@dataclass(frozen=True)
class Decide:
    owner: str
    outcome: Outcome


@dataclass(frozen=True)
class Settle:
    owner: str


Step = Commit | Stage | Decide | Settle
owners = st.sampled_from("abc")
steps = st.one_of(
    st.builds(Commit, st.integers(0, 9)),
    st.builds(Stage, owners, st.integers(10, 19)),
    st.builds(Decide, owners, st.sampled_from([Outcome.COMMIT, Outcome.ABORT])),
    st.builds(Settle, owners),
)


class Model:
    """Every commit in the group's order: (owner or None, offset)."""

    def __init__(self) -> None:
        self.commits: list[tuple[str | None, int]] = []
        self.decided: dict[str, Outcome] = {}

    def value(self) -> OffsetAndMetadata | None:
        counting = [
            offset for owner, offset in self.commits if owner is None or self.decided.get(owner) is Outcome.COMMIT
        ]
        return OffsetAndMetadata(counting[-1]) if counting else None

    def is_stable(self) -> bool:
        return all(owner is None or owner in self.decided for owner, _ in self.commits)


@given(st.lists(steps, max_size=20))
def test_the_last_commit_in_the_groups_order_counts_whenever_it_is_settled(history: list[Step]) -> None:
    """conformance: 44, 45, 46."""
    model, state = Model(), EMPTY
    for step in history:
        order = len(model.commits)
        match step:
            case Commit(offset):
                state = state.committed(OffsetAndMetadata(offset), order)
                model.commits.append((None, offset))
            case Stage(owner, offset) if owner not in model.decided:
                state = state.staged(owner, OffsetAndMetadata(offset), order)
                model.commits.append((owner, offset))
            case Decide(owner, outcome):
                model.decided.setdefault(owner, outcome)
            case Settle(owner) if owner in model.decided:
                state = state.settled(owner, model.decided[owner])
        check(state, model)


def check(state: GroupPartitionState, model: Model) -> None:
    read = {pending.owner: OwnerState(model.decided.get(pending.owner, Outcome.OPEN), 1) for pending in state.pending}
    assert resolve(state, read, require_stable=False) == model.value()
    if model.is_stable():
        assert resolve(state, read, require_stable=True) == model.value()
    else:
        with pytest.raises(UnstableOffsetCommitError):
            resolve(state, read, require_stable=True)
