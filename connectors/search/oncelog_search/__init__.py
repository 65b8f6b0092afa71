"""Exactly-once writes of micro-batches into an index of OpenSearch or Elasticsearch: `sink()` for foreachBatch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from oncelog.extras import extras
from oncelog.signatures import checked

if TYPE_CHECKING:
    from oncelog_search.batch_sink import SearchSink

__all__ = ["sink"]


@checked
def sink(**options: Any) -> SearchSink:
    """An exactly-once sink for ``writeStream.foreachBatch`` that writes documents into an index.

    Args:
        options: the sink's options under their documented names: url, index, staging, mode, transactionalIdPrefix, ...

    Returns:
        A function of (DataFrame, batch id).

    Raises:
        InvalidOptionError: an option is unknown, malformed, missing, or contradicts another one.
        UsageError: this is a Spark Connect session.

    Example:
        sink = oncelog_search.sink(
            url="https://search:9200", index="flights", staging="/data/staging", transactionalIdPrefix="flights"
        )
        query = df.writeStream.foreachBatch(sink).option("checkpointLocation", "/data/ck").start()
    """
    with extras("spark,search", part="oncelog_search"):
        import oncelog_search.server  # its package  # noqa: F401
        from oncelog.spark.versions import require_classic

    require_classic()
    from oncelog_search.batch_sink import SearchSink

    return SearchSink(options)
