"""The audit of the main example finds what is planted, and nothing else."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from flights import audit
from flights.audit import Findings
from flights.reading import ROWS

COUNT = 12
PARTITIONS = 2


def flight(row: int) -> dict[str, Any]:
    return {"row": row, "flight": f"UA{row}", "origin": "EWR", "dest": "IAH", "dep_delay": 15 + row}


def written(row: int, *, batch: int | None = None, **changes: Any) -> dict[str, Any]:
    where = {"batch": row // 4 if batch is None else batch, "partition": row % PARTITIONS}
    return flight(row) | where | changes


def truth() -> pa.Table:
    return pa.Table.from_pylist([flight(row) for row in range(COUNT)], schema=ROWS.remove(6).remove(5))


def judge(rows: list[dict[str, Any]], half_batches: int = 0) -> Findings:
    return audit.judge(truth(), pa.Table.from_pylist(rows, schema=ROWS), half_batches)


EVERYTHING = [written(row) for row in range(COUNT)]


def test_the_truth_itself_is_exact() -> None:
    found = judge(EVERYTHING)

    assert found.is_exact
    assert (found.expected, found.found) == (COUNT, COUNT)


def test_partitions_may_be_read_one_after_the_other() -> None:
    by_partition = sorted(EVERYTHING, key=lambda row: row["partition"])

    assert judge(by_partition).is_exact


def test_a_row_that_is_missing_is_lost() -> None:
    found = judge([row for row in EVERYTHING if row["row"] not in {3, 11}])

    assert (found.found, found.lost) == (COUNT - 2, 2)
    assert not found.is_exact


def test_an_empty_output_lost_everything() -> None:
    assert judge([]).lost == COUNT


def test_every_copy_beyond_the_first_is_a_duplicate_of_the_batch_that_wrote_it() -> None:
    found = judge([*EVERYTHING, written(4), written(5), written(5), written(11)])

    assert found.duplicated == 4
    assert found.duplicated_by_batch == {1: 3, 2: 1}
    assert (found.lost, found.wrong) == (0, 0)
    assert not found.is_exact


def test_a_copy_is_no_disorder_beside_being_a_copy() -> None:
    assert judge([*EVERYTHING, written(0)]).out_of_order == 0


def test_rows_behind_a_later_one_of_their_partition_are_out_of_order() -> None:
    first, *others = EVERYTHING

    found = judge([*others, first])

    assert found.out_of_order == 1
    assert (found.lost, found.duplicated) == (0, 0)
    assert not found.is_exact


@pytest.mark.parametrize("change", [{"dep_delay": 0}, {"dep_delay": None}, {"flight": "XX1"}, {"dest": None}])
def test_a_row_that_differs_from_the_csv_is_wrong_and_does_not_count_as_found(change: dict[str, Any]) -> None:
    found = judge([*EVERYTHING[:-1], written(COUNT - 1, **change)])

    assert (found.wrong, found.lost, found.found) == (1, 1, COUNT - 1)
    assert not found.is_exact


def test_a_row_that_is_not_of_the_truth_is_wrong() -> None:
    found = judge([*EVERYTHING, written(COUNT + 5)])

    assert (found.wrong, found.duplicated, found.lost) == (1, 0, 0)
    assert not found.is_exact


def test_a_wrong_row_does_not_make_its_right_twin_a_copy() -> None:
    found = judge([written(0, flight="XX1"), *EVERYTHING])

    assert (found.wrong, found.lost, found.found) == (1, 0, COUNT)


def test_half_batches_alone_make_an_output_not_exact() -> None:
    found = judge(EVERYTHING, half_batches=1)

    assert found.half_batches == 1
    assert not found.is_exact
