"""The partition of a key: golden values of Spark's hash, and the vectorised form against the plain one.

That the golden values are Spark's is proven on a running Spark in `tests/spark/test_partitioner.py`.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.clients.partitioner import FEW_ROWS, hash_key, hash_keys, partition_for_key, partitions_for_keys
from tests.support import strategies

GOLDEN = {
    b"": 142593372,
    b"a": 1485273170,
    b"UA": 2450805,
    b"flights": -1641499909,
    b"\x80": 775851899,
    b"\xff\xfe\xfd": -1550104651,
    b"\xde\xad\xbe\xef": 268093499,
    bytes(range(256)): -1466620173,
}

KEYS = st.lists(st.none() | strategies.byte_strings(70), max_size=4 * FEW_ROWS)
TYPES = st.sampled_from([pa.binary(), pa.large_binary()])


@pytest.mark.parametrize(("key", "wanted"), GOLDEN.items())
def test_the_hash_of_a_key_never_changes_since_logs_are_laid_out_by_it(key: bytes, wanted: int) -> None:
    assert hash_key(key) == wanted
    assert hash_keys(pa.array([key], pa.binary())).tolist() == [wanted]


@given(KEYS, TYPES, st.integers(0, 3), st.integers(0, 3))
def test_many_keys_at_once_hash_as_each_alone(
    keys: list[bytes | None], kind: pa.DataType, before: int, after: int
) -> None:
    padded = pa.array([b"before"] * before + keys + [b"after"] * after, kind)

    hashes = hash_keys(padded.slice(before, len(keys)))

    assert hashes.dtype == np.int32
    assert [found for found, key in zip(hashes.tolist(), keys, strict=True) if key is not None] == [
        hash_key(key) for key in keys if key is not None
    ]


@given(KEYS, TYPES, st.integers(1, 2**31 - 1))
def test_every_key_has_a_partition_of_the_topic_and_null_has_none(
    keys: list[bytes | None], kind: pa.DataType, count: int
) -> None:
    partitions = partitions_for_keys(pa.array(keys, kind), count).to_pylist()

    assert partitions == [None if key is None else partition_for_key(key, count) for key in keys]
    assert all(partition is None or 0 <= partition < count for partition in partitions)


@pytest.mark.slow
def test_one_huge_key_among_many_is_hashed_like_the_others() -> None:
    keys = [bytes(range(256)) * 4096, *[b"k%d" % number for number in range(100)]]

    assert hash_keys(pa.array(keys, pa.binary())).tolist() == [hash_key(key) for key in keys]


def test_what_a_null_covers_does_not_matter() -> None:
    data = pa.py_buffer(b"abcdefgh")
    offsets = pa.py_buffer(np.array([0, 4, 8], np.int32).tobytes())
    masked = pa.Array.from_buffers(pa.binary(), 2, [pa.py_buffer(b"\x02"), offsets, data])

    assert masked.to_pylist() == [None, b"efgh"]
    assert partitions_for_keys(masked, 7).to_pylist() == [None, partition_for_key(b"efgh", 7)]
