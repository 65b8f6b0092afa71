"""The readers beside the query return what is new with each look."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

import oncelog
from flights.folders import DELAYED, FLIGHTS, Folders
from flights.reading import ROWS, FolderReader, TopicReader


def late(row: int, batch: int = 0) -> dict[str, Any]:
    return {"row": row, "flight": "UA1", "origin": "EWR", "dest": "IAH", "dep_delay": 20, "batch": batch}


def test_the_topic_shows_committed_rows_alone_with_their_partition(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    with oncelog.open(folders.log) as log:
        log.create_topic(DELAYED, partitions=2)
        with log.producer(transactional_id="t") as producer, TopicReader(folders) as reader:
            producer.init_transactions()
            assert reader.look().num_rows == 0

            producer.begin_transaction()
            producer.send(DELAYED, json.dumps(late(1)).encode(), partition=1)
            producer.flush()
            assert reader.look().num_rows == 0

            producer.commit_transaction()
            assert reader.look().to_pylist() == [late(1) | {"partition": 1}]
            assert reader.look().num_rows == 0


def test_the_folder_shows_each_published_file_once_in_the_order_of_writing(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    with FolderReader(folders) as reader:
        assert reader.look().num_rows == 0

        for name, row in (("part-b.parquet", 1), ("part-a.parquet", 2), ("_temporary/part-c.parquet", 3)):
            path = folders.parquet / name
            path.parent.mkdir(parents=True, exist_ok=True)
            parquet.write_table(pa.Table.from_pylist([late(row) | {"partition": 0}], schema=ROWS), path)

        assert reader.look()["row"].to_pylist() == [1, 2]
        assert reader.look().num_rows == 0


def test_a_query_has_read_what_its_newest_finished_batch_ends_with(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    assert folders.offsets_read() == {}

    for batch, offset in ((9, 100), (10, 200), (11, 300)):
        source = json.dumps({"topics": {FLIGHTS: {"id": "x", "offsets": {"0": offset, "1": offset + 1}}}})
        path = folders.checkpoint / "offsets" / str(batch)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"v1\n{{}}\n{source}")
    for batch in (9, 10):
        path = folders.checkpoint / "commits" / str(batch)
        path.parent.mkdir(exist_ok=True)
        path.touch()

    assert folders.batch_in_flight() == 11
    assert folders.offsets_read() == {0: 200, 1: 201}
