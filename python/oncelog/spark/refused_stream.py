"""A stream whose options are wrong: raises the error at Spark's first question, instead of when Spark asks for it.

Spark's own clean-up after an error in `DataSource.streamReader` fails with an `UnboundLocalError`, which buries the
error's sentence (Spark 4.1 to 4.3). After an error of a reader's method it works.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from oncelog.errors import OncelogError


class RefusedStreamReader(DataSourceStreamReader):
    """Answers every question with the error."""

    def __init__(self, problem: OncelogError) -> None:
        self._problem = problem

    def _refuse(self) -> NoReturn:
        raise self._problem

    def initialOffset(self) -> dict[str, Any]:
        self._refuse()

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # without a limit, which it would only ignore
        self._refuse()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        self._refuse()
