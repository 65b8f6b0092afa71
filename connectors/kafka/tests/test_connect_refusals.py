"""What a client of Spark Connect is told where its server lacks a part: one sentence, with the part and the remedy."""

from __future__ import annotations

import json
import venv
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

import oncelog
import oncelog_kafka
from oncelog_kafka.data_source import Answer, KafkaDataSource
from tests.support.spark.connect import Call, all_jars, jar_of, running_server

pytestmark = pytest.mark.sampled("Spark Connect")

NO_BROKER = {"kafka.bootstrap.servers": "127.0.0.1:1"}
"""What is refused here is refused before a broker is asked."""

ANY_ROWS = {"format": "rate", "options": {}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a log on the server's disk, which has the topic `in`."""
    with oncelog.open(tmp_path / "log") as log:
        log.create_topic("in", partitions=1)
    return tmp_path


def kafka(folder: Path, **more: str) -> dict[str, Any]:
    given = {**NO_BROKER, "topic": "t", "transactionalIdPrefix": "p", "znodes": str(folder / "ledger"), **more}
    return {"format": "oncelog-kafka", "options": given}


def own(folder: Path, **more: str) -> dict[str, Any]:
    return {"format": "oncelog", "options": {"path": str(folder / "log"), **more}}


def read(of: dict[str, Any]) -> Call:
    return "read", {"of": of}


def write(to: dict[str, Any]) -> Call:
    return "write", {"values": ["a"], "to": to}


def copy(source: dict[str, Any], sink: dict[str, Any], checkpoint: Path) -> Call:
    return "copy", {"source": source, "sink": sink, "checkpoint": str(checkpoint)}


def check_told(error: str, *words: str) -> None:
    """The client sees these words, and one sentence of oncelog's."""
    shown = error.partition("JVM stacktrace:")[0].partition("=== Streaming Query ===")[0]
    assert all(word in shown for word in words), error
    assert shown.count("UsageError: ") == 1, error


@pytest.mark.slow
def test_a_server_without_the_jar_names_the_command_line_that_brings_it(folder: Path) -> None:
    all_jars()
    with running_server(folder, []) as server:
        found = server.ask(
            read({"format": "oncelog-kafka", "options": {**NO_BROKER, "subscribe": "t"}}),
            write(kafka(folder)),
            copy(ANY_ROWS, kafka(folder), folder / "ck"),
        )

    for error in found:
        check_told(error, "the Kafka connector's jar is not in this Spark", '--jars "$(oncelog jars)"')


@pytest.mark.slow
@pytest.mark.parametrize("what", [pytest.param("nowhere", marks=pytest.mark.walk("Spark Connect")), "empty"])
def test_a_server_whose_python_has_no_oncelog_says_which_python_that_is(what: str, folder: Path) -> None:
    python = folder / what / "bin" / "python"
    if what == "empty":
        venv.create(folder / what)
    with running_server(folder, all_jars(), python) as server:
        found = server.ask(
            read(own(folder, subscribe="in")),
            write(own(folder, topic="in")),
            copy(ANY_ROWS, own(folder, topic="in"), folder / "ck-log"),
            write(kafka(folder)),
            copy(ANY_ROWS, kafka(folder), folder / "ck-kafka"),
        )

    for error, module in zip(found, [*["pyspark_oncelog"] * 3, *["pyspark_oncelog_kafka"] * 2], strict=True):
        missing = ("no working oncelog; install oncelog", f"cause=ModuleNotFoundError: No module named '{module}'")
        words = missing if what == "empty" else ("cannot be started; set PYSPARK_PYTHON",)
        check_told(error, "UsageError: Spark's Python", *words, f"python={python}")


@pytest.mark.slow
@pytest.mark.walk("Spark Connect")
def test_a_server_with_jars_of_two_versions_names_both(folder: Path) -> None:
    other = jar_of("0.0.9", folder)
    with running_server(folder, [*all_jars(), other]) as server:
        found = server.ask(
            read({"format": "oncelog-kafka", "options": {**NO_BROKER, "subscribe": "t"}}),
            write(kafka(folder)),
            copy(ANY_ROWS, kafka(folder), folder / "ck"),
        )

    for error in found:
        check_told(error, "the Kafka connector's jar in several versions", f"0.0.9=[{other}]", oncelog_kafka.jars())


def test_a_jar_of_another_version_than_the_package_is_refused() -> None:
    for request in ({"step": "plan", "jar": "0.0.9"}, {"step": "plan"}):
        answer = KafkaDataSource({"@request": json.dumps(request)}).streamWriter(StructType(), False)

        assert isinstance(answer, Answer)
        told = json.loads(answer.text)["error"]
        assert told.startswith(
            "UsageError: the Kafka connector's jar in this Spark has another version than the Python"
        )
        assert f"package='{oncelog.__version__}'" in told
