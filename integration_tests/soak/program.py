"""The programs that are killed: ``python -m integration_tests.soak.program ROLE SETTINGS``.

Each life has a history of its own. A program ends with an error where it cannot go on, as a user's would, and is
started again; it ends by itself too when whoever started it is gone.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from integration_tests.soak.clients import Client, GiveUp, Partition, Polled, Reader, TryAgain, Writer
from integration_tests.soak.kafka_client import KafkaClient
from integration_tests.soak.oncelog_client import opened
from integration_tests.soak.records import PARTITIONS, SOURCE, Numbers, first_number, given_up
from oncelog.testing import history
from oncelog.testing.history import End, Ending, Fetch, Fetched, Plan, Planned, Poll, Recorder, Stage, Write, Written

GIVES_UP_EVERY = 4
"""Of the transactions of a writer, every fourth attempt is aborted."""

FROM_START_EVERY = 4
"""So often a life of the reader begins at the log's start, else at its end."""

PAUSE_S = 0.05
PLANS_EVERY_S = 1.0
TRIES_FOR_S = 60
COPIED_AT_ONCE = 200_000
READ_AT_ONCE = 400_000

T = TypeVar("T")


class Life:
    """One life of a program.

    Attributes:
        client: of the log.
        recorder: of its history.
        number: of this life among all of the soak's.
    """

    def __init__(self, client: Client, recorder: Recorder, settings: Mapping[str, Any]) -> None:
        self.client = client
        self.recorder = recorder
        self.number = int(settings["life"])
        self.name = str(settings["name"])
        self.settings = settings
        self._progress = Path(settings["progress"])
        self._stop = Path(settings["stop"])
        self._parent = os.getppid()
        self._records = 0

    @property
    def is_over(self) -> bool:
        """Whether it is asked to end."""
        if os.getppid() != self._parent:
            raise SystemExit("whoever started this program is gone")
        return self._stop.exists()

    def did(self, records: int) -> None:
        """Tell whoever looks how much was done."""
        self._records += records
        written = self._progress.with_suffix(".new")
        written.write_text(str(self._records))
        written.rename(self._progress)

    def again(self, call: Callable[[], T]) -> T:
        """Make a call until it is answered."""
        deadline_s = time.monotonic() + TRIES_FOR_S
        while True:
            try:
                return call()
            except TryAgain as error:
                if time.monotonic() > deadline_s or os.getppid() != self._parent:
                    raise
                sys.stdout.write(f"again: {error}\n")
                time.sleep(PAUSE_S)


class Transactions:
    """Writes records in transactions, and the history of them."""

    def __init__(self, life: Life, transactional_id: str) -> None:
        self._life = life
        self._recorder = life.recorder
        self._producer = transactional_id
        self._writer: Writer = life.again(lambda: life.client.writer(transactional_id))
        self._count = 0

    @property
    def gives_up(self) -> bool:
        """Whether the next one is to be aborted."""
        return self._count % GIVES_UP_EVERY == GIVES_UP_EVERY - 1

    def is_committed(
        self, topic: str, records: Mapping[int, Numbers], staged: tuple[str, Mapping[Partition, int]] | None = None
    ) -> bool:
        """Try one transaction.

        Args:
            topic: that all records go to.
            records: by partition.
            staged: a group and its offsets that become visible with them.

        Returns:
            whether it was committed; if it was not, it was aborted.
        """
        gives_up, name = self.gives_up, f"{self._recorder.process}/{self._count}"
        self._count += 1
        self._writer.begin()
        sent: list[tuple[int, Callable[[], int | None]]] = []
        try:
            for partition, numbers in records.items():
                marked = given_up(numbers) if gives_up else numbers
                made = self._recorder.invoke(
                    Write(topic, history.runs_of(marked), partition, name, producer=self._producer)
                )
                sent.append((made, self._writer.write(topic, partition, marked)))
            if staged is not None:
                self._stage(name, *staged)
            if gives_up:
                self._writer.flush()
        except (TryAgain, GiveUp) as error:
            sys.stdout.write(f"gives up: {error}\n")
            gives_up = True
        if not gives_up and self._ends(name, Ending.COMMIT):
            self._told(sent)
            return True
        self._told(sent)
        self._ends(name, Ending.ABORT)
        return False

    def _stage(self, name: str, group: str, offsets: Mapping[Partition, int]) -> None:
        made = self._recorder.invoke(Stage(group, [(*at, end) for at, end in offsets.items()], name))
        self._writer.stage(group, offsets)
        self._recorder.ok(made)

    def _ends(self, name: str, ending: Ending) -> bool:
        """End the transaction; returns whether it was done. What must be aborted instead certainly did not commit."""
        call = self._writer.commit if ending is Ending.COMMIT else self._writer.abort
        made = self._recorder.invoke(End(name, ending))
        try:
            self._life.again(call)
        except GiveUp as error:
            sys.stdout.write(f"gives up: {error}\n")
            self._recorder.fail(made)
            return False
        self._recorder.ok(made)
        return True

    def _told(self, sent: list[tuple[int, Callable[[], int | None]]]) -> None:
        """Write down the offsets that are known."""
        for made, offset in sent:
            found = offset()
            if found is None:
                self._recorder.unknown(made)
            else:
                self._recorder.ok(made, Written(found))


