"""The stream reader for Spark 4.0 and 4.1, which pass no limits to Python readers.

On these versions oncelog's jar limits the batches. It has to ask Python where a batch ends, and the only call that
passes two offsets through Spark is `partitions`. So the jar puts its question in place of the end offset
(AskedStream.java), and the answer is a partition that nobody reads.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql.datasource import InputPartition

from oncelog.errors import UsageError
from oncelog.spark.source import StreamReader
from oncelog.spark.task_partition import task_partition

QUESTION = "@ask"


class Answer(InputPartition):
    """A text for the jar, pickled in the same way as a task."""

    def __init__(self, text: str) -> None:
        super().__init__(None)
        self.text = text

    def __reduce__(self) -> tuple[Any, ...]:
        return task_partition, (self.text,)


class AskedStreamReader(StreamReader):
    """Answers the jar's questions."""

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if QUESTION in end:
            return [Answer(json.dumps(self._answer(end[QUESTION], start)))]
        return super().partitions(start, end)

    def _answer(self, question: str, start: dict[str, Any]) -> dict[str, Any] | None:
        match question:
            case "latestOffset":
                return self.next_offset(start, takes_all=False)
            case "latestOffsetOfAll":
                return self.next_offset(start, takes_all=True)
            case "reportLatestOffset":
                return self.reportLatestOffset()
            case "prepareForTriggerAvailableNow":
                self.prepareForTriggerAvailableNow()
                return None
            case _:
                raise UsageError("oncelog's jar and its Python package have different versions", question=question)

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        """Spark calls this only if the jar is missing, so it always raises UsageError."""
        raise UsageError(
            "streams on Spark 4.0 and 4.1 need oncelog's jar: create the session with "
            "oncelog.spark.configure(SparkSession.builder), and set spark.jars of your own before that, not after it; "
            'or start the program with --jars "$(oncelog jars)"'
        )
