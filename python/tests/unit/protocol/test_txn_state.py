"""The states of a transactional id: every step of the table is legal, every other one is refused."""

from __future__ import annotations

import subprocess
import sys
from itertools import product

import pytest

from oncelog.errors import InvalidTxnStateError
from oncelog.protocol.txn_state import PENDING_ONLY, TRANSITIONS, TxnState, state_diagram, transition

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


def test_the_diagram_shows_every_step_of_the_table_and_no_other() -> None:
    arrows = {tuple(line.split(" --> ")) for line in map(str.strip, state_diagram().splitlines()) if " --> " in line}

    steps = {(current.value, target.value) for current in TxnState for target in TRANSITIONS[current]}
    assert arrows == steps | {("[*]", "empty"), ("dead", "[*]")}


def test_the_diagram_marks_the_state_that_is_never_stored() -> None:
    marked = [line for line in state_diagram().splitlines() if "note" in line]

    assert {PREPARE_EPOCH_FENCE} == PENDING_ONLY
    assert marked == ["    note right of prepare_epoch_fence: pending only, never stored"]


@pytest.mark.programs
def test_the_module_prints_its_diagram_when_run() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "oncelog.protocol.txn_state"], capture_output=True, text=True, check=True, env=_paths()
    ).stdout

    assert printed == f"{state_diagram()}\n"


def _paths() -> dict[str, str]:
    return {"PYTHONPATH": ":".join(path for path in sys.path if path)}
