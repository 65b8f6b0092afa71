"""A copy of numbered records under way, for tests that disturb it: who writes them, who copies, and who reads along."""

from __future__ import annotations

import re
import signal
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TypedDict

import pyarrow as pa

import oncelog
from integration_tests.logs import write_surely
from oncelog.errors import OncelogError, OutcomeUnknownError, RetriableError
from oncelog.runtime import Log
from tests.support.harness.waiting import until
from tests.support.log import copier
from tests.support.log.copier import Plan
from tests.support.log.logs import started
from tests.support.spark.processes import Program, start_program

PLAN = Plan(partitions=4, at_once=50, aborts_every=3)
(TARGET,) = PLAN.targets


class Place(TypedDict):
    """Where a log is: what `oncelog.open` wants."""

    path: str
    znodes: str


class Reader:
    """Reads the copies while they are written, in a thread and over a session of its own."""

    def __init__(self, place: Place) -> None:
        self.values: dict[int, list[int]] = defaultdict(list)
        self.count = 0
        self._place = place
        self._is_over = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="reader")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def check(self) -> None:
        """Raise what ended it too early."""
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            with (
                oncelog.open(**self._place, create=False) as log,
                log.consumer(auto_offset_reset="earliest") as consumer,
            ):
                consumer.subscribe([TARGET])
                while not self._is_over.is_set():
                    self._poll(consumer)
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self._error = error

    def _poll(self, consumer: oncelog.Consumer) -> None:
        try:
            batches = consumer.poll_batches(100)
        except (RetriableError, OutcomeUnknownError):
            return
        for batch in batches:
            self.values[batch.partition] += map(int, batch.records["value"].to_pylist())
            self.count += batch.records.num_rows


class Copying:
    """A copy that goes on.

    Attributes:
        sent: how many records there are to copy so far: the numbers below it, spread over the partitions in turn.
        reader: who reads the copies meanwhile.
    """

    def __init__(self, log: Log, place: Place, folder: Path) -> None:
        self.sent = 0
        self.reader = Reader(place)
        self._folder = folder
        self._stop = folder / "stop"
        self._settings = {"log": place, "plan": asdict(PLAN), "stop": str(self._stop)}
        self._feeder = started(log, "feeder")
        self._program = self._start()

    def feed(self, count: int) -> None:
        """More records to copy; returns when the first of them is copied."""
        first = self.sent
        self.add(count)
        self._wait(lambda: self.reader.count > first)

    def add(self, count: int) -> None:
        """More records to copy; the copier may stand still meanwhile."""
        first, self.sent = self.sent, self.sent + count
        numbers = range(first, self.sent)

        def write() -> None:
            for partition in range(PLAN.partitions):
                values = [b"%d" % number for number in numbers if number % PLAN.partitions == partition]
                batch = pa.record_batch({"value": pa.array(values, pa.binary())})
                self._feeder.send_batch(PLAN.source, batch, partition=partition)

        write_surely(self._feeder, write)

    def wait_until_copied(self) -> None:
        """All that was fed has arrived, as far as counts tell."""
        self._wait(lambda: self.reader.count >= self.sent)

    def finish(self) -> None:
        """Let the copier come to its end, and the reader to the last of its copies."""
        self._stop.touch()
        assert self._program.wait() == 0, self._program.last_lines()
        until(lambda: self.reader.count >= self.sent)
        self._feeder.close()

    def kill(self) -> None:
        """Kill the copier without any warning, and start it again."""
        self._program.kill()
        self._program = self._start()

    def pause(self) -> None:
        self._program.send(signal.SIGSTOP)

    def resume(self) -> None:
        self._program.send(signal.SIGCONT)

    def errors(self) -> list[str]:
        """The names of the errors that the copier met so far."""
        return re.findall(r"^error (\w+)$", self._program.output.read_text(), re.MULTILINE)

    def wait_for_error(self, *kinds: type[OncelogError]) -> None:
        """The copier meets an error of one of these kinds, from now on."""
        names, before = {kind.__name__ for kind in kinds}, len(self.errors())
        self._wait(lambda: not names.isdisjoint(self.errors()[before:]))

    def close(self) -> None:
        self.reader.stop()
        self._program.kill()

    def _start(self) -> Program:
        return start_program(copier.__name__, self._settings, self._folder, "copier")

    def _wait(self, is_reached: Callable[[], bool]) -> None:
        def is_reached_alive() -> bool:
            self._program.check_runs()
            self.reader.check()
            return is_reached()

        until(is_reached_alive)


@contextmanager
def copying(log: Log, place: Place, folder: Path) -> Iterator[Copying]:
    """A copy for the time of the block; what is left of it is killed at the end."""
    copier.prepare(log, PLAN)
    found = Copying(log, place, folder)
    try:
        found.reader.start()
        yield found
    finally:
        found.close()


def copies(log: Log) -> dict[int, list[int]]:
    """What a reader finds who comes when all is over."""
    found: dict[int, list[int]] = defaultdict(list)
    with log.consumer(auto_offset_reset="earliest") as consumer:
        consumer.subscribe([TARGET])
        while batches := consumer.poll_batches():
            for batch in batches:
                found[batch.partition] += map(int, batch.records["value"].to_pylist())
    return found


def assert_exact(found: dict[int, list[int]], count: int) -> None:
    """None of the numbers below `count` is lost or doubled, and in each partition they are in order."""
    everything = [number for numbers in found.values() for number in numbers]
    lost, doubled = set(range(count)) - set(everything), len(everything) - len(set(everything))
    assert (len(lost), doubled) == (0, 0), f"lost: {sorted(lost)[:10]}"
    for partition in range(PLAN.partitions):
        assert found[partition] == list(range(partition, count, PLAN.partitions))
