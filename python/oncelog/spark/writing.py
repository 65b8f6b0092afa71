"""The sinks' task side: rows become durable blocks. Touches no znode, so a retry, a speculative copy or a zombie task
leaves an orphan file and nothing else.

Rows arrive with the columns of `schema.to_sink_columns`: key, value, headers, timestamp_ms, and where they go: the topic
(a column, or one for all), and the log partition or the key's hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from oncelog import limits
from oncelog.log import generations
from oncelog.log.files import file_store
from oncelog.log.segment import SegmentWriter
from oncelog.types import Block


@dataclass(frozen=True, slots=True)
class WriteTask:
    """What a sink's task needs to know; pickled into it.

    Attributes:
        path: root of the log.
        generation: collection generation, read by the driver before the job.
        codec: compression of the blocks.
        partitions: number of partitions of each topic that may be written.
        topic: of all rows; None if each row names its own.
    """

    path: str
    generation: int
    codec: str
    partitions: Mapping[str, int]
    topic: str | None
