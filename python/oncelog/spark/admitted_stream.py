"""The stream reader for Spark 4.2 and later, which asks Python readers how much a batch may take."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from oncelog.spark.source import StreamReader


class AdmittedStreamReader(StreamReader, SupportsTriggerAvailableNow):
    """Tells Spark its limit; Spark passes the limit back with each batch."""

    def getDefaultReadLimit(self) -> ReadLimit:
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self.next_offset(start, takes_all=isinstance(limit, ReadAllAvailable))
