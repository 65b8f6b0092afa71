"""One key, one partition, whoever writes: the producer's hash is Spark's."""

from __future__ import annotations

import random

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everyone's name for it

from oncelog.clients.partitioner import hash_key, hash_keys, partitions_for_keys

PARTITIONS = 7


def test_keys_hash_as_in_spark_whatever_their_length_and_bytes(spark: SparkSession) -> None:
    draw = random.Random(20)
    keys = [draw.randbytes(length) for length in range(68) for _ in range(20)]
    keys += [bytes([byte]) * length for byte in (0, 127, 128, 255) for length in range(9)]

    rows = spark.createDataFrame([(at, key) for at, key in enumerate(keys)], "at int, key binary")
    found = rows.select("at", F.hash("key").alias("hash"), F.pmod(F.hash("key"), F.lit(PARTITIONS)).alias("partition"))
    by_row = {row["at"]: (row["hash"], row["partition"]) for row in found.collect()}

    arrow = pa.array(keys, pa.binary())
    ours = list(zip(hash_keys(arrow).tolist(), partitions_for_keys(arrow, PARTITIONS).to_pylist(), strict=True))
    assert ours == [by_row[at] for at in range(len(keys))]
    assert [hash_key(key) for key in keys] == [by_row[at][0] for at in range(len(keys))]


def test_a_string_key_hashes_as_its_bytes(spark: SparkSession) -> None:
    texts = ["", "UA", "Zürich", "日本", "🛩️"]

    rows = spark.createDataFrame([(text,) for text in texts], "key string")
    found = [row[0] for row in rows.select(F.hash("key")).collect()]

    assert found == [hash_key(text.encode()) for text in texts]
