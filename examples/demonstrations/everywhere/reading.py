"""What is in each store, by clients that share no code with what wrote it: how often each late departure is there.

librdkafka reads the topic, libpq the table of PostgreSQL, and pyiceberg the table of the lake; Hadoop's own shell
fetches the files, and the node of OpenSearch counts its documents itself.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow.dataset as arrow
import pyspark
from pyiceberg.catalog import load_catalog

from everywhere.stores import Stores
from flights.processes import ProgramFailedError
from kafka_flights import audit
from tests.support.harness.java import java

Rows = Counter[int]


def in_kafka(stores: Stores, name: str) -> Rows:
    return audit.read(stores.kafka.address, name)


def in_postgres(stores: Stores, name: str) -> Rows:
    found = stores.postgres.ask(f"SELECT row, count(*) FROM public.{name} GROUP BY row")
    return Counter({int(str(row)): int(str(count)) for row, count in found})


def in_iceberg(stores: Stores, name: str) -> Rows:
    table = load_catalog("lake", **stores.lake).load_table(f"flights.{name}")
    return Counter(table.scan(selected_fields=("row",)).to_arrow()["row"].to_pylist())


def in_files(stores: Stores, name: str, scratch: Path) -> Rows:
    fetched = scratch / "fetched"
    shutil.rmtree(fetched, ignore_errors=True)
    settings = scratch / "hadoop"
    settings.mkdir(exist_ok=True)
    (settings / "core-site.xml").write_text("<configuration/>")  # the shell insists on one
    path = f"{settings}:{Path(pyspark.__file__).with_name('jars')}/*"
    shell = [java() or "", "-cp", path, "org.apache.hadoop.fs.FsShell"]
    done = subprocess.run(
        [*shell, "-get", stores.files(name), str(fetched)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0 and "No such file or directory" not in done.stderr:
        raise ProgramFailedError(f"Hadoop's shell could not fetch the files: {done.stderr.strip()}")
    files = [str(file) for file in sorted(fetched.glob("*.parquet"))]
    if not files:
        return Counter()
    return Counter(arrow.dataset(files, format="parquet").to_table(columns=["row"])["row"].to_pylist())


def in_search(stores: Stores, name: str) -> Rows:
    found: Rows = Counter()
    stores.search.ask("POST", f"/{name}/_refresh")
    by_row: dict[str, object] = {"size": 10_000, "sources": [{"row": {"terms": {"field": "row"}}}]}
    while True:
        asked = {"size": 0, "aggs": {"rows": {"composite": by_row}}}
        answer = stores.search.ask("POST", f"/{name}/_search", asked)["aggregations"]["rows"]
        found.update({bucket["key"]["row"]: bucket["doc_count"] for bucket in answer["buckets"]})
        if "after_key" not in answer:
            return found
        by_row["after"] = answer["after_key"]


def readers(stores: Stores, name: str, scratch: Path) -> Mapping[str, Callable[[], Rows]]:
    """A reader of each store, by the name that people are shown; those that cost least are first."""
    return {
        "a table of PostgreSQL": lambda: in_postgres(stores, name),
        "a Kafka topic": lambda: in_kafka(stores, name),
        "an Iceberg table": lambda: in_iceberg(stores, name),
        "an index of OpenSearch": lambda: in_search(stores, name),
        "files on HDFS": lambda: in_files(stores, name, scratch),
    }
