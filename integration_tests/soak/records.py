"""The records that are copied: each is a number of eight bytes, and nobody ever sends the same one to a topic again.

What is aborted on purpose has a mark in its numbers, so that none of it can be taken for what is tried again.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from oncelog.testing.history import PlacedRun

Numbers = NDArray[np.int64]

SOURCE = "in"
PARTITIONS = 4

GIVEN_UP = 1 << 47
LIVES = 1 << 14
"""A soak starts fewer writers than that."""

_LIFE_BITS, _PARTITION_BITS = 32, 28


def first_number(life: int, partition: int) -> int:
    """Where the numbers begin that a life of a writer sends to a partition."""
    return (life << _LIFE_BITS) + (partition << _PARTITION_BITS)


def given_up(numbers: Numbers) -> Numbers:
    """The numbers of an attempt that is to be aborted."""
    return numbers | GIVEN_UP


def to_values(numbers: Numbers) -> pa.RecordBatch:
    """Numbers as records."""
    fixed = pa.Array.from_buffers(pa.binary(8), len(numbers), [None, pa.py_buffer(numbers.astype(">i8").tobytes())])
    return pa.record_batch({"value": fixed.cast(pa.binary())})


def to_numbers(values: pa.Array | Iterable[bytes]) -> Numbers:
    """Records as numbers."""
    joined = b"".join(values.to_pylist() if isinstance(values, pa.Array) else values)
    return np.frombuffer(joined, ">i8").astype(np.int64)


def placed_runs(offsets: Numbers, numbers: Numbers) -> list[PlacedRun]:
    """Records at any offsets as runs."""
    if not len(numbers):
        return []
    is_first = np.ones(len(numbers), np.bool_)
    is_first[1:] = (np.diff(numbers) != 1) | (np.diff(offsets) != 1)
    firsts = np.flatnonzero(is_first)
    counts = np.diff(firsts, append=len(numbers))
    return list(zip(offsets[firsts].tolist(), numbers[firsts].tolist(), counts.tolist(), strict=True))
