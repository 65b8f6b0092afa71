"""The command ``oncelog kafka``, on a real broker and a real ledger, in the states that operators meet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import KafkaException
from pyspark.sql import SparkSession

from oncelog import metadata
from oncelog.batches.attempt import Batch, BatchReport
from oncelog.batches.rules import BatchRequest
from oncelog.batches.run import BatchDriver
from oncelog.cli import main
from oncelog_kafka.brokers import Brokers
from oncelog_kafka.ledger import ledger, ledger_store
from oncelog_kafka.options import sink_options
from oncelog_kafka.protocol.participants import Participant
from oncelog_kafka.sinks.data_plane import SparkJob
from oncelog_kafka.sinks.finishing import DecidedRound, finish
from oncelog_kafka.sinks.target import KafkaTarget
from tests.support.connectors.kafka_ledger import Ledger
from tests.support.connectors.kafka_sink import numbered, prepare, rows, values
from tests.support.servers.kafka import KafkaBroker, Transaction, fresh_name, send

FINGERPRINT = "fp"


class World:
    """A sink that stopped somewhere, and the command line beside it."""

    def __init__(self, spark: SparkSession, broker: KafkaBroker, folder: Path) -> None:
        self.spark = spark
        self.broker = broker
        self.place = str(folder / "ledger")
        self.topic = broker.create_topic(fresh_name("shown"), partitions=2)
        self.prefix = f"{self.topic}.p"
        self.store = metadata.open_metadata(self.place)
        self.brokers = Brokers({"bootstrap_servers": broker.address})

    def stop_before_the_decision(self) -> tuple[Ledger, Any, tuple[Participant, ...]]:
        steps = Ledger(self.store, BatchRequest(self.prefix, "query", "sink", "run", 0, FINGERPRINT))
        opened = steps.begin(lease=None, buckets=None)
        assert opened is not None
        df = rows(self.spark, numbered(10))
        return steps, opened, prepare(df, self.broker, self.prefix, topic=self.topic, nonce=opened.record.nonce)

    def stop_behind_the_decision(self) -> DecidedRound:
        steps, opened, participants = self.stop_before_the_decision()
        return DecidedRound(self.prefix, opened.number, steps.decide(opened, participants))

    def run(self, batch_id: int, run: str) -> BatchReport:
        """A batch of ten rows more, or the replay of one, as a query does it."""
        settings = {"kafka.bootstrap.servers": self.broker.address, "znodes": self.place, "topic": self.topic}
        target = KafkaTarget(self.store, self.brokers, sink_options.parse(settings))
        request = BatchRequest(self.prefix, "query", "sink", run, batch_id, FINGERPRINT)
        return BatchDriver(target).run(Batch(request, SparkJob(rows(self.spark, numbered(10, first=10 * batch_id)))))

    def finish(self, decided: DecidedRound) -> None:
        assert finish(self.brokers, self.store, decided).lost == []

    def ask(self, *words: str) -> Result:
        arguments = ["--znodes", self.place, "kafka", "--brokers", self.broker.address, *words]
        done = CliRunner().invoke(main, arguments)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        assert "Traceback" not in done.output
        return done

    def json(self, *words: str, exit_code: int = 0) -> Any:
        done = self.ask(*words, "--json")
        assert done.exit_code == exit_code, done.output
        return json.loads(done.stdout)

    def given_up(self) -> list[Any]:
        """What was given up, as the command for sinks of any target and the one for Kafka's show it."""
        done = CliRunner().invoke(main, ["--znodes", self.place, "batch", "show", self.prefix, "--json"])
        (found,) = json.loads(done.stdout)["ledgers"]
        assert found["given_up"] == self.json("batch", "show", self.prefix)["batch"]["given_up"]
        return list(found["given_up"])

    def ids(self) -> list[str]:
        return [f"{self.prefix}-{number}-1.0.0" for number in (0, 1)]

    def values(self) -> list[str]:
        return values(self.broker, self.topic)


@pytest.fixture
def world(kafka: KafkaBroker, spark: SparkSession, tmp_path: Path) -> Iterator[World]:
    found = World(spark, kafka, tmp_path)
    yield found
    found.store.close()
    found.brokers.close()


