"""Checkpoints that releases of Spark have written stay readable, file by file.

That of 4.0 (4.0.1, and its own Kafka source) drops duplicates of a topic of two partitions. That of 4.3 has named
sources: `mine` of a log, and `r`, of the format ``rate``.
"""

from __future__ import annotations

from pathlib import Path

from oncelog.checkpoints import checking, folder
from oncelog.checkpoints.positions import SourceKind

FOLDER = Path(__file__).parent


def test_a_checkpoint_of_spark_4_0_and_its_own_kafka_source_is_read() -> None:
    found = folder.read(str(FOLDER / "checkpoint-spark-4.0"))

    assert (found.planned, found.committed, found.operators, found.damaged) == (0, 0, ("0",), ())
    assert found.initial == {"0": '{"flights":{"0":0,"1":0}}'}
    start = found.start("0")
    assert start is not None
    assert (start.kind, start.topics["flights"].offsets) == (SourceKind.SPARKS_KAFKA, {0: 3, 1: 2})
    assert checking.check(found, {}, []) == []


def test_a_checkpoint_of_spark_4_3_with_named_sources_is_read() -> None:
    found = folder.read(str(FOLDER / "checkpoint-spark-4.3"))

    assert (found.entries[0].version, found.sources, found.damaged) == ("v2", ["mine", "r"], ())
    mine, other = found.start("mine"), found.start("r")
    assert mine is not None
    assert other is not None
    assert (mine.kind, mine.topics["in"].offsets) == (SourceKind.LOG, {0: 0, 1: 0})
    assert (other.kind, other.text) == (SourceKind.OTHER, "0")
    assert found.entries[0].to_text() == (FOLDER / "checkpoint-spark-4.3/offsets/0").read_text()
