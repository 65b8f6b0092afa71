"""Logs whose metadata is on a real server, by a clock that the test drives.

The server stamps znodes by the machine's clock. `ServerTime` remembers when the test let time pass, and reads such a
stamp as the test's time, so that tests of time-outs run on a server as they are.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from pathlib import Path

from oncelog.ports import Znode, ZnodeStore
from oncelog.znodes.clock import wall_ms
from tests.support.log.logs import DrivenTime, LogWorld

_APART_S = 0.002
"""Stamps are in whole milliseconds: what came before a leap in time must not bear its stamp."""


class ServerTime(DrivenTime):
    """A driven clock beside a server whose clock goes on by itself."""

    def __init__(self) -> None:
        self._leaps: list[tuple[int, int]] = []  # from when on by the machine's clock, and the test's time since then
        super().__init__()

    @property
    def wall_ms(self) -> int:
        return self._leaps[-1][1]

    @wall_ms.setter
    def wall_ms(self, value: int) -> None:
        time.sleep(_APART_S)
        self._leaps.append((wall_ms(), value))

    def of(self, stamp_ms: int) -> int:
        """A time of the server as the test's."""
        at = bisect_right(self._leaps, stamp_ms, key=lambda leap: leap[0]) - 1
        return self._leaps[max(at, 0)][1]

    def driven(self, znode: Znode) -> Znode:
        """A znode of the server, with the test's times."""
        times = {"ctime_ms": self.of(znode.stat.ctime_ms), "mtime_ms": self.of(znode.stat.mtime_ms)}
        return znode._replace(stat=znode.stat._replace(**times))


class ServerLogWorld(LogWorld):
    """The znodes of one log on a server, its files on the disk.

    Args:
        folder: of the files.
        url: of the znodes; nobody else's.
    """

    kind: str

    def __init__(self, folder: Path, url: str) -> None:
        self.url = url
        super().__init__(folder, self.kind, time=ServerTime())

    def store(self, url: str | None = None) -> ZnodeStore:
        """The znodes, as a process of its own sees them; through another address of the server if one is given."""
        assert isinstance(self.time, ServerTime)
        store = self.opened_by(self.time, url or self.url)
        self._opened.append(store)
        return store

    def opened_by(self, time: ServerTime, url: str) -> ZnodeStore:
        """A store that reads the times of znodes by the test's clock."""
        raise NotImplementedError
