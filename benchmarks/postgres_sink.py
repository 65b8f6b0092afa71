"""Writes a batch into a table of PostgreSQL, by oncelog's sink and by Spark's JDBC sink."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks.report import Finding, at_least, median, per_second
from oncelog import metadata
from oncelog.batches.attempt import Batch
from oncelog.batches.rules import BatchRequest
from oncelog.batches.run import BatchDriver
from oncelog_postgres import options as sink_options
from oncelog_postgres.batch_sink import PostgresTarget
from oncelog_postgres.jobs import SparkJob
from tests.support.servers.postgres import PostgresServer, running_server

EXPLANATION = """\
A batch is two tasks over a cache, into a new table without an index, on a server of its own whose data is in memory.
The peer is not exactly once: what a task that is tried again has written stays. It is measured at its defaults, and
with `batchsize=10000` and `reWriteBatchedInserts=true`, which make it fast. By default oncelog writes rows twice, so
that they appear at one moment; with `transaction=task` once, and they appear task by task, as the peer's do."""

DRIVER = "org.postgresql:postgresql:42.7.7"
JAR = Path.home() / ".m2/repository/org/postgresql/postgresql/42.7.7/postgresql-42.7.7.jar"

PEERS = {"JDBC": 2.0, "JDBC, tuned": 1.2}
"""And how much faster oncelog is to be."""

WAYS = {"batch": "", "task": ", `transaction=task`"}
"""Whose transaction rows are in, and how that is told."""

TUNED = {"batchsize": "10000"}
REWRITING = "?reWriteBatchedInserts=true"

PAYLOAD = 92
"""Bytes of a row beside its id, which has 8."""

Write = Callable[[str], None]
"""Writes the batch into the table of this name."""


def run(*, quick: bool) -> list[Finding]:
    """Measure in turns, after one round that counts for nothing."""
    rows, rounds = (100_000, 2) if quick else (1_000_000, 5)
    if not JAR.exists():
        subprocess.run(["mvn", "--quiet", "dependency:get", f"-Dartifact={DRIVER}"], check=True)
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", str(JAR))
        .config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    settings = ("shared_buffers=256MB", "max_wal_size=2GB", "max_prepared_transactions=10")
    with running_server(*settings) as server, tempfile.TemporaryDirectory() as folder:
        batch = spark.range(0, rows, 1, 2).selectExpr("id", f"rpad(string(id), {PAYLOAD}, 'x') AS value").cache()
        batch.count()
        writers: dict[str, Write] = {
            **{f"oncelog {way}": oncelog(batch, server, Path(folder), {"transaction": way}) for way in WAYS},
            "JDBC": jdbc(batch, server, "", {}),
            "JDBC, tuned": jdbc(batch, server, REWRITING, TUNED),
        }
        seconds: dict[str, list[float]] = {name: [] for name in writers}
        for _ in range(rounds + 1):
            for name, write in writers.items():
                seconds[name].append(measured(server, write, rows))
        took = {name: median(times[1:]) for name, times in seconds.items()}
    spark.stop()
    return [
        at_least(
            f"{rows:,} rows of 100 bytes{more}",
            per_second(rows, took[f"oncelog {way}"]),
            f"{per_second(rows, took[peer])} {peer}",
            took[peer] / took[f"oncelog {way}"],
            least,
        )
        for way, more in WAYS.items()
        for peer, least in PEERS.items()
    ]


def measured(server: PostgresServer, write: Write, rows: int) -> float:
    """The seconds of one batch into a new table."""
    server.ask("CREATE TABLE measured (id bigint, value text)")
    began = time.perf_counter()
    write("measured")
    took = time.perf_counter() - began
    (found,) = server.ask("SELECT count(*) FROM measured")
    if found != (rows,):
        raise AssertionError(f"{found[0]} rows instead of {rows}")
    server.ask("DROP TABLE measured")
    server.ask("CHECKPOINT")
    return took


def oncelog(batch: DataFrame, server: PostgresServer, folder: Path, options: Mapping[str, str]) -> Write:
    """By the sink, all phases."""
    url, numbers, prefix = server.url(), iter(range(1_000)), "-".join(("bench", *options.values()))

    def write(name: str) -> None:
        request = BatchRequest(prefix, "query", "sink", "run", next(numbers), "offsets")
        with closing(metadata.open_metadata(str(folder / "ledger"))) as store:
            target = PostgresTarget(store, sink_options.parse({"url": url, "table": name, **options}))
            BatchDriver(target).run(Batch(request, SparkJob(batch)))

    return write


def jdbc(batch: DataFrame, server: PostgresServer, query: str, options: Mapping[str, str]) -> Write:
    """By Spark's own sink."""

    def write(name: str) -> None:
        url = f"jdbc:postgresql://127.0.0.1:{server.port}/postgres{query}"
        writer = batch.write.format("jdbc").mode("append").option("url", url).option("dbtable", name)
        writer.option("user", "oncelog").option("driver", "org.postgresql.Driver").options(**options).save()

    return write
