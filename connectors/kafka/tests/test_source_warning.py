"""The warning about a transaction that holds readers back for long. Its clock is the caller's: the test's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from tests.support.servers.kafka import KafkaBroker, Transaction, require_shims

PACKAGE = "io.oncelog.kafka.source."


class Watch:
    """`OpenTransactions`, which is private to its package, of this session's JVM and one partition of a broker."""

    def __init__(self, spark: SparkSession, broker: KafkaBroker, topic: str) -> None:
        self.jvm = cast("Any", spark._jvm)
        self._gateway: Any = spark.sparkContext._gateway
        given = self.jvm.java.util.HashMap()
        given["kafka.bootstrap.servers"] = broker.address
        given["subscribe"] = topic
        case_insensitive = self.jvm.org.apache.spark.sql.util.CaseInsensitiveStringMap(given)
        of_batch = self._class("SourceOptions").getDeclaredMethod("ofBatch", self._array([case_insensitive.getClass()]))
        options = self._open(of_batch).invoke(None, self._array([case_insensitive], "Object"))
        self._cluster = self._new("Cluster", options)
        self._watch = self._new("OpenTransactions", self._cluster)
        self._topic = topic

    def observe(self, *, stable: int, end: int, now_ms: int) -> None:
        (observe,) = [m for m in self._watch.getClass().getDeclaredMethods() if m.getName() == "observe"]
        arguments = [self._offsets(stable), self._offsets(end), now_ms]
        self._open(observe).invoke(self._watch, self._array(arguments, "Object"))

    def _offsets(self, offset: int) -> Any:
        """The partition's offset as a map of the JVM; Python's numbers would arrive in it as Integers."""
        (parse,) = [m for m in self._class("Json").getDeclaredMethods() if m.getName() == "parseNumbers"]
        text = json.dumps({self._topic: {"0": offset}})
        return self._open(parse).invoke(None, self._array([text, "offsets"], "Object"))

    def close(self) -> None:
        self._cluster.close()

    @contextmanager
    def log(self) -> Iterator[Any]:
        """What the class logs in the time of the block, by `toString()`."""
        log4j = self.jvm.org.apache.logging.log4j
        written = self.jvm.java.io.StringWriter()
        layout = log4j.core.layout.PatternLayout.newBuilder().withPattern("%p %m%n").build()
        appender = log4j.core.appender.WriterAppender.createAppender(layout, None, written, "captured", False, True)
        appender.start()
        name = f"{PACKAGE}OpenTransactions"
        log4j.core.config.Configurator.setLevel(name, log4j.Level.WARN)
        logger = log4j.LogManager.getContext(False).getLogger(name)
        logger.addAppender(appender)
        try:
            yield written
        finally:
            logger.removeAppender(appender)

    def _class(self, name: str) -> Any:
        return self.jvm.java.lang.Class.forName(PACKAGE + name, True, self._loader())

    def _loader(self) -> Any:
        return self.jvm.Thread.currentThread().getContextClassLoader()

    def _new(self, name: str, argument: Any) -> Any:
        (constructor,) = self._class(name).getDeclaredConstructors()
        return self._open(constructor).newInstance(self._array([argument], "Object"))

    def _array(self, items: list[Any], kind: str = "Class") -> Any:
        array = self._gateway.new_array(getattr(self.jvm.java.lang, kind), len(items))
        for number, item in enumerate(items):
            array[number] = item
        return array

    @staticmethod
    def _open(member: Any) -> Any:
        member.setAccessible(True)
        return member


@pytest.fixture
def watch(spark: SparkSession, kafka: KafkaBroker, topic: str) -> Iterator[Watch]:
    require_shims()
    found = Watch(spark, kafka, topic)
    yield found
    found.close()


def test_who_holds_readers_back_for_half_a_minute_is_logged_by_name_and_then_every_five_minutes(
    watch: Watch, kafka: KafkaBroker, topic: str
) -> None:
    held = Transaction(kafka).send(topic, "held", "held")
    warned = []
    with watch.log() as written:
        for now_s in (10, 12, 39, 40, 41, 339, 340, 341):
            watch.observe(stable=0, end=2, now_ms=now_s * 1000)
            warned.append(len(written.toString().splitlines()))
    held.abort()

    assert warned == [0, 0, 0, 1, 1, 1, 2, 2]
    first, _ = written.toString().splitlines()
    assert first.startswith("WARN an open transaction holds back")
    assert f"transactional id={held.transactional_id}, partition={topic}-0, last stable offset=0, log end=2" in first
    assert "held for=30000 ms" in first


def test_a_last_stable_offset_that_moves_is_nothing_to_warn_about(watch: Watch, kafka: KafkaBroker, topic: str) -> None:
    held = Transaction(kafka).send(topic, "held")
    with watch.log() as written:
        for now_s in range(0, 90, 20):
            watch.observe(stable=now_s, end=now_s + 100, now_ms=now_s * 1000)
    held.abort()

    assert written.toString() == ""
