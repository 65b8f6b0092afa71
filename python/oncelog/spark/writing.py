"""The sinks' task side: rows become durable blocks. Touches no znode, so a retry, a speculative copy or a zombie task
leaves an orphan file and nothing else.

Rows arrive in the columns of `schema.to_sink_columns`; each finds its log partition here: the one it names, or that of
its key's hash, or, without a key, the task's next one in turn.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from oncelog.errors import UnknownPartitionError, UnknownTopicError
from oncelog.log import generations
from oncelog.log.files import file_store
from oncelog.log.routing import split_rows
from oncelog.log.segment import BlockBuffer, SegmentWriter
from oncelog.types import Block, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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


@dataclass(frozen=True, slots=True)
class Written:
    """A durable block, and the log partition it is for."""

    topic: str
    partition: int
    block: Block
