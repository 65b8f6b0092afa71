"""Exactly-once writes of micro-batches into tables of PostgreSQL: `sink()` for foreachBatch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.extras import extras
from oncelog.signatures import checked

if TYPE_CHECKING:
    from oncelog_postgres.batch_sink import PostgresSink

__all__ = ["sink"]


@checked
def sink(**options: Any) -> PostgresSink:
    """An exactly-once sink for ``writeStream.foreachBatch`` that writes into a table of PostgreSQL.

    Args:
        options: the sink's options under their documented names: url, table, mode, transactionalIdPrefix, ...

    Returns:
        A function of (DataFrame, batch id).

    Raises:
        InvalidOptionError: an option is unknown, malformed, missing, or contradicts another one.
        UsageError: this is a Spark Connect session.

    Example:
        sink = oncelog_postgres.sink(
            url="postgresql://host/db", table="public.delayed", transactionalIdPrefix="delayed"
        )
        query = df.writeStream.foreachBatch(sink).option("checkpointLocation", "/data/ck").start()
    """
    with extras("spark,postgres", part="oncelog_postgres"):
        import oncelog_postgres.database  # its packages  # noqa: F401
        from oncelog.spark.versions import require_classic

    require_classic()
    from oncelog_postgres.batch_sink import PostgresSink

    return PostgresSink(options)
