"""The log on each store, for the tests of this folder."""

from __future__ import annotations

from tests.support.log.logs import log, world

__all__ = ["log", "world"]
