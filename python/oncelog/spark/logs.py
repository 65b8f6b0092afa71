"""The open logs of this process, one for each path: Spark's many short-lived objects share them.

A forked worker opens its own.
"""

from __future__ import annotations

import os

from oncelog import runtime
from oncelog.errors import StoreAccessError
from oncelog.runtime import Log

_open_logs: dict[tuple[int, str, str | None], Log] = {}


def open_log(path: str, znodes: str | None) -> Log:
    """The log at `path`, which must exist, opened once per process. Spark's processes never close it.

    If the log was replaced by a new one, which happens in notebooks and tests, the new one is opened.

    Raises:
        UsageError: there is no log at `path`.
    """
    key = (os.getpid(), path, znodes)
    if key not in _open_logs or not _is_in_place(_open_logs[key]):
        _open_logs[key] = runtime.open(path, znodes, create=False)
    return _open_logs[key]


def _is_in_place(log: Log) -> bool:
    """Whether the open store is still the one at its path, as far as this can be told without asking a server."""
    try:
        with log.services.store.snapshot():
            return True
    except StoreAccessError:
        return False


def close_logs() -> None:
    """Close all logs that this process opened, for a program that continues without Spark. Its sinks stop working."""
    while _open_logs:
        _open_logs.popitem()[1].close()
