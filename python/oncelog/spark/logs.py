"""Open logs, one per process and place: Spark calls in from many short-lived objects; a forked worker opens anew."""

from __future__ import annotations

import os

from oncelog import runtime
from oncelog.errors import StoreAccessError
from oncelog.runtime import Log

_open_logs: dict[tuple[int, str, str | None], Log] = {}


def open_log(path: str, znodes: str | None) -> Log:
    """The log at `path`, opened once per process; it must exist. Spark's processes never close it: they end.

    Where another log took its place, which happens in notebooks and tests, the new one is opened.

    Raises:
        UsageError: there is no log at `path`.
    """
    key = (os.getpid(), path, znodes)
    if key not in _open_logs or not _is_in_place(_open_logs[key]):
        _open_logs[key] = runtime.open(path, znodes, create=False)
    return _open_logs[key]


def _is_in_place(log: Log) -> bool:
    """Whether the log's store is still the one at its place, as far as that shows without asking a server."""
    try:
        with log.services.store.snapshot():
            return True
    except StoreAccessError:
        return False


def close_logs() -> None:
    """Close what this process opened, for a program that goes on without Spark; sinks made so far are of no use."""
    while _open_logs:
        _open_logs.popitem()[1].close()
