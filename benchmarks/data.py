"""Rows to measure with: keys of eight bytes, and values of a kind that compresses well, badly or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ROWS_PER_BATCH = 50_000

Values = Callable[[np.random.Generator, int, int], pa.Array]
"""Makes so many values of so many bytes."""

_TEXT = np.frombuffer(b'0123456789abcdef{}":, -.truefalsn', dtype=np.uint8)
_HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz", dtype=np.uint8)
_DISTINCT = 100


def batches(rows: int, value_bytes: int, seed: int = 7, kind: str = "text") -> Iterator[pa.RecordBatch]:
    """`rows` rows of an 8-byte key and a value of `value_bytes`, in batches.

    Args:
        kind: of the values, one of `KINDS`.
    """
    random = np.random.default_rng(seed)
    for start in range(0, rows, ROWS_PER_BATCH):
        count = min(ROWS_PER_BATCH, rows - start)
        keys = np.char.zfill(np.arange(start, start + count).astype("U8"), 8).astype("S8")
        values = KINDS[kind](random, count, value_bytes)
        yield pa.RecordBatch.from_arrays([pa.array(keys.tolist(), pa.binary()), values], names=["key", "value"])


def _of(letters: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> Values:
    """Random letters of an alphabet."""

    def values(random: np.random.Generator, count: int, size: int) -> pa.Array:
        chosen = letters[random.integers(0, len(letters), count * size, dtype=np.uint8)]
        offsets = np.arange(0, (count + 1) * size, size, dtype=np.int32)
        return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(chosen)])

    return values


def _json(random: np.random.Generator, count: int, size: int) -> pa.Array:
    """Events of users. Each ends in a note of random letters, which fills it up."""

    def number(below: int) -> pa.Array:
        return pa.array(random.integers(0, below, count)).cast(pa.string())

    note = _of(_LETTERS)(random, count, size).cast(pa.string())
    fields = ['{"user":', number(100_000), ',"page":"/flights/', number(2_000), '","ms":', number(5_000), ',"note":"']
    cut = pc.utf8_slice_codeunits(pc.binary_join_element_wise(*fields, note, ""), 0, size - 2)
    return pc.binary_join_element_wise(cut, '"}', "").cast(pa.binary())


def _repetitive(random: np.random.Generator, count: int, size: int) -> pa.Array:
    distinct = _of(_TEXT)(np.random.default_rng(1), _DISTINCT, size)
    return distinct.take(pa.array(random.integers(0, _DISTINCT, count)))


KINDS: Final[Mapping[str, Values]] = {
    "text": _of(_TEXT),
    "hex": _of(_HEX),
    "JSON": _json,
    "repetitive": _repetitive,
}
"""*text* is random, and compresses about as JSON does; *hex* is random digits; *JSON* is events of users; *repetitive*
has 100 different values."""
