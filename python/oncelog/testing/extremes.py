"""Python's values at the edges of what formats and stores hold: the one set that all generators of values draw from.

The fuzzer, the simulation and the property tests mix them with values of their own; `extreme_values` has the same
edges, and more, in Spark's types.
"""

from __future__ import annotations

from math import inf, nan
from typing import Final

LONG_SIZE: Final = 70_000
"""Of long texts and bytes: more than 16 bits count."""

INTEGERS: Final = tuple(
    sorted(
        {0, 1, -1, 2**53, 2**53 + 1}
        | {sign * 2**bits + beyond for bits in (7, 15, 31, 63) for sign in (1, -1) for beyond in (-1, 0)}
        | {2**bits + beyond for bits in (8, 16, 32, 64) for beyond in (-1, 0)}
    )
)
"""The least and the greatest number of 8 to 64 bits, with and without a sign, and the next ones beyond."""

FLOATS: Final = (
    *(inf, -inf, nan, 0.0, -0.0),
    *(5e-324, -5e-324, 2.2250738585072009e-308, 2.2250738585072014e-308, 1.7976931348623157e308),
    *(1.401298464324817e-45, 1.1754943508222875e-38, 3.4028234663852886e38, 3.4028235677973366e38),
)
"""What is no number; the smallest, the subnormal and the greatest of 64 and of 32 bits, and one beyond 32 bits."""

TEXTS: Final = (
    *("", "\0", "a\0b", " ", " a ", "\n", "a\n\r\t\"'\\", "%s", "007", "1e5", "null", "NaN", "..", "/"),
    *("__HIVE_DEFAULT_PARTITION__", "\ufeffa", "\u2028", "e\u0301", "\ud7ff", "\ue000", "\uffff", "\U0010ffff"),
    f"{'a' * 15}\ud7ff",
    f"{'a' * 32}\U0010ffff",
    "\U0010ffff" * 40,
    "x" * LONG_SIZE,
)
"""Texts that have UTF-8."""

HALF_TEXTS: Final = ("\ud800", "\udfff", "a\udc00b", "\udfff\ud800")
"""Texts that have none: halves of surrogate pairs."""

BAD_UTF8: Final = (b"\xff", b"\x80", b"a\xe2\x82", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80")
"""Bytes that are no text: a byte of no character, half a character, NUL in two bytes, half a pair, beyond the last."""

BYTES: Final = (b"\x00\xff\x80", bytes(16), b"\xff" * 16, *BAD_UTF8, *(text.encode() for text in TEXTS))

NAMES: Final = (
    *("a b", "a.b", "a`b", 'a"b', "a'b", "a\\b", "a%b", "a=b", "a,b;{}()", "a\nb\tc", "größe", "列", "select"),
    *("_id", "_hidden", "1st", "UPPER", "x" * 200),
)
"""Names of columns that Spark takes, and that stores treat in special ways."""
