"""Plants transactions that nobody ends on real brokers, and asks the command line for them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import fastavro
from click.testing import CliRunner, Result

from oncelog.cli import main
from oncelog.znodes.clock import SystemClock, wall_ms
from oncelog_kafka.brokers import KafkaRequests
from raw_producer import RawProducer
from simulation.kafka.transactions import Identity
from tests.support.connectors.kafka_sink import values
from tests.support.harness.waiting import until
from tests.support.servers.kafka import TV1_VERSION, TV2_VERSION, KafkaBroker, fresh_name, running_broker

HOUR_MS = 3_600_000
TIMEOUT_MS = 60_000

UNGUARDED = {
    "transaction.partition.verification.enable": "false",
    "transaction.max.timeout.ms": str(2 * TIMEOUT_MS),
}
"""Then a leader takes a transaction's rows although the coordinator does not know its partition. The coordinator leaves
its marker out, as brokers 4.3.0 to 4.4.0 do for a partition that has no leader."""

RELEASES = {"4.4": (TV2_VERSION, 2), "3.9": (TV1_VERSION, 1)}
"""Each with its transaction version."""

_strangers = itertools.count(1_000_000)
"""Producer ids that no broker has given away."""


class World:
    """A broker, a producer of hanging transactions, and the command line."""

    def __init__(self, broker: KafkaBroker, version: int, requests: KafkaRequests) -> None:
        self.broker = broker
        self.version = version
        self.raw = RawProducer(requests)
        self.topic = broker.create_topic(fresh_name("hanging"), partitions=2, retention_ms="-1")

    def began(self, name: str | None = None) -> Identity:
        """A producer's identity."""
        name = name or fresh_name("id")

        def ask() -> Identity | None:
            return self.raw.init(name, TIMEOUT_MS)[1]

        found = until(ask)
        assert found is not None
        return found

    def write(
        self, who: Identity, partition: int, *rows: str, sequence: int = 0, is_known: bool = True, ago_ms: int = 0
    ) -> None:
        """Write rows; unless `is_known`, the coordinator does not hear of the partition."""
        place = (self.topic, partition)
        if is_known:
            until(lambda: self.raw.add_partitions(who, [place]) == "NONE")
        some = [row.encode() for row in rows]
        written_ms = wall_ms() - ago_ms
        until(lambda: self.raw.produce(who, place, some, sequence, version=1, timestamp_ms=written_ms) == "NONE")

    def end(self, who: Identity, *, is_commit: bool) -> None:
        """End the transaction, and wait until its markers are written."""
        assert self.raw.end(who, is_commit=is_commit, version=self.version)[0] == "NONE"
        until(lambda: self.json("txn", "describe", who.transactional_id)["transaction"]["state"].startswith("Complete"))

    def leave_open(self, *rows: str, is_commit: bool = True) -> Identity:
        """Rows in both partitions, and no marker in partition 1."""
        who = self.began()
        self.write(who, 0, "seen")
        self.write(who, 1, *rows, is_known=False)
        self.end(who, is_commit=is_commit)
        return who

    def ask(self, *words: str, says: str | None = None) -> Result:
        """The command ``oncelog kafka``; `says` is what is typed."""
        first = words[:2] if words[0] == "--znodes" else ()
        words = words[len(first) :]
        done = CliRunner().invoke(main, [*first, "kafka", "--brokers", self.broker.address, *words], input=says)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done

    def json(self, *words: str, exit_code: int = 0) -> Any:
        done = self.ask(*words, "--json")
        assert done.exit_code == exit_code, done.output
        return json.loads(done.stdout)

    def verdict(self, ended: str) -> str:
        """What can be known of a transaction that ended so: at transaction version 1 a coordinator is no proof."""
        return ended if self.version >= 2 else "unknown"

    def choice(self, ended: str, folder: Path) -> tuple[str, ...]:
        """What the operator must then say to end it so."""
        if self.version >= 2:
            return ()
        return ("--unknown", ended) if ended == "commit" else ("--unknown", ended, "--save", str(folder))

    def repair(self, *words: str, exit_code: int = 0) -> Any:
        """Repairs what hangs in partition 1, as all hangs of these tests do."""
        return self.json("txn", "repair", "--partition", self.place, "--yes", *words, exit_code=exit_code)

    @property
    def place(self) -> str:
        return f"{self.topic}-1"

    def hangs(self) -> list[Any]:
        """Those of this test's topic."""
        found = json.loads(self.ask("txn", "find-hanging", "--json").stdout)
        assert found["not_asked"] == {}
        return [one for one in found["left_open"] if one["topic"] == self.topic]

    def leave_forgotten(self, *rows: str, ago_ms: int = HOUR_MS) -> Identity:
        """Rows in partition 1 of a producer that no coordinator knows, as after its id has expired."""
        stranger = Identity(fresh_name("id"), next(_strangers), 0)
        self.write(stranger, 1, *rows, is_known=False, ago_ms=ago_ms)
        return stranger

    def values(self) -> list[str]:
        """What a reader of committed rows sees."""
        return values(self.broker, self.topic)


def avro_rows(path: Path) -> list[Any]:
    with path.open("rb") as file:
        return list(fastavro.reader(file))


class LaterClock(SystemClock):
    """A clock that is an hour ahead."""

    def now_ms(self) -> int:
        return super().now_ms() + HOUR_MS


@contextmanager
def unguarded_broker(folder: Path, release: str = "4.4") -> Iterator[tuple[KafkaBroker, int]]:
    """A broker on which hanging transactions can be planted, with its transaction version."""
    broker_version, transaction_version = RELEASES[release]
    with running_broker(folder, version=broker_version, settings=UNGUARDED) as broker:
        yield broker, transaction_version


@contextmanager
def world_on(broker: KafkaBroker, version: int) -> Iterator[World]:
    """A topic of such a broker."""
    with closing(KafkaRequests({"bootstrap_servers": broker.address})) as requests:
        yield World(broker, version, requests)