def test_the_transactions_of_a_sink_are_listed_by_its_prefix(world: World) -> None:
    world.stop_before_the_decision()

    found = world.json("txn", "list", "--prefix", world.prefix)
    assert found == {"transactions": [{"transactional_id": name, "state": "Ongoing"} for name in world.ids()]}
    assert world.json("txn", "list", "--prefix", world.topic) == {"transactions": []}
    assert world.json("txn", "list", "--prefix", world.prefix, "--state", "Empty") == {"transactions": []}
    assert all(name in world.ask("txn", "list").stdout for name in world.ids())


def test_a_transaction_is_described_with_its_partitions_and_its_sink(world: World) -> None:
    _, _, participants = world.stop_before_the_decision()

    found = world.json("txn", "describe", world.ids()[0])["transaction"]

    assert (found["state"], found["prefix"]) == ("Ongoing", world.prefix)
    assert (found["producer_id"], found["epoch"]) == (participants[0].producer_id, participants[0].epoch)
    assert any(name.startswith(world.topic) for name in found["partitions"])


def test_an_unknown_transactional_id_is_an_error_that_names_it(world: World) -> None:
    done = world.ask("txn", "describe", "not-there")

    assert done.exit_code == 2
    assert "not-there" in done.stderr


def test_nothing_hangs_while_coordinators_do_their_work(world: World) -> None:
    world.stop_before_the_decision()

    found = world.json("txn", "find-hanging")
    assert (found["hanging"], found["left_open"]) == ([], [])


def test_a_batch_in_doubt_is_shown_with_its_participants_and_what_a_restart_does(world: World) -> None:
    world.stop_behind_the_decision()

    found = world.json("batch", "show", world.prefix)["batch"]

    assert (found["state"], found["batch_id"], found["last_batch_id"]) == ("decided", 0, 0)
    assert "sent again" in found["recovery"]
    assert [(p["transactional_id"], p["state"], p["rows"]) for p in found["participants"]] == [
        (name, "Ongoing", 5) for name in world.ids()
    ]
    assert all(0 < p["left_ms"] <= 60_000 for p in found["participants"])
    assert world.ids()[1] in world.ask("batch", "show", world.prefix).stdout


def test_a_part_that_was_aborted_behind_the_decision_is_not_promised_to_be_committed(world: World) -> None:
    decided = world.stop_behind_the_decision()
    world.brokers.fence([decided.record.participants[0].transactional_id], 60_000)

    found = world.json("batch", "show", world.prefix)["batch"]

    assert "1 of 2 are no longer open" in found["recovery"]
    assert [p["left_ms"] is None for p in found["participants"]] == [True, False]


def test_what_is_open_and_not_decided_is_shown_as_such(world: World) -> None:
    world.stop_before_the_decision()

    found = world.json("batch", "show", world.prefix)["batch"]

    assert (found["state"], found["participants"]) == ("open", [])
    assert found["undecided"] == world.ids()
    assert "written again" in found["recovery"]


def test_abort_ends_what_is_not_decided(world: World) -> None:
    world.stop_before_the_decision()

    assert world.json("txn", "abort", "--prefix", world.prefix)["aborted"] == world.ids()
    assert world.json("txn", "abort", "--prefix", world.prefix)["aborted"] == []
    assert world.json("batch", "show", world.prefix)["batch"]["state"] == "abort"
    assert world.values() == []


def test_the_transaction_of_another_program_is_aborted_by_its_id(world: World) -> None:
    name = fresh_name("loader")
    left_open = Transaction(world.broker, name).send(world.topic, "of a dead loader")
    asked = "txn", "abort", "--transactional-id"

    assert world.json(*asked, name)["aborted"] == [name]
    assert world.json(*asked, name)["aborted"] == []
    with pytest.raises(KafkaException, match="fenced"):
        left_open.commit()
    assert world.values() == []


def test_what_may_be_decided_is_not_aborted_by_an_id(world: World) -> None:
    decided = world.stop_behind_the_decision()
    one = decided.record.participants[0].transactional_id
    asked = "txn", "abort", "--transactional-id"

    refused = [world.ask(*asked, one), world.ask(*asked, "nobody's"), world.ask(*asked, "x", "--prefix", world.prefix)]
    world.finish(decided)

    expected = "a batch of it may be decided", "the brokers know no such", "Give either --prefix or --transactional-id"
    for answer, said in zip(refused, expected, strict=True):
        assert answer.exit_code != 0
        assert said in answer.stderr
    assert world.values() == numbered(10)


