"""Exactly-once logs for PySpark.

    import oncelog

    log = oncelog.open("/data/log")
    log.create_topic("flights", partitions=4)

`open` gives a `Log`, which makes producers, consumers and the admin client. `oncelog.spark` has the Structured
Streaming source and sinks; it needs the extra ``oncelog[spark]`` and is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from oncelog.clients.consumer import Consumer
from oncelog.clients.prepared import PreparedTransaction
from oncelog.clients.producer import Producer
from oncelog.runtime import Log, open
from oncelog.types import (
    ConsumerRecord,
    IsolationLevel,
    OffsetAndMetadata,
    RecordMetadata,
    TopicPartition,
)
from oncelog.version import __version__

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


def __getattr__(name: str) -> ModuleType:
    if name == "spark":
        return import_module("oncelog.spark")
    raise AttributeError(f"module 'oncelog' has no attribute {name!r}")
