"""What breaks, and what its page of the runbook tells an operator to do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Producer
from pyspark.errors import StreamingQueryException

from oncelog.metrics.alerts import ALERTS
from oncelog.types import TopicPartition
from oncelog_kafka.operations.metrics import ALERTS as KAFKA_ALERTS
from operations.place import Place, until

PAGES: Final = {alert.name: alert.page for alert in (*ALERTS, *KAFKA_ALERTS)}

STANDS_STILL: Final = "OncelogReadersStandStill"
RUNS_OUT: Final = "OncelogKafkaBatchRunsOutOfTime"


@dataclass(frozen=True)
class Failure:
    """A failure, from its first moment to its last.

    Attributes:
        what: happens.
        stage: lets it happen.
        alerts: exactly these fire then. The first is the one whose page is read.
        command: which the page gives its reader, if it gives one.
        by_hand: what else the reader does, in words.
        follow: does that.
    """

    what: str
    stage: Callable[[Place], object]
    alerts: tuple[str, ...]
    command: str | None = None
    by_hand: str | None = None
    follow: Callable[[Place], object] | None = None

    @property
    def page(self) -> str:
        """The page of the runbook."""
        return f"docs/operations/symptoms/{PAGES[self.alerts[0]]}.md"


def unmount(place: Place) -> None:
    place.archive.rename(place.folder / "not-mounted")


def mount(place: Place) -> None:
    (place.folder / "not-mounted").rename(place.archive)


def leave_open(place: Place, name: str, topic: str, timeout_ms: int = 60_000) -> None:
    """Write a record in a transaction that nobody ends."""
    producer = place.log.producer(transactional_id=name, transaction_timeout_ms=timeout_ms)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, name.encode())
    producer.flush()


def forget_to_commit(place: Place) -> None:
    leave_open(place, "loader-0", "flights")


def write_again(place: Place) -> None:
    with place.log.producer(transactional_id="loader-0") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("flights", b"loader-0")
    place.sent.append(b"loader-0")


def hang(place: Place) -> None:
    leave_open(place, "loader-2", "fares", timeout_ms=1)


def prepare(place: Place) -> None:
    producer = place.log.producer(transactional_id="loader-1")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("tickets", b"loader-1")
    producer.prepare_transaction()


def commit_beyond(place: Place) -> None:
    with place.log.consumer(group_id="restored") as consumer:
        consumer.commit({TopicPartition("fares", 0): 1000})


def fall_behind(place: Place) -> None:
    place.log.admin.alter_offsets("delays", {TopicPartition("flights", 0): 0})


def lose_the_checkpoint(place: Place) -> None:
    with suppress(StreamingQueryException):
        place.run("copies", checkpoint="new")


def misspell_the_topic(place: Place) -> None:
    with suppress(StreamingQueryException):
        place.run("copies", topic="copeis", checkpoint="copeis")


def leave_open_on_kafka(place: Place) -> None:
    """What a task leaves that dies after its driver."""
    settings = {"bootstrap.servers": place.brokers, "transactional.id": "delayed-0-9.0.0", "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce("late", b"of a dead task")
    producer.flush()


def come_back_too_late(place: Place) -> None:
    """The brokers abort what the killed driver had decided; the restart writes it again."""
    place.kill("brief")
    until(lambda: RUNS_OUT in place.firing(), "the brokers' time to run out")
    until(lambda: RUNS_OUT not in place.firing(), "the brokers to abort the batch")
    place.run("brief")


FAILURES: Final = (
    Failure(
        "the disk of a log is not mounted",
        unmount,
        ("OncelogExporterCannotRead",),
        by_hand="mount it",
        follow=mount,
    ),
    Failure(
        "a loader forgot to commit, and lives",
        forget_to_commit,
        (STANDS_STILL,),
        "oncelog txn abort loader-0",
        "start the loader again",
        write_again,
    ),
    Failure(
        "a loader died, and nobody reads or writes its topic",
        hang,
        ("OncelogTransactionHangs", STANDS_STILL),
        "oncelog gc",
    ),
    Failure(
        "the token of a prepared transaction was lost",
        prepare,
        ("OncelogPreparedForLong", STANDS_STILL),
        "oncelog txn abort loader-1",
    ),
    Failure(
        "a group's consumer stopped, and the loader goes on",
        fall_behind,
        ("OncelogLagGrows",),
        by_hand="start the consumer",
        follow=lambda place: place.read_on("delays"),
    ),
    Failure(
        "a program committed a position of another copy of the log",
        commit_beyond,
        ("OncelogGroupBeyondLog",),
        "oncelog group reset restored --to latest",
    ),
    Failure(
        "kill -9 of a driver before the decision of its batch",
        lambda place: place.kill("copies"),
        ("OncelogBatchUndecided", STANDS_STILL),
        "oncelog batch abort copies",
    ),
    Failure(
        "kill -9 of a driver behind the decision, before its files are shown",
        lambda place: place.kill("delayed"),
        ("OncelogBatchNotVisible",),
        "oncelog --znodes PLACE batch complete delayed --option path=/data/out",
    ),
    Failure(
        "a query is started with a new checkpoint",
        lose_the_checkpoint,
        ("OncelogBatchRefused", "OncelogQueryFailed"),
        by_hand="start it with the checkpoint that it had",
        follow=lambda place: place.run("copies"),
    ),
    Failure(
        "a query is started with a topic that is not there",
        misspell_the_topic,
        ("OncelogQueryFailed",),
        by_hand="correct the topic, and start it again",
        follow=lambda place: place.run("copies"),
    ),
)

ON_KAFKA: Final = (
    Failure(
        "a task of a sink into Kafka died after its driver",
        leave_open_on_kafka,
        ("OncelogKafkaReadersStandStill",),
        "oncelog kafka txn abort --prefix delayed",
    ),
    Failure(
        "kill -9 of a driver behind the decision, before Kafka's transactions are committed",
        lambda place: place.kill("late"),
        (RUNS_OUT, "OncelogKafkaReadersStandStill", "OncelogBatchNotVisible"),
        "oncelog kafka batch complete delayed --accept-loss",
    ),
    Failure(
        "kill -9 of a driver behind the decision, and it is back only when the brokers have aborted its transactions",
        come_back_too_late,
        ("OncelogParticipantsLost",),
        by_hand="raise transactionTimeoutMs, and start it again",
        follow=lambda place: place.run("patient", checkpoint="brief", topic="brief"),
    ),
)
"""Those of a place with a broker."""