def test_abort_leaves_alone_what_is_decided(world: World) -> None:
    """conformance: 52."""
    decided = world.stop_behind_the_decision()

    assert world.json("txn", "abort", "--prefix", world.prefix)["aborted"] == []
    world.finish(decided)

    assert world.values() == numbered(10)
    assert world.json("batch", "show", world.prefix)["batch"]["state"] == "complete"


def test_a_loss_that_is_accepted_costs_what_is_lost_and_no_more_and_the_query_goes_on(world: World) -> None:
    """conformance: 56."""
    decided = world.stop_behind_the_decision()
    lost, left = decided.record.participants
    world.brokers.fence([lost.transactional_id], 60_000)

    assert world.ask("batch", "complete", world.prefix).exit_code == 2
    accepted = world.json("batch", "complete", world.prefix, "--accept-loss", "--reason", "of no use")["completed"]
    assert accepted == [
        {
            "round": decided.number,
            "batch_id": decided.record.batch_id,
            "missing": [
                {
                    "transactional_id": lost.transactional_id,
                    "partition": lost.partition,
                    "rows": lost.rows,
                    "is_certain": True,
                }
            ],
        }
    ]
    assert len(world.values()) == left.rows
    (given_up,) = world.given_up()
    assert (given_up["batch_id"], given_up["reason"]) == (decided.record.batch_id, "of no use")
    assert given_up["parts"] == [f"{lost.transactional_id}: {lost.rows} rows"]
    assert "of no use" in world.ask("batch", "show", world.prefix).stdout

    assert world.run(0, "run-2").is_replay
    assert world.run(1, "run-2").rows == 10
    assert len(world.values()) == left.rows + 10


def test_a_batch_that_lacks_nothing_is_committed_and_not_given_up(world: World) -> None:
    """conformance: 52."""
    decided = world.stop_behind_the_decision()

    done = world.ask("batch", "complete", world.prefix, "--accept-loss")

    assert f"batch {decided.record.batch_id} of {world.prefix} is complete, and no rows are missing" in done.stdout
    assert world.values() == numbered(10)
    assert world.given_up() == []
    assert world.ask("batch", "complete", world.prefix, "--accept-loss").exit_code == 2


