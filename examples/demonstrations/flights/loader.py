"""The process that writes the flights to the topic, in transactions; every fifth is aborted on purpose.

The rows of an aborted transaction come again in the next one, so each row is committed once, in the order of the CSV.
Each transaction stays open for a while with rows in the log, so that the query always plans beside an undecided one.

The loader slows down as it comes to the end, so that there are flights left at the last kill on a slow machine, too:
they last for 20 minutes. Told to hurry, it writes what is left at once.

Run as ``python -m flights.loader <folders>``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import pyarrow as pa

import oncelog
from flights import data
from flights.folders import FLIGHTS, Folders

ABORT_EVERY = 5
"""One transaction in so many is aborted."""

ROWS_PER_S = 2000
SLOWED_ROWS = 60_000
"""With fewer left, the rate falls with the square of what is left: the fewer there are, the longer they last."""

TRANSACTION_S = 0.25
IN_A_BUCKET_S = 2.0
"""How long transactions take there: every file costs requests, so there are fewer and larger ones."""

HURRIED_ROWS = 20_000
"""Rows of a transaction when there is no need to wait."""


@dataclass(frozen=True, slots=True)
class Report:
    """What the loader tells of itself.

    Attributes:
        rows: committed so far.
        transactions, aborted: so far.
        ends: of each partition of the topic, once all is written.
    """

    rows: int = 0
    transactions: int = 0
    aborted: int = 0
    ends: tuple[int, ...] = ()


def read_report(path: Path) -> Report:
    """The newest report in the file; an empty one before the first."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    whole = [line for line in lines if line.endswith("\n")]
    return Report(**json.loads(whole[-1])) if whole else Report()


def rows_of_next_transaction(left: int, *, is_hurried: bool, transaction_s: float = TRANSACTION_S) -> int:
    """How many of the rows that are left go into the next transaction."""
    slowed = ROWS_PER_S * min(1.0, left / SLOWED_ROWS) ** 2
    wanted = HURRIED_ROWS if is_hurried else int(slowed * transaction_s)
    return min(left, max(wanted, 1))


class Loader:
    """Writes all flights, once."""

    def __init__(self, log: oncelog.Log, producer: oncelog.Producer, folders: Folders, output: TextIO) -> None:
        self._log = log
        self._producer = producer
        self._folders = folders
        self._output = output
        self._parent = os.getppid()
        self._transaction_s = IN_A_BUCKET_S if folders.bucket else TRANSACTION_S

    def load(self, flights: pa.Table) -> None:
        """Write every row of `flights` in a transaction that commits."""
        rows = transactions = aborted = 0
        while rows < flights.num_rows and os.getppid() == self._parent:
            is_hurried = self._folders.hurry.exists()
            left = flights.num_rows - rows
            count = rows_of_next_transaction(left, is_hurried=is_hurried, transaction_s=self._transaction_s)
            transactions += 1
            is_aborted = transactions % ABORT_EVERY == 0
            self._write(flights.slice(rows, count), pause_s=0 if is_hurried else self._transaction_s / 2)
            if is_aborted:
                self._producer.abort_transaction()
                aborted += 1
            else:
                self._producer.commit_transaction()
                rows += count
            self._tell(Report(rows, transactions, aborted))
        self._tell(Report(rows, transactions, aborted, self._ends()))

    def _write(self, flights: pa.Table, *, pause_s: float) -> None:
        self._producer.begin_transaction()
        half = flights.num_rows // 2
        for part in (flights.slice(0, half), flights.slice(half)):
            for batch in part.select(["key", "value"]).to_batches():
                self._producer.send_batch(FLIGHTS, batch)
            self._producer.flush()  # in the log, and undecided
            time.sleep(pause_s)

    def _ends(self) -> tuple[int, ...]:
        with self._log.consumer() as consumer:
            consumer.subscribe([FLIGHTS])
            ends = consumer.end_offsets(consumer.assignment())
        return tuple(ends[partition] for partition in sorted(ends))

    def _tell(self, report: Report) -> None:
        self._output.write(json.dumps({name: getattr(report, name) for name in Report.__slots__}) + "\n")
        self._output.flush()


def main(argument: str) -> None:
    folders = Folders.given(argument)
    flights = data.read()
    with (
        folders.open_log() as log,
        log.producer(transactional_id="loader") as producer,
        folders.loader_report.open("w") as output,
    ):
        producer.init_transactions()
        Loader(log, producer, folders, output).load(flights)


if __name__ == "__main__":
    main(*sys.argv[1:])
