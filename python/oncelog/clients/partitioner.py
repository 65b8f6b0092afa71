"""Chooses a key's partition: Spark's ``pmod(hash(key), n)``, so that Python and Spark agree on it.

The hash is Spark's Murmur3 (x86, 32 bits, seed 42) of the key's bytes. It differs from the standard in the tail: each
byte after the last whole word is mixed separately, as a signed number. The vectorised form loops over word positions,
not over records.
"""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

SEED = 42

FEW_ROWS = 8
"""When fewer rows than this have words left, they are mixed one by one. Otherwise a huge key would cost an array
operation per word."""

_C1 = 0xCC9E2D51
_C2 = 0x1B873593
_MASK = 0xFFFFFFFF


def hash_key(key: bytes) -> int:
    """Spark's ``hash(key)`` of one binary value, from -2**31 to 2**31 - 1."""
    tail_at = len(key) // 4 * 4
    mixed = _mix_words(SEED, key[:tail_at])
    for byte in key[tail_at:]:
        mixed = _mix(mixed, byte if byte < 128 else byte + 0xFFFFFF00)
    mixed ^= len(key)
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B & _MASK
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 & _MASK
    mixed ^= mixed >> 16
    return mixed - 2**32 if mixed >= 2**31 else mixed


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition of `key` among `partition_count`."""
    return hash_key(key) % partition_count


def hash_keys(keys: pa.BinaryArray | pa.LargeBinaryArray) -> NDArray[np.int32]:
    """`hash_key` of every element at once. For a null element the result is meaningless."""
    starts, lengths, data = _layout(keys)
    order = np.argsort(-lengths, kind="stable")  # longest first: the rows that have word k are a prefix
    starts, lengths = starts[order], lengths[order]
    mixed = _mix_all_words(data, starts, lengths // 4)
    for tail in range(3):
        rows = np.nonzero(lengths % 4 > tail)[0]
        positions = starts[rows] + lengths[rows] // 4 * 4 + tail
        signed = data[positions].view(np.int8).astype(np.int32).view(np.uint32)
        mixed[rows] = _mix_each(mixed[rows], signed)
    hashes = np.empty(len(keys), dtype=np.int32)
    hashes[order] = _finish_each(mixed, lengths).view(np.int32)
    return hashes


def partitions_for_keys(keys: pa.BinaryArray | pa.LargeBinaryArray, partition_count: int) -> pa.Int32Array:
    """`partition_for_key` of every element at once; null where the key is null."""
    partitions = np.mod(hash_keys(keys), np.int32(partition_count))
    return pa.array(partitions, mask=np.asarray(keys.is_null()) if keys.null_count else None)


def _mix(mixed: int, word: int) -> int:
    word = word * _C1 & _MASK
    word = (word << 15 | word >> 17) & _MASK
    mixed ^= word * _C2 & _MASK
    mixed = (mixed << 13 | mixed >> 19) & _MASK
    return mixed * 5 + 0xE6546B64 & _MASK


def _mix_words(mixed: int, data: bytes) -> int:
    for (word,) in struct.iter_unpack("<I", data):
        mixed = _mix(mixed, word)
    return mixed


def _layout(
    keys: pa.BinaryArray | pa.LargeBinaryArray,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """Start and length of each element (0 for a null), and the bytes they point into."""
    offset_type = np.int64 if pa.types.is_large_binary(keys.type) else np.int32
    _, offsets_buffer, data_buffer = keys.buffers()
    offsets = np.frombuffer(offsets_buffer or bytes(8), offset_type)[keys.offset : keys.offset + len(keys) + 1]
    bounds: NDArray[np.int64] = offsets.astype(np.int64)
    lengths = np.diff(bounds)
    if keys.null_count:
        lengths[np.asarray(keys.is_null())] = 0
    return bounds[:-1], lengths, np.frombuffer(data_buffer or b"", np.uint8)


def _mix_all_words(
    data: NDArray[np.uint8], starts: NDArray[np.int64], word_counts: NDArray[np.int64]
) -> NDArray[np.uint32]:
    """Mix the whole words of all rows, longest rows first."""
    mixed = np.full(len(starts), SEED, dtype=np.uint32)
    word = 0
    while (rows := int(np.searchsorted(-word_counts, -word))) >= FEW_ROWS:
        mixed[:rows] = _mix_each(mixed[:rows], _words_at(data, starts[:rows] + 4 * word))
        word += 1
    for row in range(rows):
        rest = data[starts[row] + 4 * word : starts[row] + 4 * word_counts[row]]
        mixed[row] = _mix_words(int(mixed[row]), rest.tobytes())
    return mixed


def _words_at(data: NDArray[np.uint8], positions: NDArray[np.int64]) -> NDArray[np.uint32]:
    """The little-endian words at byte positions of any alignment."""
    words: NDArray[np.uint32] = data[positions].astype(np.uint32)
    for byte in range(1, 4):
        words |= data[positions + byte].astype(np.uint32) << np.uint32(8 * byte)
    return words


def _mix_each(mixed: NDArray[np.uint32], words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """`_mix`, element by element; unsigned arithmetic wraps by itself."""
    words = words * np.uint32(_C1)
    words = words << np.uint32(15) | words >> np.uint32(17)
    mixed = mixed ^ words * np.uint32(_C2)
    mixed = mixed << np.uint32(13) | mixed >> np.uint32(19)
    return mixed * np.uint32(5) + np.uint32(0xE6546B64)


def _finish_each(mixed: NDArray[np.uint32], lengths: NDArray[np.int64]) -> NDArray[np.uint32]:
    mixed = mixed ^ lengths.astype(np.uint32)
    mixed = (mixed ^ mixed >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    mixed = (mixed ^ mixed >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return mixed ^ mixed >> np.uint32(16)
