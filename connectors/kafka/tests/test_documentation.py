"""Every code block of README.md and docs/ runs, out of the text itself.

The paths of the pages are below a folder of the test, and their addresses are those of the shared servers. The guide to
Kafka starts a broker of its own, as its reader does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import oncelog
from oncelog.runtime import Log
from oncelog.spark.kit.ledgers import close_ledgers
from oncelog.spark.logs import close_logs
from oncelog.testing.server_process import free_ports
from tests.support.docs.blocks import ROOT, Places, pages, programs, run
from tests.support.log.copies import open_round
from tests.support.log.logs import TOPIC, started, tp, write_open
from tests.support.servers.kafka import STEADY, KafkaBroker, fresh_name, require_shims
from tests.support.servers.opensearch import OpenSearch
from tests.support.servers.postgres import ROLE, PostgresServer
from tests.support.servers.zookeeper import ZookeeperServer
from tests.support.spark.spark_home import environment

pytestmark = pytest.mark.sampled("programs of the pages")

DOCS = ROOT / "docs"

RUN_AGAIN = [ROOT / "README.md", DOCS / "index.md", DOCS / "guides/cluster.md"]
"""Whoever reads them runs their programs as they stand, and then once more."""

KAFKA = DOCS / "guides/kafka.md"
SYMPTOMS = [page for page in sorted((DOCS / "operations/symptoms").glob("*.md")) if programs(page)]
TOGETHER = [KAFKA, *SYMPTOMS, DOCS / "operations/moving.md"]
"""The runbook looks at what the guide's query wrote; a moved log is the last. Other pages have worlds of their own."""

SESSIONS = [TOGETHER, *([page] for page in pages() if page not in TOGETHER and programs(page))]


@pytest.fixture
def places(
    tmp_path: Path,
    kafka: KafkaBroker,
    zookeeper: ZookeeperServer,
    postgres: PostgresServer,
    opensearch: OpenSearch,
) -> Places:
    """What the pages name, on this machine."""
    (tmp_path / "data").mkdir()
    folders = {folder: f"{tmp_path}{folder}" for folder in ("/tmp/oncelog", "/data", "/shared")}
    chroot = f"{zookeeper.address}/{fresh_name('documented')}"
    servers = {"localhost:9092": kafka.address, "h1:9092": kafka.address, "h1:2181,h2:2181,h3:2181/oncelog": chroot}
    database = f"{ROLE}@127.0.0.1:{postgres.port}/postgres"
    return {**folders, **servers, "copier@db:5432/shop": database, "http://search:9200": opensearch.url}


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session[0].stem)
def test_the_programs_of_a_page_run(
    session: Sequence[Path], places: Places, tmp_path: Path, spark: SparkSession, kafka: KafkaBroker
) -> None:
    require_shims()
    ensure_topics(kafka, "flights", "delayed")
    prepare(session, tmp_path)
    if KAFKA in session:
        places = with_a_broker_of_its_own(places)
    with ExitStack() as running:
        for page in [*session, *(page for page in session if page in RUN_AGAIN)]:
            run_page(page, places, tmp_path, running)


def test_the_first_program_of_the_readme_runs_by_itself_and_warns_of_nothing(tmp_path: Path) -> None:
    places = {"/tmp/oncelog": str(tmp_path / "first")}
    blocks = [block for block in programs(ROOT / "README.md") if block.language == "python"]
    program = "\n".join(block.at(places) for block in blocks if "oncelog_kafka" not in block.code)
    assert "SparkSession.builder" in program

    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, **environment()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "Warning" not in ended.stderr, ended.stderr


def run_page(page: Path, places: Places, folder: Path, running: ExitStack) -> None:
    """Run a page, and close what it leaves open; its brokers stop at the end of `running`.

    A script ends with its last line, whatever its queries do. So each query has to be awaited by the page itself; it
    then stops when it has read all there is.
    """
    namespace: dict[str, Any] = {"__name__": "page"}
    awaited: set[str] = set()

    def await_termination(query: StreamingQuery) -> None:
        awaited.add(query.runId)
        query.processAllAvailable()
        query.stop()

    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(StreamingQuery, "awaitTermination", await_termination)
            run(page, places, folder, namespace)
    finally:
        left = list(namespace.values())
        for value in left:
            if isinstance(value, StreamingQuery):
                value.stop()
            if isinstance(value, Log):
                value.close()
            if isinstance(value, KafkaBroker):
                running.callback(value.stop)
        close_logs()
        close_ledgers()
    started = {value.runId for value in left if isinstance(value, StreamingQuery)}
    assert started <= awaited, f"{page.name}: a script without query.awaitTermination() ends before its query works"


def with_a_broker_of_its_own(places: Places) -> Places:
    """The same, for a page that starts a broker on the usual port."""
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    return {
        **places,
        "port=9092": f"port={port}, settings={STEADY}",
        "localhost:9092": address,
        "h1:9092": address,
    }


def ensure_topics(kafka: KafkaBroker, *names: str) -> None:
    """Topics of the shared broker that the pages name."""
    with kafka.admin() as admin:
        missing = set(names) - set(admin.list_topics())
    for name in missing:
        kafka.create_topic(name)


def prepare(session: Sequence[Path], folder: Path) -> None:
    """What the runbook takes for granted: a log in which something of everything waits for its operator."""
    if session is not TOGETHER:
        return
    with oncelog.open(folder / "data" / "log") as log:
        log.create_topic(TOPIC, partitions=2)
        write_open(started(log, "loader-0"), b"42")
        write_open(prepared := started(log, "loader-1"), b"43")
        prepared.prepare_transaction()
        open_round(log)
        with log.consumer(group_id="restored") as consumer:
            consumer.commit({tp(): 1000})
