"""Checkpoints written by hand, file by file as Spark writes them, with the rounds of a sink beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from oncelog.batches.fingerprint import fingerprint
from oncelog.runtime import Log
from oncelog.spark.offsets import SourceOffset, TopicOffsets
from tests.support.log.logs import TOPIC
from tests.support.log.rounds import Round, begin, written

QUERY = "7f0a1f2e-0000-4000-8000-000000000001"
BATCH_METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1500000000000,"conf":{}}'


class HandmadeCheckpoint:
    """The checkpoint of a query with one source or several."""

    def __init__(self, root: Path, query_id: str = QUERY) -> None:
        self.root = root
        self.offsets: dict[int, tuple[str | None, ...]] = {}
        self.write("metadata", json.dumps({"id": query_id}))

    def write(self, name: str, text: str) -> Path:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def plan(self, batch_id: int, *offsets: str | None) -> None:
        self.offsets[batch_id] = offsets
        sources = ["-" if text is None else text for text in offsets]
        self.write(f"offsets/{batch_id}", "\n".join(["v1", BATCH_METADATA, *sources]))

    def commit(self, batch_id: int) -> None:
        self.write(f"commits/{batch_id}", 'v1\n{"nextBatchWatermarkMs":0}')

    def fingerprint(self, batch_id: int) -> str:
        """That a sink gives the batch."""
        ends = self.offsets[batch_id]
        return fingerprint(self.offsets.get(batch_id - 1, (None,) * len(ends)), ends)

    def texts(self) -> dict[str, str]:
        """Every file, by name."""
        return texts_in(self.root)


def texts_in(root: Path) -> dict[str, str]:
    """Every file of a folder, by name."""
    return {str(file.relative_to(root)): file.read_text() for file in root.rglob("*") if file.is_file()}


def at(log: Log, **offsets: Mapping[int, int]) -> str:
    """The offset of a source that stands there in these topics of the log."""
    ids = {name: log.admin.describe_topic(name).topic_id for name in offsets}
    topics = {name: TopicOffsets(ids[name], found) for name, found in offsets.items()}
    return SourceOffset(log.cluster_id, None, topics).to_json()


def opened_round(log: Log, made: HandmadeCheckpoint, batch_id: int, run_id: str, prefix: str = "copies") -> Round:
    """A round of the query's sink that wrote a record and is not decided."""
    offsets = made.fingerprint(batch_id)
    found = begin(log, batch_id, run_id, prefix=prefix, query_id=QUERY, sink_name="out", fingerprint=offsets)
    found.write(written(log, {0: [f"of batch {batch_id}".encode()]}))
    return found


def write_numbers(log: Log, *, topic: str = TOPIC, count: int = 5) -> None:
    """Records in partition 0, the same ones each time."""
    producer = log.producer()
    for number in range(count):
        producer.send(topic, str(number).encode(), partition=0)
    producer.flush()


def two_batches(log: Log, root: Path) -> HandmadeCheckpoint:
    """A query that has read four of five records of partition 0, in two committed batches, and wrote both."""
    write_numbers(log)
    made = HandmadeCheckpoint(root)
    for batch_id, end in enumerate((0, 4)):
        made.plan(batch_id, at(log, **{TOPIC: {0: end, 1: 0}}))
        opened_round(log, made, batch_id, "run-1").decide()
        made.commit(batch_id)
    return made


def plan_next(log: Log, made: HandmadeCheckpoint) -> None:
    """The query's next batch, of the fifth record, is planned."""
    made.plan(2, at(log, **{TOPIC: {0: 5, 1: 0}}))
