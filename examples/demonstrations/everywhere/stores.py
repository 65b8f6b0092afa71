"""The servers: a Kafka broker, a PostgreSQL, an HDFS, a node of OpenSearch, and the catalog of a lake, a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import load_catalog

from oncelog.testing.kafka_broker import KafkaBroker, running_broker
from tests.support.servers.hdfs import HdfsServer, running_hdfs
from tests.support.servers.opensearch import OpenSearch
from tests.support.servers.opensearch import running_server as running_opensearch
from tests.support.servers.postgres import ROLE, PostgresServer
from tests.support.servers.postgres import running_server as running_postgres

PARTITIONS = 4

LATE = pa.schema(
    {"row": pa.int64(), "flight": pa.string(), "origin": pa.string(), "dest": pa.string(), "dep_delay": pa.int32()}
)
"""The columns of a late departure, in each store."""

FIELDS = {name: {"type": "keyword"} for name in ("flight", "origin", "dest")} | {
    "row": {"type": "long"},
    "dep_delay": {"type": "integer"},
}
"""The same in an index."""


class Stores:
    """All servers, and where each pipeline writes: it has a name, by which its topic, tables and folder are called."""

    def __init__(
        self, folder: Path, kafka: KafkaBroker, postgres: PostgresServer, hdfs: HdfsServer, search: OpenSearch
    ) -> None:
        self.kafka = kafka
        self.postgres = postgres
        self.hdfs = hdfs
        self.search = search
        self._lake = folder / "lake"

    def prepare(self, name: str) -> None:
        """Make the topic and the tables of a pipeline."""
        self.kafka.create_topic(name, partitions=PARTITIONS)
        columns = "row bigint, flight text, origin text, dest text, dep_delay int"
        self.postgres.ask(f"CREATE TABLE public.{name} ({columns})")
        self._lake.mkdir(exist_ok=True)
        catalog = load_catalog("lake", **self.lake)
        catalog.create_namespace_if_not_exists("flights")
        catalog.create_table(f"flights.{name}", LATE)
        self.search.create(name, FIELDS)

    def restart(self, server: str) -> None:
        """Kill a server, and start it again."""
        match server:
            case "kafka":
                self.kafka.restart()
            case "postgres":
                self.postgres.kill()
                self.postgres.start()
            case "hdfs":
                self.hdfs.kill()
                self.hdfs.start()

    @property
    def lake(self) -> dict[str, str]:
        """The properties of the catalog."""
        return {"type": "sql", "uri": f"sqlite:///{self._lake}/catalog.db", "warehouse": f"file://{self._lake}"}

    def settings(self, name: str) -> dict[str, Any]:
        """What the query must know, as JSON has it."""
        return {
            "kafka": {"kafka.bootstrap.servers": self.kafka.address},
            "postgres": f"postgresql://{ROLE}@127.0.0.1:{self.postgres.port}/postgres",
            "jdbc": f"jdbc:postgresql://127.0.0.1:{self.postgres.port}/postgres",
            "lake": self.lake,
            "files": self.files(name),
            "search": self.search.url,
            "staging": f"{self.hdfs.url}/staging",
            "name": name,
        }

    def files(self, name: str) -> str:
        """The folder of a pipeline."""
        return f"{self.hdfs.url}/{name}"


@contextmanager
def running(folder: Path) -> Iterator[Stores]:
    """All servers, for the time of the block."""
    with ExitStack() as stack:
        kafka = stack.enter_context(running_broker(folder / "broker"))
        postgres = stack.enter_context(running_postgres())
        hdfs_folder = folder / "hdfs"
        hdfs_folder.mkdir(parents=True)
        hdfs = stack.enter_context(running_hdfs(hdfs_folder))
        search = OpenSearch(stack.enter_context(running_opensearch(folder / "opensearch")).url)
        yield Stores(folder, kafka, postgres, hdfs, search)
