"""Rows on their way to several partitions."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from oncelog.log.records import split_rows


@given(st.lists(st.integers(0, 5), max_size=50))
def test_each_number_gets_its_rows_in_their_order_and_none_is_lost(numbers: list[int]) -> None:
    rows = pa.record_batch({"at": pa.array(range(len(numbers)), pa.int64())})
    found = {number: part.column("at").to_pylist() for number, part in split_rows(rows, np.array(numbers, np.int64))}

    assert list(found) == sorted(set(numbers))
    for number, at in found.items():
        assert at == [row for row, its in enumerate(numbers) if its == number]


def test_a_batch_for_one_number_alone_is_not_copied() -> None:
    rows = pa.record_batch({"at": pa.array([1, 2, 3])})
    ((number, part),) = split_rows(rows, np.array([4, 4, 4]))

    assert number == 4
    assert part.column(0).buffers()[1].address == rows.column(0).buffers()[1].address
