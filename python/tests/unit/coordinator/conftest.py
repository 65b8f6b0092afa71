"""The log on each store, for the tests of this folder."""

from __future__ import annotations

from tests.support.log.logs import log, memory_world, world

__all__ = ["log", "memory_world", "world"]
