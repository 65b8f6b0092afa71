"""The open logs of this process, one for each path: Spark's many short-lived objects share them."""

from __future__ import annotations

from oncelog import runtime
from oncelog.errors import StoreAccessError
from oncelog.runtime import Log
from oncelog.spark.kit.kept import KeptOpen

_logs: KeptOpen[Log] = KeptOpen()


def open_log(path: str, znodes: str | None) -> Log:
    """The log at `path`, which must exist, opened once per process. Spark's processes never close it.

    If the log was replaced by a new one, which happens in notebooks and tests, the new one is opened.

    Raises:
        UsageError: there is no log at `path`.
    """
    return _logs.get((path, znodes), lambda: runtime.open(path, znodes, create=False), _is_in_place)


def _is_in_place(log: Log) -> bool:
    """Whether the open store is still the one at its path, as far as this can be told without asking a server."""
    try:
        with log.services.store.snapshot():
            return True
    except StoreAccessError:
        return False


def close_logs() -> None:
    """Close all logs that this process opened, for a program that continues without Spark. Its sinks stop working."""
    _logs.close()
