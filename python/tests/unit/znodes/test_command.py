"""What begins like an entry of the command log: all of oncelog's, however damaged, and nothing of other programs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.errors import CorruptDataError
from oncelog.ports import Check, Create, Delete, Op, Set
from oncelog.znodes.replicated.command import Batch, Part, decode, encode, is_entry
from oncelog.znodes.replicated.port import Entry
from tests.support import strategies

PATHS = st.text("/ab\u00e9\u4e2d", min_size=1, max_size=8)
DATA = strategies.byte_strings(40)
NUMBERS = strategies.integers(-1, 2**62)
OPS: st.SearchStrategy[Op] = st.one_of(
    st.builds(Create, PATHS, DATA),
    st.builds(Set, PATHS, DATA, NUMBERS),
    st.builds(Delete, PATHS, NUMBERS),
    st.builds(Check, PATHS, NUMBERS),
)
ENTRIES = st.one_of(
    st.builds(Batch, st.text(max_size=20), NUMBERS, NUMBERS, NUMBERS, st.lists(st.lists(OPS, max_size=3), max_size=3)),
    st.builds(Part, NUMBERS, st.text(max_size=20), NUMBERS, NUMBERS, DATA),
)


@given(ENTRIES)
def test_every_entry_begins_like_one(entry: Batch | Part) -> None:
    assert is_entry(encode(entry))


@given(ENTRIES, st.data())
@settings(max_examples=300)
def test_an_entry_that_was_changed_or_cut_is_damaged_and_no_record_of_others(
    entry: Batch | Part, data: st.DataObject
) -> None:
    body = bytearray(encode(entry))
    for _ in range(data.draw(st.integers(0, 2), "changes")):
        body[data.draw(st.integers(0, len(body) - 1), "place")] = data.draw(st.integers(0, 255), "byte")
    torn = bytes(body[: data.draw(st.integers(13, len(body)), "length")])

    assert is_entry(torn)


@given(ENTRIES, st.data())
def test_an_entry_that_was_cut_within_its_json_is_refused(entry: Batch | Part, data: st.DataObject) -> None:
    body = encode(entry)
    length = 4 + int.from_bytes(body[:4])
    torn = body[: data.draw(st.integers(5, length - 1), "length")]

    assert is_entry(torn)
    with pytest.raises(CorruptDataError):
        decode(Entry(7, 0, torn))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"order 17",
        b'{"id": 17, "version": 1, "amount": 4}',
        b'{"version":1,"sender":"x"}',  # text, without the four bytes of its length
        b"\x00\x00\x00\x04\xd2\x0ca schema's record",
        b"\x00\x00\x00\x00\x00\x00",
        bytes(range(256)),
    ],
)
def test_what_other_programs_write_does_not_begin_like_an_entry(body: bytes) -> None:
    assert not is_entry(body)
