"""The Structured Streaming source and sinks. Needs the extra ``oncelog[spark]``.

``spark.readStream.format("oncelog")`` and ``df.writeStream.format("oncelog")`` need no registration: Spark finds the
module ``pyspark_oncelog``. The main way to write is ``df.writeStream.foreachBatch(oncelog.spark.sink(...))``.
`configure` adds oncelog's jar to a session: reads get faster, and streams on Spark 4.0 and 4.1 need it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncelog.spark.batch_sink import Sink, sink
    from oncelog.spark.data_source import OncelogDataSource
    from oncelog.spark.observing import Observation, observe
    from oncelog.spark.once_sink import once
    from oncelog.spark.packaging import configure, jars
    from oncelog.spark.together_sink import together

__all__ = [
    "Observation",
    "OncelogDataSource",
    "Sink",
    "configure",
    "jars",
    "observe",
    "once",
    "sink",
    "together",
]

_HOMES = {
    "Observation": "observing",
    "OncelogDataSource": "data_source",
    "Sink": "batch_sink",
    "configure": "packaging",
    "jars": "packaging",
    "observe": "observing",
    "once": "once_sink",
    "sink": "batch_sink",
    "together": "together_sink",
}
"""Imported on first use, so that programs without PySpark can use what all sinks share (`kit`)."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'oncelog.spark' has no attribute {name!r}")
    import_module("oncelog.spark.versions").check_version()
    return getattr(import_module(f"oncelog.spark.{_HOMES[name]}"), name)
