"""When a query is killed: at ten points of a batch, in as many lives."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from oncelog.crash_points import CrashPoint
from oncelog_files.crash_points import FilesCrashPoint
from oncelog_kafka.crash_points import KafkaCrashPoint
from oncelog_postgres.crash_points import PostgresCrashPoint
from oncelog_search.crash_points import SearchCrashPoint
from oncelog_tables.crash_points import TablesCrashPoint


class TwinPoint(StrEnum):
    """Between the writes of a query that writes into one store after the other."""

    KAFKA = "twin.kafka"
    POSTGRES = "twin.postgres"
    ICEBERG = "twin.iceberg"
    FILES = "twin.files"
    SEARCH = "twin.search"


TOGETHER: Sequence[StrEnum] = (
    KafkaCrashPoint.WRITTEN,
    PostgresCrashPoint.WRITTEN,
    TablesCrashPoint.DURABLE,
    CrashPoint.ROUND_DECIDE,
    CrashPoint.ROUND_DECIDED,
    KafkaCrashPoint.ENDED,
    PostgresCrashPoint.COMMITTED,
    TablesCrashPoint.COMMITTED,
    FilesCrashPoint.SHOWN,
    SearchCrashPoint.SENT,
)
TWIN: Sequence[StrEnum] = (*TwinPoint, *TwinPoint)

RESTARTED = {2: "postgres", 5: "kafka", 8: "hdfs"}
"""The server that is killed and started again before a life of the query."""
