"""``format("oncelog")``: the entry point that Spark looks up.

Spark imports this module in a new process whenever it looks up any data source, not only this one. So it imports the
reader and writer modules only when Spark asks for a reader or writer.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from oncelog.extras import extras

with extras("spark", part="oncelog.spark"):
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from oncelog.spark.source import StreamReader


class OncelogDataSource(DataSource):
    """Reads and writes topics of a log, with the columns of Spark's Kafka connector."""

    @classmethod
    def name(cls) -> str:
        return "oncelog"

    def schema(self) -> StructType:
        from oncelog.spark.schema import read_schema

        include_headers = self.options.get("includeheaders", "false").strip().lower() == "true"
        return read_schema(include_headers=include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        from oncelog.spark.kit.options import Use
        from oncelog.spark.options import parse_source_options
        from oncelog.spark.source import BatchReader

        return BatchReader(parse_source_options(self.options, Use.BATCH_READ), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from oncelog.errors import OncelogError
        from oncelog.spark.kit.options import Use
        from oncelog.spark.options import parse_source_options
        from oncelog.spark.refused_stream import RefusedStreamReader

        try:
            options = parse_source_options(self.options, Use.STREAM_READ)
        except OncelogError as problem:
            return RefusedStreamReader(problem)
        return _stream_reader()(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from oncelog.spark.kit.options import Use
        from oncelog.spark.options import parse_sink_options
        from oncelog.spark.writer import BatchWriter

        return BatchWriter(parse_sink_options(self.options, Use.BATCH_WRITE), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from oncelog.spark.kit.options import Use
        from oncelog.spark.options import parse_sink_options
        from oncelog.spark.writer import StreamWriter

        return StreamWriter(parse_sink_options(self.options, Use.STREAM_WRITE), schema)


def _stream_reader() -> type[StreamReader]:
    """The stream reader for the installed version of Spark."""
    if find_spec("pyspark.sql.streaming.datasource") is None:
        from oncelog.spark.asked_stream import AskedStreamReader

        return AskedStreamReader
    from oncelog.spark.admitted_stream import AdmittedStreamReader

    return AdmittedStreamReader
