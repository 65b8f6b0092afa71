"""Runs the tasks of the sinks in Spark's own processes, where oncelog's jar is in the session.

Starting a Python worker, and sending it rows, takes longer than writing a small batch. So the jar's tasks
(jvm_shims/spark, the package ``sink``) write the same blocks as `writing.TaskWriter`, with the same errors and crash
points. Python still says which files they may make, and commits what they wrote. Without the jar, and for logs in an
object store, whose clients and credentials are Python's, tasks write in Python.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from oncelog import limits
from oncelog.log import codec, columns, generations
from oncelog.log.files import is_object_store
from oncelog.spark import task_errors, writing
from oncelog.spark.kit.jvm import find_class
from oncelog.spark.writing import WriteTask, Written
from oncelog.types import Block
from oncelog.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SWITCH = "spark.oncelog.jvmWriter"
"""If a session sets it to false, tasks write in Python."""

_CLASS = "io.oncelog.spark.sink.BatchWriter"


def run_job(rows: DataFrame, task: WriteTask) -> list[Written]:
    """`writing.run_job`, by the jar's tasks if they can."""
    session = rows.sparkSession
    if is_object_store(task.path) or str(session.conf.get(SWITCH, "true")).lower() != "true":
        return writing.run_job(rows, task)
    writer = _batch_writer(session._jvm)
    if writer is None:
        return writing.run_job(rows, task)
    with task_errors.in_one_sentence():
        found = writer.write(rows._jdf, json.dumps(described(task)))
    return [piece for some in json.loads(found) for piece in written(some)]


@cache
def _batch_writer(jvm: Any) -> Any:
    """The jar's entry point, if Spark has loaded the jar of this version; else None."""
    found = find_class(jvm, _CLASS)
    return found if found is not None and found.version() == __version__ else None


def described(task: WriteTask) -> dict[str, Any]:
    """A task in the form that WriteTask.java reads, as JSON."""
    return {
        "folder": task.path,
        "prefix": generations.prefix(generations.DATA, task.generation),
        "codec": task.codec,
        "level": columns.ZSTD_LEVEL,
        "topic": task.topic,
        "partitions": task.partitions,
        "header": base64.b64encode(codec.file_header(b"")).decode(),
        "limits": {
            "block": limits.BLOCK_TARGET_BYTES,
            "buffer": limits.WRITER_BUFFER_BYTES,
            "file": limits.FILE_ROLL_BYTES,
            "record": limits.MAX_RECORD_BYTES,
            "timestampMs": limits.MAX_TIMESTAMP_MS,
        },
    }


def written(found: Iterable[Any]) -> list[Written]:
    """What a task of the jar wrote, from its JSON."""
    return [Written(topic, partition, Block(*block)) for topic, partition, block in found]
