"""The embedded znode store. Its modules, from the bottom up: connection, pool, file, bell, watch, store."""

from __future__ import annotations

from oncelog.znodes.sqlite.connection import SQLITE_VERSION
from oncelog.znodes.sqlite.file import is_there
from oncelog.znodes.sqlite.store import SqliteZnodeStore

__all__ = ["SQLITE_VERSION", "SqliteZnodeStore", "is_there"]