def feed(life: Life) -> None:
    """Write numbered records to the source, as many a second as the settings say, until it is asked to stop."""
    transactions = Transactions(life, life.name)
    rate, each = int(life.settings["rate"]), int(life.settings["each"])
    began_s, sent = time.monotonic(), 0
    next_numbers = {partition: first_number(life.number, partition) for partition in range(PARTITIONS)}
    while not life.is_over:
        if sent > (time.monotonic() - began_s) * rate:
            time.sleep(0.01)
            continue
        records = {number: np.arange(first, first + each) for number, first in next_numbers.items()}
        is_committed = transactions.is_committed(SOURCE, records)
        next_numbers = {number: first + each for number, first in next_numbers.items()}
        sent += each * PARTITIONS
        if is_committed:
            life.did(each * PARTITIONS)


def copy(life: Life) -> None:
    """Copy the source, positions and records in one transaction, until it is asked to stop and nothing is left."""
    transactions = Transactions(life, life.name)
    reader = life.again(lambda: life.client.reader([SOURCE], life.name))
    while True:
        is_last = life.is_over
        polled = life.again(lambda: reader.poll(COPIED_AT_ONCE))
        if polled.count == 0:
            if is_last and reader.is_at_end():
                return
            time.sleep(PAUSE_S)
            continue
        records = {piece.partition: _numbers(piece.runs) for piece in polled.pieces if piece.runs}
        ends = {(SOURCE, piece.partition): piece.end for piece in polled.pieces if piece.runs}
        while not transactions.is_committed(life.name, records, (life.name, ends)):
            pass
        life.did(polled.count)


def _numbers(runs: Any) -> Numbers:
    return np.concatenate([np.arange(first, first + count) for _, first, count in runs])


def read(life: Life) -> None:
    """Read all topics beside those who write them, and ask for stable ends and group offsets now and then.

    As the final reader, it reads to the end and stops.
    """
    topics, is_final = life.settings["topics"], bool(life.settings["is_final"])
    is_from_end = not is_final and life.number % FROM_START_EVERY != 0
    reader = life.again(lambda: life.client.reader(topics, is_from_end=is_from_end))
    asked_s = 0.0
    while True:
        polled = life.again(lambda: _poll(life, reader, is_final=is_final))
        life.did(polled.count)
        if polled.count == 0:
            if reader.is_at_end() if is_final else life.is_over:
                break
            time.sleep(PAUSE_S)
        if not is_final and time.monotonic() > asked_s + PLANS_EVERY_S:
            asked_s = time.monotonic()
            _ask(life, reader, life.settings["groups"] if life.settings["asks_groups"] else [])
    if is_final:
        _ask(life, reader, life.settings["groups"])


def _poll(life: Life, reader: Reader, *, is_final: bool) -> Polled:
    made = life.recorder.invoke(Poll(life.recorder.process, is_final=is_final))
    polled = reader.poll(READ_AT_ONCE)
    life.recorder.ok(made, history.Polled(polled.pieces, polled.is_whole))
    return polled


def _ask(life: Life, reader: Reader, groups: list[str]) -> None:
    try:
        asked = life.recorder.invoke(Plan())
        for (topic, partition), end in reader.stable_ends().items():
            life.recorder.ok(asked, Planned([(topic, partition, end)]))
            asked = life.recorder.invoke(Plan())
        for group in groups:
            asked = life.recorder.invoke(Fetch(group))
            found = life.client.committed(group, SOURCE)
            offsets = [(SOURCE, number, found.get((SOURCE, number), -1)) for number in range(PARTITIONS)]
            life.recorder.ok(asked, Fetched(offsets))
    except TryAgain as error:
        sys.stdout.write(f"passes over: {error}\n")


@contextmanager
def connected(settings: Mapping[str, Any]) -> Iterator[Client]:
    """A client of the log that the settings name."""
    if "brokers" in settings:
        yield KafkaClient(settings["brokers"])
        return
    with opened(settings) as client:
        yield client


ROLES: Mapping[str, Callable[[Life], None]] = {"feeder": feed, "copier": copy, "reader": read}


def main(role: str, settings: Mapping[str, Any]) -> None:
    process = f"{settings['name']}.{settings['life']}"
    with history.writing(settings["history"]) as keep, connected(settings) as client:
        ROLES[role](Life(client, Recorder(process, keep), settings))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
