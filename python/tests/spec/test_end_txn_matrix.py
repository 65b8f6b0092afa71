"""EndTxn: the whole matrix of 8 states x commit and abort x retry, current, older and newer identity.

conformance: 8
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from oncelog.errors import (
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    InvariantViolation,
    OncelogError,
    ProducerFencedError,
)
from oncelog.protocol.coordinator_core import step
from oncelog.protocol.coordinator_events import Decide, EndTxn, Step
from oncelog.protocol.transaction_metadata import TransactionMetadata
from oncelog.protocol.txn_state import TxnState
from oncelog.types import Outcome, ProducerIdAndEpoch, TopicIdPartition
from tests.support.log.transactions import ID, owner_of, partition, stored

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT, PREPARE_EPOCH_FENCE, DEAD = TxnState

# How a cell answers.
OK = "ok, nothing written"
END = "ok, decided, next identity"
BUMP = "ok, no transaction to decide, next identity"
FENCED = ProducerFencedError
INVALID = InvalidTxnStateError
MAPPING = InvalidProducerIdMappingError

Cell = str | type[OncelogError]


class Row(NamedTuple):
    state: TxnState
    commit: bool
    retry: Cell
    current: Cell
    older: Cell
    newer: Cell


MATRIX = [
    #    state            commit  retry    current  older    newer
    Row(EMPTY, True, FENCED, INVALID, FENCED, FENCED),
    Row(EMPTY, False, FENCED, BUMP, FENCED, FENCED),
    Row(ONGOING, True, FENCED, END, FENCED, FENCED),
    Row(ONGOING, False, FENCED, END, FENCED, FENCED),
    Row(PREPARE_COMMIT, True, OK, INVALID, FENCED, FENCED),
    Row(PREPARE_COMMIT, False, INVALID, BUMP, FENCED, FENCED),
    Row(PREPARE_ABORT, True, INVALID, INVALID, FENCED, FENCED),
    Row(PREPARE_ABORT, False, OK, BUMP, FENCED, FENCED),
    Row(COMPLETE_COMMIT, True, OK, INVALID, FENCED, FENCED),
    Row(COMPLETE_COMMIT, False, INVALID, BUMP, FENCED, FENCED),
    Row(COMPLETE_ABORT, True, FENCED, INVALID, FENCED, FENCED),
    Row(COMPLETE_ABORT, False, OK, BUMP, FENCED, FENCED),
    Row(DEAD, True, MAPPING, MAPPING, MAPPING, MAPPING),
    Row(DEAD, False, MAPPING, MAPPING, MAPPING, MAPPING),
]
CELLS = [
    pytest.param(row.state, row.commit, standing, getattr(row, standing), id=f"{row.state}-{verb}-{standing}")
    for row in MATRIX
    for verb in (["commit"] if row.commit else ["abort"])
    for standing in ("retry", "current", "older", "newer")
]

GIVEN_BEFORE_EPOCH_5 = {
    "retry": ProducerIdAndEpoch(7, 4),
    "current": ProducerIdAndEpoch(7, 5),
    "older": ProducerIdAndEpoch(7, 3),
    "newer": ProducerIdAndEpoch(7, 6),
}
# The transaction of (7, 32766) ended, and the id went on under the fresh producer id 8. (7, 32767) never existed.
GIVEN_AFTER_ROTATION = {
    "retry": ProducerIdAndEpoch(7, 32766),
    "current": ProducerIdAndEpoch(8, 0),
    "older": ProducerIdAndEpoch(7, 32765),
    "newer": ProducerIdAndEpoch(8, 1),
}
# There another producer id is met before another epoch is: (old id, 32766) counts as a retry only after an end.
MAPPED_AFTER_ROTATION = {(ONGOING, "retry")} | {(state, "older") for state in TxnState}


def touched_in(state: TxnState) -> tuple[TopicIdPartition, ...]:
    return (partition(0),) if state in {ONGOING, PREPARE_COMMIT, PREPARE_ABORT} else ()


def metadata_in(state: TxnState) -> TransactionMetadata:
    """Stored in `state` under (7, 5), after (7, 4)."""
    return stored(state, previous_producer_id=7, last_epoch=4, partitions=touched_in(state))


def rotated_metadata_in(state: TxnState) -> TransactionMetadata:
    """Stored in `state` under (8, 0), after (7, 32766)."""
    return stored(
        state,
        epoch=0,
        producer_id=8,
        previous_producer_id=7,
        last_epoch=32766,
        partitions=touched_in(state),
        owner=owner_of(ProducerIdAndEpoch(8, 0)),
    )


def check(metadata: TransactionMetadata, given: ProducerIdAndEpoch, *, commit: bool, cell: Cell) -> None:
    event = EndTxn(transactional_id=ID, producer=given, commit=commit)
    if not isinstance(cell, str):
        with pytest.raises(cell) as refused:
            step(metadata, event)
        assert type(refused.value) is cell
        told = refused.value.fields
        assert (told["transactional_id"], told["state"], told["stored"], told["given"]) == (
            ID,
            metadata.state,
            str(metadata.producer),
            str(given),
        )
        return
    done = step(metadata, event)
    following = ProducerIdAndEpoch(metadata.producer_id, metadata.epoch + 1)
    if cell is OK:
        assert done == Step(metadata, (), metadata.producer)
    if cell is BUMP:
        assert (done.metadata.state, done.instructions, done.answer) == (COMPLETE_ABORT, (), following)
    if cell is END:
        outcome = Outcome.COMMIT if commit else Outcome.ABORT
        assert done.metadata.state is (PREPARE_COMMIT if commit else PREPARE_ABORT)
        assert done.instructions == (Decide(str(metadata.owner), outcome),)
        assert done.answer == following


@pytest.mark.parametrize(("state", "commit", "standing", "cell"), CELLS)
def test_end_txn_answers_as_the_table_says(state: TxnState, *, commit: bool, standing: str, cell: Cell) -> None:
    """conformance: 8."""
    check(metadata_in(state), GIVEN_BEFORE_EPOCH_5[standing], commit=commit, cell=cell)


@pytest.mark.parametrize(("state", "commit", "standing", "cell"), CELLS)
def test_end_txn_answers_the_same_across_a_rotation_of_the_producer_id(
    state: TxnState, *, commit: bool, standing: str, cell: Cell
) -> None:
    """conformance: 6, 8."""
    if (state, standing) in MAPPED_AFTER_ROTATION:
        cell = MAPPING
    check(rotated_metadata_in(state), GIVEN_AFTER_ROTATION[standing], commit=commit, cell=cell)


@pytest.mark.parametrize("commit", [True, False])
def test_an_id_that_was_never_stored_answers_invalid_producer_id_mapping(*, commit: bool) -> None:
    """conformance: 8."""
    with pytest.raises(MAPPING) as refused:
        step(None, EndTxn(transactional_id=ID, producer=ProducerIdAndEpoch(7, 5), commit=commit))
    assert refused.value.fields["transactional_id"] == ID


def test_the_cells_of_prepare_epoch_fence_are_unreachable_since_it_cannot_be_stored() -> None:
    """conformance: 8."""
    with pytest.raises(InvariantViolation, match="never stored"):
        stored(PREPARE_EPOCH_FENCE)


def test_the_matrix_has_a_row_for_every_state_that_can_be_stored() -> None:
    assert len(CELLS) == (len(TxnState) - 1) * 2 * 4
    assert {(row.state, row.commit) for row in MATRIX} == {
        (state, commit) for state in TxnState if state is not PREPARE_EPOCH_FENCE for commit in (True, False)
    }
