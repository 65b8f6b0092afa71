"""The states of a transactional id: every step of the table is legal, every other one is refused."""

from __future__ import annotations

from itertools import product

import pytest

from oncelog.errors import InvalidTxnStateError
from oncelog.protocol.txn_state import TRANSITIONS, TxnState, transition

EMPTY, ONGOING, PREPARE_COMMIT, PREPARE_ABORT, COMPLETE_COMMIT, COMPLETE_ABORT, PREPARE_EPOCH_FENCE, DEAD = TxnState

# Kafka's side of the same table: which states may come before.
VALID_PREVIOUS_STATES = {
    EMPTY: {EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT},
    ONGOING: {ONGOING, EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT},
    PREPARE_COMMIT: {ONGOING},
    PREPARE_ABORT: {ONGOING, PREPARE_EPOCH_FENCE, EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT},
    COMPLETE_COMMIT: {PREPARE_COMMIT},
    COMPLETE_ABORT: {PREPARE_ABORT},
    PREPARE_EPOCH_FENCE: {ONGOING},
    DEAD: {EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT},
}


@pytest.mark.parametrize(("current", "target"), list(product(TxnState, TxnState)))
def test_a_step_is_legal_exactly_where_kafka_names_the_previous_state(current: TxnState, target: TxnState) -> None:
    if current in VALID_PREVIOUS_STATES[target]:
        assert transition(current, target) is target
    else:
        with pytest.raises(InvalidTxnStateError) as refused:
            transition(current, target)
        assert refused.value.fields == {"state": current, "step": target}


def test_the_table_itself_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        TRANSITIONS[DEAD] = frozenset({EMPTY})  # type: ignore[index]
