"""The Python half of ``format("oncelog-kafka")``: the connector's jar asks it what to do, and it answers with a text.

The jar is what Spark finds under the name. It asks by Spark's own call for a data source's writer, before a batch's
tasks and behind them (PythonSteps.java); the writer that is given back is the answer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NoReturn

from pyspark.sql import Row
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from oncelog.errors import OncelogError, UsageError
from oncelog.version import __version__
from oncelog_kafka import FORMAT_NAME

_REQUEST = "@request"


class Answer(DataSourceStreamWriter):
    """A text for the jar, where Spark wants a writer."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __reduce__(self) -> tuple[Any, ...]:
        return answer, (self.text,)

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """Never called: the jar's tasks write."""
        raise _missing_jar()


def answer(text: str) -> Answer:
    """The answer that was pickled."""
    return Answer(text)


class KafkaDataSource(DataSource):
    """Answers the jar. What Spark asks for where it does not find the jar is refused."""

    @classmethod
    def name(cls) -> str:
        return FORMAT_NAME

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from oncelog_kafka import steps

        options = {name: text for name, text in self.options.items() if name.lower() != _REQUEST}
        request = next((text for name, text in self.options.items() if name.lower() == _REQUEST), None)
        if request is None:
            raise _missing_jar()
        try:
            found = steps.take(_of_this_version(json.loads(request)), options, schema)
        except OncelogError as problem:
            # Spark would put a page of its own around what is raised here.
            found = {"error": f"{type(problem).__name__}: {problem}"}
        return Answer(json.dumps(found))

    def schema(self) -> NoReturn:
        raise _missing_jar()

    def reader(self, schema: StructType) -> DataSourceReader:
        raise _missing_jar()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        raise _missing_jar()

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        raise _missing_jar()


def _of_this_version(request: dict[str, Any]) -> dict[str, Any]:
    """The request, if the jar that makes it came with this package."""
    if (jar := request.pop("jar", None)) != __version__:
        raise UsageError(
            "the Kafka connector's jar in this Spark is of another version than its Python package; start Spark (with "
            'Spark Connect, its server) with --jars "$(oncelog jars)", run where its Python is',
            jar=jar,
            package=__version__,
        )
    return request


def _missing_jar() -> UsageError:
    return UsageError(
        "the Kafka connector's jar is not in this Spark; start the session with oncelog_kafka.configure(builder), the "
        'program with spark-submit --jars "$(oncelog jars)", or the server of Spark Connect with the same --jars'
    )
