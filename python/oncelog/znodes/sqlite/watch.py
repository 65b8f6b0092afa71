"""Waits for changes of the store: for a touch of its file, or for the time of the next look."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from oncelog.limits import BUSY_PAUSE_MS, LOOK_MS
from oncelog.ports import ZnodeReader
from oncelog.znodes.sqlite.bell import Bell, Bells
from oncelog.znodes.watching import has_changed


class SqliteWatch:
    """`ports.Watch`. A look that finds no commit reads one row.

    Args:
        reader: of the newest znodes.
        newest_zxid: reads the zxid of the last multi.
    """

    def __init__(self, reader: ZnodeReader, newest_zxid: Callable[[], int], bells: Bells) -> None:
        self._reader = reader
        self._newest_zxid = newest_zxid
        self._bells = bells
        self._bell: Bell | None = None
        self._seen_zxid: int | None = None

    def wait(self, paths: Iterable[str], timeout_ms: int) -> None:
        if self._seen_zxid is None:
            self._seen_zxid = self._newest_zxid()
            return
        wanted = list(paths)
        bell = self._bell = self._bell or self._bells.take()
        deadline_s = time.monotonic() + timeout_ms / 1000
        while True:
            seen_zxid, self._seen_zxid = self._seen_zxid, self._newest_zxid()
            if seen_zxid != self._seen_zxid:
                if has_changed(self._reader.get_many(wanted), seen_zxid):
                    return
                time.sleep(BUSY_PAUSE_MS / 1000)
            left_ms = round((deadline_s - time.monotonic()) * 1000)
            if left_ms <= 0:
                return
            bell.wait(min(left_ms, LOOK_MS))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        bell, self._bell = self._bell, None
        if bell is not None:
            self._bells.take_back(bell)
