"""Rows to measure with: text of a given size that compresses about as JSON does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

ROWS_PER_BATCH = 50_000
_WORDS = np.frombuffer(b'0123456789abcdef{}":, -.truefalsn', dtype=np.uint8)


def batches(rows: int, value_bytes: int, seed: int = 7) -> Iterator[pa.RecordBatch]:
    """`rows` rows of an 8-byte key and a value of `value_bytes`, in batches."""
    random = np.random.default_rng(seed)
    for start in range(0, rows, ROWS_PER_BATCH):
        count = min(ROWS_PER_BATCH, rows - start)
        values = _WORDS[random.integers(0, len(_WORDS), count * value_bytes, dtype=np.uint8)]
        keys = np.char.zfill(np.arange(start, start + count).astype("U8"), 8).astype("S8")
        yield pa.RecordBatch.from_arrays(
            [pa.array(keys.tolist(), pa.binary()), _fixed(values, count, value_bytes)], names=["key", "value"]
        )


def _fixed(values: np.ndarray[tuple[int, ...], np.dtype[np.uint8]], count: int, size: int) -> pa.Array:
    offsets = np.arange(0, (count + 1) * size, size, dtype=np.int32)
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(values)])
