"""Exactly-once writes of micro-batches into tables of a lake: `delta()` and `iceberg()` for foreachBatch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.extras import extras
from oncelog.signatures import checked

if TYPE_CHECKING:
    from oncelog_tables.batch_sink import DeltaSink, IcebergSink

__all__ = ["delta", "iceberg"]


@checked
def delta(**options: Any) -> DeltaSink:
    """An exactly-once sink for ``writeStream.foreachBatch`` that appends to a Delta table, or replaces its rows.

    Args:
        options: the sink's options under their documented names: path, znodes, transactionalIdPrefix, ...

    Returns:
        A function of (DataFrame, batch id).

    Raises:
        InvalidOptionError: an option is unknown, malformed, missing, or contradicts another one.
        UsageError: this is a Spark Connect session.

    Example:
        sink = oncelog_tables.delta(path="/lake/delayed", znodes="/data/ledger", transactionalIdPrefix="delayed")
        query = df.writeStream.foreachBatch(sink).option("checkpointLocation", "/data/ck").start()
    """
    with extras("spark,delta", part="oncelog_tables"):
        import oncelog_tables.delta_tables  # its packages  # noqa: F401
        from oncelog.spark.versions import require_classic

    require_classic()
    from oncelog_tables.batch_sink import DeltaSink

    return DeltaSink(options)


@checked
def iceberg(**options: Any) -> IcebergSink:
    """An exactly-once sink for ``writeStream.foreachBatch`` that appends to an Iceberg table, or replaces its rows.

    Args:
        options: the sink's options under their documented names: table, catalog, znodes, transactionalIdPrefix, ...

    Returns:
        A function of (DataFrame, batch id).

    Raises:
        InvalidOptionError: an option is unknown, malformed, missing, or contradicts another one.
        UsageError: this is a Spark Connect session.

    Example:
        sink = oncelog_tables.iceberg(
            table="lake.delayed", catalog="prod", znodes="/data/ledger", transactionalIdPrefix="delayed"
        )
        query = df.writeStream.foreachBatch(sink).option("checkpointLocation", "/data/ck").start()
    """
    with extras("spark,iceberg", part="oncelog_tables"):
        import oncelog_tables.iceberg_tables  # its packages  # noqa: F401
        from oncelog.spark.versions import require_classic

    require_classic()
    from oncelog_tables.batch_sink import IcebergSink

    return IcebergSink(options)
