"""Spark Connect: all that goes by the format's name works from a client that has neither a JVM nor py4j."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import oncelog
import oncelog.spark
from oncelog.runtime import Log
from oncelog.testing import invariants
from tests.support.harness.waiting import until
from tests.support.log.logs import values
from tests.support.spark.connect import Call, ConnectServer, all_jars, client_python, connect_server, running_server
from tests.support.spark.queries import PATIENCE_S

__all__ = ["connect_server"]

pytestmark = [pytest.mark.slow, pytest.mark.sampled("Spark Connect")]

KILLS = 2
SIZE = 1000
PER_BATCH = 100


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """A log on the server's disk, with the topics `in` and `out`; only the server's processes write to it."""
    with oncelog.open(tmp_path / "log") as opened:
        for topic in ("in", "out"):
            opened.create_topic(topic, partitions=2)
        yield opened
        opened.admin.settle()
        invariants.check(opened)


def place(log: Log, **options: str) -> dict[str, Any]:
    return {"format": "oncelog", "options": {"path": log.path, **options}}


def numbers(count: int) -> list[str]:
    return sorted(str(number) for number in range(count))


def copied(log: Log, topic: str = "out") -> list[str]:
    return sorted((value or b"").decode() for number in (0, 1) for value in values(log, number, topic))


def copy(log: Log, checkpoint: Path, **more: Any) -> Call:
    source = place(log, subscribe="in", startingOffsets="earliest", maxOffsetsPerTrigger=str(PER_BATCH))
    return "copy", {"source": source, "sink": place(log, topic="out"), "checkpoint": str(checkpoint), **more}


@pytest.mark.every_spark
def test_a_client_writes_reads_and_copies_a_log_on_the_server(
    connect_server: ConnectServer, log: Log, tmp_path: Path
) -> None:
    _, read, batches, copy_read = connect_server.ask(
        ("write", {"values": numbers(250), "to": place(log, topic="in")}),
        ("read", {"of": place(log, subscribe="in")}),
        copy(log, tmp_path / "ck"),
        ("read", {"of": place(log, subscribe="out")}),
    )

    assert read == copy_read == copied(log) == numbers(250)
    assert batches >= 250 // PER_BATCH, "a batch takes no more than it is allowed to"


def test_an_error_keeps_its_sentence_on_its_way_to_the_client(
    connect_server: ConnectServer, log: Log, tmp_path: Path
) -> None:
    lost = {**copy(log, tmp_path / "ck")[1], "source": place(log, subscribe="lost")}
    found = connect_server.ask(
        ("read", {"of": place(log, subscribe="in", startingOfsets="earliest")}),
        ("read", {"of": {"format": "oncelog", "options": {"path": str(tmp_path / "none"), "subscribe": "in"}}}),
        ("write", {"values": ["a"], "to": place(log)}),
        ("copy", lost),
    )

    sentences = ("unknown option [", "there is no log here; check the path", "the rows lack a column", "no such topic;")
    for error, sentence in zip(found, sentences, strict=True):
        shown = error.partition("JVM stacktrace:")[0]
        assert shown.count(f"Error: {sentence}") == 1, error


def test_the_sinks_of_foreach_batch_point_to_the_sink_by_name(connect_server: ConnectServer, log: Log) -> None:
    made_elsewhere = base64.b64encode(pickle.dumps(oncelog.spark.sink(path=log.path, topic="out"))).decode()
    *of_log, of_kafka, jar = connect_server.ask(
        ("make_sink", {"path": log.path, "topic": "out"}),
        ("call_sink", {"sink": made_elsewhere}),
        ("make_kafka_sink", {"kafka.bootstrap.servers": "h:9092", "znodes": "ledger", "topic": "out"}),
        ("configure", {}),
    )

    for error, name in [*((one, "oncelog") for one in of_log), (of_kafka, "oncelog-kafka")]:
        assert error.startswith("UsageError: Spark Connect hides the query from a sink of foreachBatch; ")
        assert f'writeStream.format("{name}")' in error
        assert error.endswith("paths and `znodes` then refer to the server")
    assert "uses the jars of its server" in jar


def test_a_batch_write_in_a_foreach_batch_function_is_refused(log: Log, tmp_path: Path) -> None:
    """A failure after it would make Spark run the batch again, which appends its rows again.

    The server's Python needs Spark Connect's packages, with which Spark calls the function.
    """
    source = place(log, subscribe="in", startingOffsets="earliest")
    by_python = place(log, topic="out", **{"spark.oncelog.jvmWriter": "false"})
    kafka = {"format": "oncelog-kafka", "options": {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "out"}}
    with log.producer() as producer:
        producer.send("in", value=b"a")

    def write(to: dict[str, Any], name: str, way: str = "rows") -> Call:
        return "write_in_function", {"source": source, "to": to, "checkpoint": str(tmp_path / name), "way": way}

    with running_server(tmp_path, all_jars(), client_python()) as server:
        found = server.ask(
            write(place(log, topic="out"), "jvm"),
            write(by_python, "python"),
            write(place(log, topic="out"), "joined", way="joined"),
            write(place(log, topic="out"), "view", way="view"),
            write(kafka, "kafka"),
        )

    for error, called in zip(found, [*["oncelog.spark"] * 4, "oncelog_kafka"], strict=True):
        assert "a batch write in a foreachBatch function is not exactly once" in (error or ""), error
        assert f"call {called}.sink(...) in the function" in error
    assert copied(log) == []


@pytest.mark.walk("Spark Connect")
def test_a_copy_is_exact_though_the_server_is_killed_in_the_middle_again_and_again(log: Log, tmp_path: Path) -> None:
    with log.producer() as producer:
        for number in range(SIZE):
            producer.send("in", value=b"%d" % number)

    with running_server(tmp_path, all_jars()) as server:
        for kill in range(1, KILLS + 1):
            with server.client(copy(log, tmp_path / "ck", is_endless=True)) as client:

                def is_under_way(wanted: int = kill * 2 * PER_BATCH) -> bool:
                    client.check_runs()
                    return len(copied(log)) >= wanted

                until(is_under_way, within_s=PATIENCE_S)
                server.restart()
            assert len(copied(log)) < SIZE
        server.ask(copy(log, tmp_path / "ck"))

    assert copied(log) == numbers(SIZE)
