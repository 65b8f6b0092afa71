"""Queries into the sink in programs of their own, which tests kill with what they started."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from oncelog.crash_points import CrashPoint
from oncelog.znodes.host import HOST_ID_VARIABLE
from oncelog_kafka.brokers import Brokers
from oncelog_kafka.crash_points import KafkaCrashPoint
from tests.support.connectors.kafka_sink import options, values
from tests.support.harness.waiting import until
from tests.support.servers.kafka import KafkaBroker, Transaction, fresh_name
from tests.support.spark.lives import Lives
from tests.support.spark.processes import Program

ROWS = 10
"""Of a batch."""

BEHIND_THE_DECISION = (
    CrashPoint.ROUND_DECIDED,
    KafkaCrashPoint.END,
    KafkaCrashPoint.ENDED,
    KafkaCrashPoint.COMPLETE,
    CrashPoint.SINK_DONE,
)
"""The points that a batch passes once it is decided."""


class World(Lives):
    """A query that is killed again and again.

    Args:
        broker: that it writes to.
        folder: of all its files.
        door: of the sink.
        source: what it reads: `files`, or a `topic`, whose offsets become a group's with the batches.
        settings: of the program, beside those that every life has.
        more: options of the sink.

    Attributes:
        written: the values so far.
        ends: where the group stands behind all of them, by partition; empty without a group.
    """

    def __init__(
        self,
        broker: KafkaBroker,
        folder: Path,
        door: str,
        source: str = "files",
        settings: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(folder)
        self.broker = broker
        self.door = door
        self.topic = broker.create_topic(fresh_name("killed"), partitions=2)
        self.prefix = f"{self.topic}.p"
        self.written: list[str] = []
        self.ends: dict[int, int] = {}
        self._settings = settings or {}
        if source == "topic":
            self.source = broker.create_topic(fresh_name("source"), partitions=2)
            self.group = more["groupId"] = f"{self.source}.g"
        self.sink = options(broker, folder, self.topic, transactionalIdPrefix=self.prefix, **more)

    @property
    def has_group(self) -> bool:
        return "groupId" in self.sink

    @property
    def moves(self) -> int:
        """How often the query went on on another host."""
        return 0 if "znodes" in self.sink else self._lives - 1

    def write(self, count: int = ROWS, kinds: Sequence[str] = ("", "")) -> None:
        """One more batch; its values begin with the kind of their partition."""
        texts = [f"{kinds[at % 2]}{len(self.written) + at:05d}" for at in range(count)]
        if self.has_group:
            writer = Transaction(self.broker)
            for number in (0, 1):
                writer.send(self.source, *texts[number::2], partition=number)
                self.ends[number] = self.ends.get(number, 0) + len(texts[number::2]) + 1  # a marker is behind them
            writer.commit()
        else:
            lines = [json.dumps({"value": text, "partition": at % 2}) for at, text in enumerate(texts)]
            self.put(len(self.written), "\n".join(lines))
        self.written += texts

    def live(self, point: str | None, *, is_doomed: bool = False) -> Program:
        """Begin a life that can be ended at `point`; it passes it unharmed until `die`, unless it is doomed."""
        self._lives += 1
        if not is_doomed:
            self.mark.touch()
        settings = {
            "source": self._source(),
            "sink": self.sink,
            "door": self.door,
            "stop": str(self.folder / "stop"),
            **self._settings,
        }
        variables = None if "znodes" in self.sink else self._another_host()
        return self._start("kafka_copier", settings, point, variables)

    def _another_host(self) -> dict[str, str]:
        """Where the ledger is in the cluster, no life finds anything of the one before but checkpoint and brokers."""
        home = self.folder / f"host-{self._lives}"
        home.mkdir()
        return {HOST_ID_VARIABLE: home.name, **dict.fromkeys(("HOME", "TMPDIR", "SPARK_LOCAL_DIRS"), str(home))}

    def _source(self) -> dict[str, Any]:
        if self.has_group:
            begin = {"subscribe": self.source, "startingOffsets": "earliest"}
            return {"kafka.bootstrap.servers": self.broker.address, **begin}
        files = {"format": "json", "schema": "value string, partition int", "path": str(self.folder / "in")}
        return {**files, "maxFilesPerTrigger": 1}

    def die(self, point: str) -> None:
        """Recover, and be killed at the point in the next batch."""
        if point == KafkaCrashPoint.FENCE:  # passed by the first batch of a life only
            self.live(None)
            self.recover()
            self.end()
            self.write()
            self.live(point, is_doomed=True).wait_killed()
            return
        super().die(point)

    def stop(self) -> None:
        """End the life in peace."""
        assert self._program is not None
        (self.folder / "stop").touch()
        assert self._program.wait() == 0, self._program.last_lines()

    def found(self) -> list[str]:
        return values(self.broker, self.topic)

    def moved(self) -> dict[int, int]:
        """Where the group stands, if there is one, whatever is undecided."""
        if not self.has_group:
            return {}
        return {number: at for (_, number), at in self.broker.group_offsets(self.group).items() if at >= 0}

    def recover(self) -> None:
        """Wait until everything that was written is there, and the group stands behind it."""
        self.wait_until(lambda: len(self.found()) >= len(self.written))
        assert self.found() == sorted(self.written)
        self.wait_until(lambda: self.moved() == self.ends)

    def open_ids(self) -> list[str]:
        """The transactions of the sink that are open."""
        brokers = Brokers({"bootstrap_servers": self.broker.address})
        found = [name for name, _ in brokers.list_ids(["Ongoing"]) if name.startswith(self.prefix)]
        brokers.close()
        return found

    def check_nothing_is_left_open(self) -> None:
        until(lambda: not self.open_ids(), tell=self.open_ids)
