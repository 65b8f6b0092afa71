"""Which texts are addresses: what Python's `ipaddress` takes, by an expression that Spark can evaluate."""

from __future__ import annotations

import ipaddress
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_search.addresses import ADDRESS

GROUPS = st.sampled_from(["", "0", "1", "ffff", "AbCd", "00001", "g", "1.2.3.4", "1.2.3.256", "01.2.3.4", "1.2.3"])
PUT_TOGETHER = st.lists(GROUPS, max_size=10).map(":".join)
ADDRESSES = st.ip_addresses().map(str)
SPOILED = st.tuples(ADDRESSES, st.sampled_from(["\n", "\r\n", " ", "/64", ".", ":", "0", "\u0661"])).map("".join)


def is_taken(text: str) -> bool:
    return re.search(ADDRESS, text) is not None


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


@given(st.one_of(PUT_TOGETHER, ADDRESSES, SPOILED, st.text(alphabet="0123456789abF:.\n%")))
def test_a_text_is_taken_if_it_is_an_address_for_python(text: str) -> None:
    assert is_taken(text) == (is_address(text) and "%" not in text)


@pytest.mark.parametrize("left", range(9))
@pytest.mark.parametrize("right", range(9))
@pytest.mark.parametrize("last", ["", "1.2.3.4"])
def test_groups_that_are_left_out_are_counted(left: int, right: int, last: str) -> None:
    text = ":".join("f" * left) + "::" + ":".join([*"e" * right, *([last] if last else [])])

    assert is_taken(text) == is_address(text)
