"""Exactly-once logs for PySpark.

    import oncelog

    log = oncelog.open("/data/log")
    log.create_topic("flights", partitions=4)

`open` returns a `Log`, which makes producers and consumers and has the admin client. `oncelog.spark` has the Structured
Streaming source and sinks; it needs the extra ``oncelog[spark]``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from oncelog.version import __version__

if TYPE_CHECKING:
    from oncelog.clients.consumer import Consumer
    from oncelog.clients.prepared import PreparedTransaction
    from oncelog.clients.producer import Producer
    from oncelog.runtime import Log, open
    from oncelog.types import ConsumerRecord, IsolationLevel, OffsetAndMetadata, RecordMetadata, TopicPartition

__all__ = [
    "Consumer",
    "ConsumerRecord",
    "IsolationLevel",
    "Log",
    "OffsetAndMetadata",
    "PreparedTransaction",
    "Producer",
    "RecordMetadata",
    "TopicPartition",
    "__version__",
    "open",
]

_HOMES = {
    "Consumer": "clients.consumer",
    "PreparedTransaction": "clients.prepared",
    "Producer": "clients.producer",
    "Log": "runtime",
    "open": "runtime",
    "ConsumerRecord": "types",
    "IsolationLevel": "types",
    "OffsetAndMetadata": "types",
    "RecordMetadata": "types",
    "TopicPartition": "types",
}
"""Loaded on first use, because Spark starts a Python process and imports this package only to look up a data source."""

_MODULES = {"errors", "spark", "types"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"oncelog.{name}")
    if name not in _HOMES:
        raise import_module("oncelog.habits").unknown_name("oncelog", name, __all__)
    return getattr(import_module(f"oncelog.{_HOMES[name]}"), name)
