"""Indices and drivers of these tests. What is in an index is said by a reader that shares no code with the sink."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from oncelog.crash_points import CrashPoint
from oncelog.testing.target_contract import LedgerWorld, StoppedOnPurposeError
from oncelog_search import options as sink_options
from oncelog_search.batch_sink import SearchTarget
from oncelog_search.crash_points import SearchCrashPoint
from oncelog_search.documents import BETWEEN_RECORDS, Documents
from oncelog_search.jobs import Staged, Written
from oncelog_search.sending import SendTask, Sent, send
from tests.support.servers.opensearch import OpenSearch
from tests.support.spark.staging import left_staging

BEFORE_THE_DECISION = (
    CrashPoint.SINK_PLANNED,
    SearchCrashPoint.WRITTEN,
    SearchCrashPoint.LISTED,
    CrashPoint.ROUND_DECIDE,
)
"""The points that a batch passes once it is planned, up to its decision."""

BEHIND_THE_DECISION = (
    CrashPoint.ROUND_DECIDED,
    SearchCrashPoint.SEND,
    SearchCrashPoint.SENT,
    SearchCrashPoint.PUBLISHED,
    SearchCrashPoint.REMOVED,
    CrashPoint.SINK_DONE,
)
"""Those that it passes then."""


class PlainJob:
    """Rows that are staged and sent without Spark's tasks: two files, each with every other row."""

    def __init__(self, spark: SparkSession, rows: Sequence[dict[str, Any]], schema: str = "value string") -> None:
        self.spark = spark
        self._rows = rows
        self._schema = schema

    @property
    def schema(self) -> StructType:
        return cast("StructType", StructType.fromDDL(self._schema))

    def write(self, folder: str, planned: Documents) -> Written:
        path = Path(folder.removeprefix("file:"))
        path.mkdir()
        records = [f"{_json(self._action(planned, at))}\n{_json(row)}\n" for at, row in enumerate(self._rows)]
        for at in (0, 1):
            share = records[at::2]
            (path / f"part-{at}.txt").write_text("".join(record + BETWEEN_RECORDS for record in share))
        return Written(len(records), max(map(len, records), default=0))

    def _action(self, planned: Documents, at: int) -> dict[str, Any]:
        if not planned.key_columns:
            return {"create": {"_id": f"{planned.attempt}-{at}"}}
        key = "|".join(str(self._rows[at][name]) for name in planned.key_columns)
        return {"index": {"_id": key, "version": planned.version, "version_type": "external"}}

    def staged(self, files: Sequence[str], *, are_keyed: bool) -> Staged:
        actions = Counter(record.partition("\n")[0] for file in files for record in _records(file))
        return Staged(actions.total(), next((action for action, times in actions.items() if times > 1), None))

    def send(self, files: Sequence[str], at_a_time: int, task: SendTask) -> list[Sent]:
        return [send(task, [pa.record_batch({"value": pa.array(_records(file), pa.string())})]) for file in files]


def _json(found: object) -> str:
    """As Spark writes it."""
    return json.dumps(found, separators=(",", ":"))


def _records(file: str) -> list[str]:
    return Path(file.removeprefix("file:")).read_text().split(BETWEEN_RECORDS)[:-1]


class BrokenPlainJob(PlainJob):
    """Fails behind its last file."""

    def write(self, folder: str, planned: Documents) -> Written:
        super().write(folder, planned)
        raise StoppedOnPurposeError("the job fails on purpose")


class SearchWorld(LedgerWorld):
    """An index, and drivers that write into it.

    Args:
        fields: of the index.
        options: of the sink, beside those that it must have.
    """

    def __init__(
        self,
        folder: Path,
        spark: SparkSession,
        opensearch: OpenSearch,
        fields: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(folder)
        self.spark = spark
        self.opensearch = opensearch
        self.url = opensearch.url
        self.index = opensearch.new_index(fields or {"value": {"type": "keyword"}})
        self.staging = folder / "staging"
        self.options = options

    def target(self) -> SearchTarget:
        given = {"url": self.url, "index": self.index, "staging": str(self.staging), "retryTimeout": "1s"}
        return SearchTarget(self.store, sink_options.parse({**given, **self.options}))

    def job(self, values: Sequence[str]) -> PlainJob:
        return PlainJob(self.spark, [{"value": value} for value in values])

    def keyed(self, rows: dict[str, str]) -> PlainJob:
        """A job of rows with an `id` and a `value`."""
        return PlainJob(
            self.spark, [{"id": key, "value": value} for key, value in rows.items()], "id string, value string"
        )

    def broken_job(self) -> PlainJob:
        return BrokenPlainJob(self.spark, [{"value": "broken"}])

    def visible(self) -> list[str]:
        return [document["value"] for document in self.opensearch.documents(self.index).values()]

    def left(self) -> list[str]:
        """The attempts that have a staging folder."""
        return left_staging(self.staging)
