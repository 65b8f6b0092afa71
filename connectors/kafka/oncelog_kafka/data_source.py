"""The Python half of ``format("oncelog-kafka")``: answers the questions of the connector's jar.

Under this name Spark finds the jar. The jar asks before and after a batch's tasks (PythonSteps.java), with Spark's call
for a Python data source's writer. The writer that this module returns contains the answer, as text.
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
from oncelog_kafka.errors import missing_jar

_REQUEST = "@request"


class Answer(DataSourceStreamWriter):
    """A text for the jar, in the form of a writer, because Spark expects one."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __reduce__(self) -> tuple[Any, ...]:
        return answer, (self.text,)

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """Never called: the jar's tasks write the rows."""
        raise missing_jar()


def answer(text: str) -> Answer:
    """Unpickle an answer."""
    return Answer(text)


class KafkaDataSource(DataSource):
    """Answers the jar. Spark's own calls are refused: it makes them only if the jar is missing."""

    @classmethod
    def name(cls) -> str:
        return FORMAT_NAME

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from oncelog_kafka.sinks import steps

        options = {name: text for name, text in self.options.items() if name.lower() != _REQUEST}
        request = next((text for name, text in self.options.items() if name.lower() == _REQUEST), None)
        if request is None:
            raise missing_jar()
        try:
            found = steps.take(_of_this_version(json.loads(request)), options, schema)
        except OncelogError as problem:
            # If this were raised, Spark would wrap it in a page of text.
            found = {"error": f"{type(problem).__name__}: {problem}"}
        return Answer(json.dumps(found))

    def schema(self) -> NoReturn:
        raise missing_jar()

    def reader(self, schema: StructType) -> DataSourceReader:
        raise missing_jar()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        raise missing_jar()

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        raise missing_jar()


def _of_this_version(request: dict[str, Any]) -> dict[str, Any]:
    """The request, if it is from the jar of this package."""
    if (jar := request.pop("jar", None)) != __version__:
        raise UsageError(
            "the Kafka connector's jar in this Spark has another version than the Python package; start Spark (or the "
            'server of Spark Connect) with --jars "$(oncelog jars)", run in the environment of that Python',
            jar=jar,
            package=__version__,
        )
    return request
