"""The hash by which a rewritten participant is known to hold the rows that were decided: of all that a record is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from pyspark.sql import SparkSession

from oncelog_kafka.brokers import Brokers
from tests.support.connectors.kafka_sink import TIMEOUT_MS, prepare
from tests.support.servers.kafka import KafkaBroker, fresh_name

Record = tuple[bytes | None, bytes | None, int | None, list[tuple[str, bytes | None]] | None]

A: Record = (b"a", b"one", None, None)
B: Record = (b"b", b"two", 1, [("h", b"1")])

DIFFERENT: Mapping[str, Sequence[Record]] = {
    "one record": [A],
    "the same record twice": [A, A],
    "and three times": [A, A, A],
    "another record twice": [B, B],
    "two records": [A, B],
    "another key": [(b"b", b"one", None, None)],
    "no key": [(None, b"one", None, None)],
    "an empty key": [(b"", b"one", None, None)],
    "another value": [(b"a", b"two", None, None)],
    "no value": [(b"a", None, None, None)],
    "an empty value": [(b"a", b"", None, None)],
    "the bytes of key and value parted elsewhere": [(b"ao", b"ne", None, None)],
    "another partition": [(b"a", b"one", 0, None)],
    "a header": [(b"a", b"one", None, [("h", b"1")])],
    "another name of the header": [(b"a", b"one", None, [("g", b"1")])],
    "another value of the header": [(b"a", b"one", None, [("h", b"2")])],
    "no value of the header": [(b"a", b"one", None, [("h", None)])],
    "two headers of one name": [(b"a", b"one", None, [("h", b"1"), ("h", b"2")])],
    "two headers the other way round": [(b"a", b"one", None, [("h", b"2"), ("h", b"1")])],
}
ALIKE: Mapping[str, Sequence[Record]] = {
    "two records": [B, A],
    "one record": [(b"a", b"one", None, [])],
}
SCHEMA = "key binary, value binary, partition int, headers array<struct<key: string, value: binary>>"


def test_records_hash_alike_in_any_order_and_otherwise_only_if_they_are_the_same_as_often(
    spark: SparkSession, kafka: KafkaBroker, topic: str
) -> None:
    cases = [*DIFFERENT.values(), *ALIKE.values()]
    each_a_participant = spark.sparkContext.parallelize(cases, len(cases)).flatMap(lambda some: some)
    prefix = f"{fresh_name('hashed')}.p"

    found = prepare(spark.createDataFrame(each_a_participant, SCHEMA), kafka, prefix, topic=topic, isHashed=True)
    brokers = Brokers({"bootstrap_servers": kafka.address})
    brokers.fence([one.transactional_id for one in found], TIMEOUT_MS)
    brokers.close()

    by_number = {one.partition: one for one in found}
    assert [by_number[at].rows for at in range(len(cases))] == [len(some) for some in cases]
    hashes = [by_number[at].content_hash for at in range(len(cases))]
    different = dict(zip(DIFFERENT, hashes, strict=False))
    assert not [pair for pair in combinations(different, 2) if different[pair[0]] == different[pair[1]]]
    assert dict(zip(ALIKE, hashes[len(DIFFERENT) :], strict=True)) == {name: different[name] for name in ALIKE}
