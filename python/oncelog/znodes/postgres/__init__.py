"""The znode store on PostgreSQL. From the bottom up: address, failures, connection, pool, tables, store."""

from __future__ import annotations

from oncelog.znodes.postgres.store import PostgresZnodeStore

__all__ = ["PostgresZnodeStore"]
