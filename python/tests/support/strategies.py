"""Strategies of hypothesis that know the extremes of `oncelog.testing.extremes`, and mix them with random values."""

from __future__ import annotations

from hypothesis import strategies as st

from oncelog.testing.extremes import BYTES, FLOATS, HALF_TEXTS, INTEGERS, LONG_SIZE, NAMES, TEXTS
from oncelog.types import MAX_LONG

__all__ = ["any_texts", "byte_strings", "floats", "integers", "names", "texts"]


def integers(least: int = -MAX_LONG - 1, greatest: int = MAX_LONG) -> st.SearchStrategy[int]:
    """Integers of a range, its ends and the ends of smaller types within it among them."""
    extremes = {least, greatest, *(number for number in INTEGERS if least <= number <= greatest)}
    return st.integers(least, greatest) | st.sampled_from(sorted(extremes))


def floats() -> st.SearchStrategy[float]:
    return st.floats() | st.sampled_from(FLOATS)


def byte_strings(max_size: int = 8) -> st.SearchStrategy[bytes]:
    """Random bytes of at most this size, and extremes of any size but the longest, which are too long to print."""
    return st.binary(max_size=max_size) | st.sampled_from([data for data in BYTES if len(data) < LONG_SIZE])


def texts(max_size: int = 8) -> st.SearchStrategy[str]:
    """The same of texts that have UTF-8."""
    own = st.text(st.characters(exclude_categories=["Cs"]), max_size=max_size)
    return own | st.sampled_from([text for text in TEXTS if len(text) < LONG_SIZE])


def any_texts(max_size: int = 8) -> st.SearchStrategy[str]:
    """Texts of Python, which may be halves of surrogate pairs."""
    return st.text(max_size=max_size) | texts(max_size) | st.sampled_from(HALF_TEXTS)


def names() -> st.SearchStrategy[str]:
    """Texts that are not empty."""
    return (st.sampled_from(NAMES) | texts(6)).filter(bool)
