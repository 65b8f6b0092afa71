"""Rows on their way to several partitions: one stable sort and one copy, never a loop over records."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def split_rows(rows: pa.RecordBatch, numbers: npt.NDArray[np.integer]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each number, in their order.

    Args:
        rows: any record batch.
        numbers: one per row, such as its partition.

    Yields:
        (number, its rows), by ascending number; a batch with one number alone is not copied.
    """
    if rows.num_rows == 0:
        return
    if numbers.min() == numbers.max():
        yield int(numbers[0]), rows
        return
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.diff(ordered)) + 1
    together = rows.take(pa.array(order))
    for start, end in zip([0, *starts], [*starts, len(ordered)], strict=True):
        yield int(ordered[start]), together.slice(start, end - start)
