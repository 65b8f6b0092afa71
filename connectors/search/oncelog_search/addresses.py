"""Which texts the stores take for an IP address: what Python's `ipaddress` takes, as a regular expression for Spark.

The stores also take a scope after an IPv6 address (``fe80::1%eth0``), which they drop. It is not taken here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_BYTE: Final = r"(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4: Final = rf"({_BYTE}\.){{3}}{_BYTE}"
_GROUP: Final = "[0-9A-Fa-f]{1,4}"
_GROUPS: Final = 8
_GROUPS_OF_AN_IPV4: Final = 2


def _ipv6() -> Iterator[str]:
    """All forms: with each number of groups before a `::`, or without it; the last two may be written as IPv4."""
    yield f"({_GROUP}:){{7}}{_GROUP}"
    yield f"({_GROUP}:){{6}}{_IPV4}"
    for before in range(_GROUPS):
        start = f"({_GROUP}:){{{before - 1}}}{_GROUP}::" if before else "::"
        behind = _GROUPS - 1 - before
        yield f"{start}(({_GROUP}:){{0,{behind - 1}}}{_GROUP})?" if behind else start
        if behind >= _GROUPS_OF_AN_IPV4:
            yield f"{start}({_GROUP}:){{0,{behind - _GROUPS_OF_AN_IPV4}}}{_IPV4}"


ADDRESS: Final = rf"^({'|'.join([_IPV4, *_ipv6()])})(?![\s\S])"
"""To be searched for. Its end is not ``$``, which is also true before a final line break."""
