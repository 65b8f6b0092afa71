"""The loader commits every flight once, in order, although it aborts transactions on purpose."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa

import oncelog
from flights import loader
from flights.folders import FLIGHTS, Folders
from flights.loader import Loader, read_report, rows_of_next_transaction

COUNT = 150_000
TWENTY_MINUTES_S = 1_200


def numbered(count: int) -> pa.Table:
    return pa.table({"key": pa.array(["N1"] * count), "value": pa.array([str(row) for row in range(count)])})


def test_each_row_is_committed_once_and_in_order_though_transactions_abort(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    folders.hurry.touch()
    output = io.StringIO()
    with oncelog.open(folders.log) as log:
        log.create_topic(FLIGHTS, partitions=2)
        with log.producer(transactional_id="loader") as producer:
            producer.init_transactions()
            Loader(log, producer, folders, output).load(numbered(COUNT))
        with log.consumer(auto_offset_reset="earliest") as consumer:
            consumer.subscribe([FLIGHTS])
            batches = consumer.poll_batches(max_records=2 * COUNT)

    folders.loader_report.write_text(output.getvalue())
    report = read_report(folders.loader_report)
    values = [value for batch in batches for value in batch.records["value"].to_pylist()]
    assert values == [str(row).encode() for row in range(COUNT)]
    assert report.rows == COUNT
    assert report.aborted >= 1
    assert sum(report.ends) > COUNT  # markers and aborted rows take offsets too


def test_transactions_end_exactly_with_the_last_row() -> None:
    left, sizes = 336_776, []
    while left:
        sizes.append(rows_of_next_transaction(left, is_hurried=False))
        left -= sizes[-1]

    assert min(sizes) == 1
    assert max(sizes) == int(loader.ROWS_PER_S * loader.TRANSACTION_S)
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) * loader.TRANSACTION_S > TWENTY_MINUTES_S, "on a slow machine the last kill needs flights, too"


def test_a_hurried_loader_writes_what_is_left_in_a_few_transactions() -> None:
    assert rows_of_next_transaction(100_000, is_hurried=True) == loader.HURRIED_ROWS
    assert rows_of_next_transaction(7, is_hurried=True) == 7


def test_a_report_that_is_being_written_does_not_count_yet(tmp_path: Path) -> None:
    path = tmp_path / "loader.jsonl"
    assert read_report(path) == loader.Report()

    path.write_text('{"rows": 5, "transactions": 1, "aborted": 0, "ends": []}\n{"rows": 9, "trans')

    assert read_report(path).rows == 5