def test_what_nobody_can_tell_any_more_is_given_up_as_that(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The brokers' retention is days; the decision is made older than that."""
    decided = world.stop_behind_the_decision()
    first, second = decided.record.participants
    world.brokers.fence([first.transactional_id], 60_000)
    monkeypatch.setattr(ledger, "decision_age_ms", lambda *_: 8 * 24 * 3_600_000)

    (found,) = world.json("batch", "complete", world.prefix, "--accept-loss")["completed"]

    assert [(part["rows"], part["is_certain"]) for part in found["missing"]] == [(first.rows, False)]
    assert "may have been committed" in world.given_up()[0]["parts"][0]
    assert len(world.values()) == second.rows


def test_a_prefix_without_a_ledger_is_an_error_that_names_those_there_are(world: World) -> None:
    world.stop_before_the_decision()

    done = world.ask("batch", "show", "copeir")

    assert done.exit_code == 2
    assert world.prefix in done.stderr
    assert world.json("batch", "list") == {"prefixes": [world.prefix], "foreign_records": 0}


@pytest.mark.parametrize(
    "words", [["kafka", "txn", "list"], ["kafka", "batch", "list"], ["kafka", "batch", "show", "p"]]
)
def test_a_place_that_was_not_named_is_asked_for(words: list[str]) -> None:
    done = CliRunner().invoke(main, words)

    assert done.exit_code == 2
    assert done.stderr.startswith("oncelog: Which ")


def test_a_ledger_that_is_not_there_is_not_created(world: World, tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["--znodes", str(tmp_path / "typo"), "kafka", "batch", "list"])

    assert done.exit_code == 2
    assert not (tmp_path / "typo").exists()


def test_ledgers_are_copied_into_the_cluster_where_commands_and_queries_find_them(world: World, tmp_path: Path) -> None:
    decided = world.stop_behind_the_decision()
    topic = ["--ledger-topic", f"{world.topic}.ledger"]
    found = run_in(world, *topic, "ledger", "copy", "--from", world.place)
    assert found["copied"]["to"] == f"ledgerTopic={world.topic}.ledger"

    assert run_in(world, *topic, "batch", "list") == {"prefixes": [world.prefix], "foreign_records": 0}
    shown = run_in(world, *topic, "batch", "show", world.prefix)["batch"]
    assert (shown["round"], shown["state"]) == (decided.number, "decided")
    options = {"kafka.bootstrap.servers": world.broker.address, "ledgerTopic": topic[1], "topic": world.topic}
    parsed = sink_options.parse(options)
    with closing(ledger_store.open_ledger(parsed.admin, parsed.ledger_topic)) as store:
        target = KafkaTarget(store, world.brokers, parsed)
        request = BatchRequest(world.prefix, "query", "sink", "next run", 0, FINGERPRINT)
        assert BatchDriver(target).run(Batch(request, SparkJob(rows(world.spark, numbered(10))))).rows == 0
    assert world.values() == numbered(10)

    back = str(tmp_path / "back")
    assert (
        run_in(world, *topic, "ledger", "copy", "--to", back)["copied"]["to"] == f"znodes=sqlite:{back}/znodes.sqlite"
    )
    assert json.loads(ask("--znodes", back, "kafka", "batch", "list", "--json").stdout) == {
        "prefixes": [world.prefix],
        "foreign_records": 0,
    }


def test_every_command_reads_a_ledger_that_other_programs_wrote_to(world: World, tmp_path: Path) -> None:
    world.stop_behind_the_decision()
    topic = ["--ledger-topic", f"{world.topic}.ledger"]
    run_in(world, *topic, "ledger", "copy", "--from", world.place)
    Transaction(world.broker).send(topic[1], "a row of a mirror").commit()
    send(world.broker, topic[1], "a line", enable_idempotence=False)
    still_open = Transaction(world.broker).send(topic[1], "open")

    assert run_in(world, *topic, "batch", "list") == {"prefixes": [world.prefix], "foreign_records": 4}
    told = ask("kafka", "--brokers", world.broker.address, *topic, "batch", "list").stdout
    assert "the topic also has 4 records of other programs, which are left out" in told
    assert run_in(world, *topic, "batch", "show", world.prefix)["batch"]["state"] == "decided"
    found = run_in(world, *topic, "txn", "find-hanging")
    assert found["hanging"] == [], found
    run_in(world, *topic, "ledger", "copy", "--to", str(tmp_path / "back"))
    still_open.abort()


def run_in(world: World, *words: str) -> Any:
    done = ask("kafka", "--brokers", world.broker.address, *words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def ask(*words: str) -> Result:
    return CliRunner().invoke(main, list(words))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["batch", "list"], "there is no such topic"),
        (["batch", "list", "--znodes", "/x"], "exclude each other"),
        (["ledger", "copy"], "From where to where?"),
        (["ledger", "copy", "--from", "/a", "--to", "/b"], "From where to where?"),
    ],
)
def test_a_ledger_in_the_cluster_that_is_not_there_or_not_named_is_said(
    kafka: KafkaBroker, words: list[str], said: str
) -> None:
    done = ask("kafka", "--brokers", kafka.address, "--ledger-topic", fresh_name("none"), *words)

    assert done.exit_code == 2
    assert said in done.stderr
    assert ask("kafka", "--ledger-topic", "a b", "batch", "list").exit_code == 2


@pytest.mark.parametrize("at", range(3))
def test_the_cluster_is_named_before_or_after_each_word_of_a_command(
    world: World, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    monkeypatch.setenv("ONCELOG_KAFKA_BROKERS", "127.0.0.1:1")  # weaker than the option, wherever that stands
    words = ["txn", "list", "--json"]
    words[at:at] = ["--brokers", world.broker.address, "--config", "admin.request_timeout_ms=20000"]

    done = CliRunner().invoke(main, ["kafka", *words])

    assert done.exit_code == 0, done.output
    assert "transactions" in json.loads(done.stdout)


def test_settings_of_the_commands_client_are_taken_or_refused_by_name(world: World) -> None:
    def ask(setting: str) -> Result:
        words = ["kafka", "--brokers", world.broker.address, "--config", setting, "txn", "list"]
        return CliRunner().invoke(main, words)

    assert ask("admin.request_timeout_ms=20000").exit_code == 0
    assert ask("kafka.security.protocol=plaintext").exit_code == 0
    for setting, named in {
        "linger.ms=5": "linger.ms",
        "admin.client=other": "admin.client",
        "security.protocol=TLS": "kafka.security.protocol",
        "admin.not_there=1": "not_there",
        "admin.request_timeout_ms=soon": "admin.request_timeout_ms",
    }.items():
        done = ask(setting)
        assert done.exit_code == 2, done.output
        assert named in done.stderr
