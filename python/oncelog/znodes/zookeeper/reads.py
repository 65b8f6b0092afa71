"""Reads many znodes by one request, which ZooKeeper knows since 3.6 and kazoo does not.

kazoo wakes another thread for each request and each answer: a thousand single reads keep a core busy for 150 ms, and
the same read together for 5. A server older than that refuses the request and ends the session; session.py then
reads each znode by a request of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from oncelog.extras import extras

with extras("zookeeper", part="oncelog.znodes.zookeeper"):
    from kazoo.client import KazooClient
    from kazoo.exceptions import EXCEPTIONS
    from kazoo.protocol.serialization import GetData, MultiHeader, int_struct, read_buffer, stat_struct
    from kazoo.protocol.states import ZnodeStat

TOGETHER: Final = 200
"""Znodes of one request. A server does nothing else for the session while it answers."""

APART: Final[set[str]] = set()
"""Servers, as URLs name them, that refused the request."""

_END: Final = MultiHeader(-1, True, -1)
_ERROR: Final = -1


@dataclass(frozen=True)
class ReadMany:
    """The request, in kazoo's form of one."""

    places: Sequence[str]

    type: ClassVar = 22
    """ZooKeeper's OpCode.multiRead."""

    def serialize(self) -> bytes:
        """The request's body: a read for each place."""
        header = MultiHeader(GetData.type, False, -1).serialize()
        reads = (header + GetData(place, None).serialize() for place in self.places)
        return bytes(b"".join((*reads, _END.serialize())))

    @staticmethod
    def deserialize(answer: bytes, offset: int) -> list[Any]:
        """For each place its data and kazoo's stat of it, or kazoo's error."""
        found: list[Any] = []
        while True:
            header, offset = MultiHeader.deserialize(answer, offset)
            if header.done:
                return found
            if header.type == _ERROR:
                (code,) = int_struct.unpack_from(answer, offset)
                found.append(EXCEPTIONS[code]())
                offset += int_struct.size
            else:
                data, offset = read_buffer(answer, offset)
                found.append((data, ZnodeStat._make(stat_struct.unpack_from(answer, offset))))
                offset += stat_struct.size


def read_many(client: KazooClient, places: Sequence[str]) -> list[Any]:
    """Send requests for all of them; returns kazoo's future answers."""
    asked = []
    for start in range(0, len(places), TOGETHER):
        answer = client.handler.async_result()
        client._call(ReadMany(places[start : start + TOGETHER]), answer)
        asked.append(answer)
    return asked
