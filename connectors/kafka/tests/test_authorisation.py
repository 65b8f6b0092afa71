"""Brokers that check who may do what: what a source and a sink need, and what they say when one of it is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from oncelog import metadata
from oncelog.batches.attempt import Batch, BatchReport
from oncelog.batches.offsets import GroupProgress
from oncelog.batches.rules import BatchRequest
from oncelog.batches.run import BatchDriver
from oncelog.errors import UsageError
from oncelog.ports import Create, ZnodeStore
from oncelog.testing.server_process import free_ports
from oncelog.types import TopicPartition
from oncelog.znodes.clock import wall_ms
from oncelog.znodes.replicated import store as replicated
from oncelog_kafka.brokers import Brokers, KafkaProducers, KafkaRequests, KafkaTransactions
from oncelog_kafka.brokers.producers import Row
from oncelog_kafka.errors import BrokerAccessError, BrokerUnavailableError
from oncelog_kafka.ledger import ledger_store, ledger_topic
from oncelog_kafka.operations import repair, saved_rows
from oncelog_kafka.operations.restore import Restored, Restoring
from oncelog_kafka.operations.saved_rows import Origin, SavedRows
from oncelog_kafka.options import admin_settings, sink_options
from oncelog_kafka.options.admin_settings import JavaClient
from oncelog_kafka.protocol.hanging import OpenInPartition
from oncelog_kafka.sinks.data_plane import SparkJob
from oncelog_kafka.sinks.target import KafkaTarget
from reads import Source
from tests.support.connectors.kafka_sink import committed, options, rows, values
from tests.support.servers.kafka import (
    TV2_VERSION,
    KafkaBroker,
    Transaction,
    fresh_name,
    require_broker,
    require_shims,
    send,
)

pytestmark = pytest.mark.sampled("access control lists")

USER, PASSWORD = "alice", 'se"cret'
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"

LOGIN = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": f'{PLAIN} username="{USER}" password="se\\"cret";',
}
WRONG_LOGIN = {**LOGIN, "kafka.sasl.jaas.config": f'{PLAIN} username="{USER}" password="guessed";'}

Right = tuple[Any, str, Any]
"""What is allowed: a kind of resource, what its name begins with, and the operation."""

TOPIC, GROUP, TRANSACTIONAL_ID = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
READ, WRITE, DESCRIBE = ACLOperation.READ, ACLOperation.WRITE, ACLOperation.DESCRIBE


class Guarded:
    """A broker at which a user may do what `allowed` says. The harness itself uses another door, and may do all."""

    def __init__(self, broker: KafkaBroker, address: str) -> None:
        self.broker = broker
        self.address = address

    @contextmanager
    def allowed(self, rights: Iterable[Right]) -> Iterator[None]:
        """Let the user do this, and nothing else, for the time of the block."""
        prefixed = ACLResourcePatternType.PREFIXED
        acls = [
            ACL(f"User:{USER}", "*", what, ACLPermissionType.ALLOW, ResourcePattern(kind, name, prefixed))
            for kind, name, what in rights
        ]
        resources = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
        everything = ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, resources)
        with self.broker.admin() as admin:
            admin.create_acls(acls)
        try:
            yield
        finally:
            with self.broker.admin() as admin:
                admin.delete_acls([everything])


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    require_broker()
    client, controller, door = free_ports(3)
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller},SASL://127.0.0.1:{door}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{client},SASL://127.0.0.1:{door}",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": PLAIN + f' user_{USER}="se\\\\"cret";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    broker = KafkaBroker(tmp_path_factory.mktemp("guarded"), version=TV2_VERSION, settings=settings, port=client)
    try:
        broker.start()
        broker.wait_until_serving()
        yield Guarded(broker, f"127.0.0.1:{door}")
    finally:
        broker.stop()


# The sink -------------------------------------------------------------------------------------------------------------


class Sink:
    """A sink of that user: one batch, with the offsets of a source."""

    def __init__(self, spark: SparkSession, guarded: Guarded, folder: Path) -> None:
        self.spark = spark
        self.guarded = guarded
        self.topic = guarded.broker.create_topic(fresh_name("out"))
        self.source = guarded.broker.create_topic(fresh_name("in"))
        self.prefix = f"{self.topic}.p"
        self.group = f"{self.topic}.g"
        self._store = metadata.open_metadata(str(folder / "ledger"))
        self._settings: dict[str, Any] = {
            **options(guarded.broker, folder, self.topic, transactionalIdPrefix=self.prefix, groupId=self.group),
            "kafka.bootstrap.servers": guarded.address,
        }

    @property
    def needs(self) -> list[Right]:
        """What docs/guides/kafka.md lists."""
        return [
            (TOPIC, self.topic, WRITE),
            (TRANSACTIONAL_ID, self.prefix, WRITE),
            (GROUP, f"oncelog-{self.prefix}", READ),
            (GROUP, self.group, READ),
            (TOPIC, self.topic, READ),
            (TOPIC, self.source, READ),
        ]

    def write(self, login: dict[str, str] = LOGIN) -> BatchReport:
        parsed = sink_options.parse({**self._settings, **login})
        brokers = Brokers(parsed.admin)
        try:
            batch = BatchRequest(self.prefix, "query", "sink", "run", 0, "fp", group_id=self.group)
            source = TopicPartition(self.source, 0)
            offsets = GroupProgress(self.group, {source: 0}, {source: 7})
            job = SparkJob(rows(self.spark, ["a", "b"]))
            return BatchDriver(KafkaTarget(self._store, brokers, parsed)).run(Batch(batch, job, offsets))
        finally:
            brokers.close()

    def close(self) -> None:
        self._store.close()


@pytest.fixture
def sink(spark: SparkSession, guarded: Guarded, tmp_path: Path) -> Iterator[Sink]:
    found = Sink(spark, guarded, tmp_path)
    yield found
    found.close()


def test_a_sink_that_may_do_what_the_docs_list_writes(sink: Sink) -> None:
    with sink.guarded.allowed(sink.needs):
        assert sink.write().rows == 2
    assert values(sink.guarded.broker, sink.topic) == ["a", "b"]
    assert committed(sink.guarded.broker, sink.group, sink.source) == {0: 7}


@pytest.mark.parametrize("missing", [0, 1, 2, 3, 4, 5])
def test_a_sink_without_one_of_these_rights_says_so_and_nothing_shows(sink: Sink, missing: int) -> None:
    rights = [right for number, right in enumerate(sink.needs) if number != missing]
    with sink.guarded.allowed(rights), pytest.raises(BrokerAccessError, match=r"(?i)authoriz|ACL|not allow"):
        sink.write()
    assert values(sink.guarded.broker, sink.topic) == []


def test_a_sink_with_a_wrong_password_says_so(sink: Sink) -> None:
    with pytest.raises((BrokerAccessError, BrokerUnavailableError), match=r"refuse the login|credentials") as error:
        sink.write({**WRONG_LOGIN, "admin.bootstrap_timeout_ms": "2000"})
    assert "guessed" not in str(error.value)


# The ledger's topic ---------------------------------------------------------------------------------------------------

LEDGER_RIGHTS = {
    "READ": ACLOperation.READ,
    "WRITE": ACLOperation.WRITE,
    "DELETE": ACLOperation.DELETE,
    "DESCRIBE_CONFIGS": ACLOperation.DESCRIBE_CONFIGS,
}
"""What docs/guides/kafka.md lists for a topic that exists."""


@pytest.fixture(params=["python", "java"])
def login(request: pytest.FixtureRequest) -> dict[str, str]:
    """Each of the driver's clients."""
    if request.param == "java":
        require_shims()
    return {**LOGIN, "admin.client": request.param}


def open_ledger(guarded: Guarded, topic: str, login: dict[str, str]) -> ZnodeStore:
    parsed = sink_options.parse({"kafka.bootstrap.servers": guarded.address, "ledgerTopic": topic, **login})
    return ledger_store.open_ledger(parsed.admin, parsed.ledger_topic)


def rights_on(topic: str, operations: Iterable[Any]) -> list[Right]:
    return [(TOPIC, topic, operation) for operation in operations]


def test_a_ledgers_topic_is_created_read_written_and_trimmed_with_the_rights_that_the_docs_list(
    guarded: Guarded, login: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicated, "SAVED_EVERY", 3)
    topic = fresh_name("ledger")
    with guarded.allowed(rights_on(topic, [*LEDGER_RIGHTS.values(), ACLOperation.CREATE])):
        with closing(open_ledger(guarded, topic, login)) as store:
            for number in range(9):
                store.multi([Create(f"/{number}")])
        with closing(open_ledger(guarded, topic, login)) as store:
            assert {str(number) for number in range(9)} <= set(store.children("/"))
    with closing(ledger_store.opened({"bootstrap_servers": [guarded.broker.address]}, topic)) as log:
        assert log.start() > 0


@pytest.mark.parametrize("missing", LEDGER_RIGHTS)
def test_a_right_on_the_ledgers_topic_that_is_missing_is_named(
    guarded: Guarded, login: dict[str, str], missing: str
) -> None:
    topic = guarded.broker.create_topic(fresh_name("ledger"))
    given = [operation for name, operation in LEDGER_RIGHTS.items() if name != missing]
    with guarded.allowed(rights_on(topic, given)), pytest.raises(BrokerAccessError, match="allow these") as refused:
        open_ledger(guarded, topic, login)
    assert refused.value.fields["missing"] == [missing]


def test_a_user_who_may_not_create_the_ledgers_topic_is_told_how_it_must_be_created(
    guarded: Guarded, login: dict[str, str]
) -> None:
    topic = fresh_name("ledger")
    with (
        guarded.allowed(rights_on(topic, LEDGER_RIGHTS.values())),
        pytest.raises(BrokerAccessError, match="this user cannot create it") as refused,
    ):
        open_ledger(guarded, topic, login)
    size = {"max.message.bytes": str(ledger_topic.MESSAGE_BYTES)}
    assert refused.value.fields["settings"] == {**ledger_topic.NEEDED, **size}

    with guarded.allowed([]), pytest.raises(BrokerAccessError, match="allow these") as refused:
        open_ledger(guarded, topic, login)
    assert refused.value.fields["missing"] == list(ledger_topic.RIGHTS)


# The source -----------------------------------------------------------------------------------------------------------


class Reader(Source):
    """A source of that user."""

    def __init__(self, spark: SparkSession, guarded: Guarded) -> None:
        self.topic = guarded.broker.create_topic(fresh_name("read"))
        self.group = f"{self.topic}.g"
        send(guarded.broker, self.topic, "a", "b")
        super().__init__(spark, guarded.broker, subscribe=self.topic, startingOffsets="earliest", **LOGIN)
        self.options["kafka.bootstrap.servers"] = guarded.address


@pytest.fixture
def reader(spark: SparkSession, guarded: Guarded) -> Reader:
    return Reader(spark, guarded)


def test_a_source_that_may_read_the_topic_reads(reader: Reader, guarded: Guarded, tmp_path: Path) -> None:
    with guarded.allowed([(TOPIC, reader.topic, READ)]):
        assert reader.values() == ["a", "b"]
        assert reader.available(tmp_path / "checkpoint") == [["a", "b"]]


def test_a_source_that_may_not_see_its_topic_names_it(reader: Reader, guarded: Guarded, tmp_path: Path) -> None:
    with guarded.allowed([]):
        with pytest.raises(Exception, match=rf"subscribe {reader.topic}.*TopicAuthorizationException"):
            reader.values()
        with pytest.raises(StreamingQueryException, match=rf"subscribe {reader.topic}.*TopicAuthorizationException"):
            reader.available(tmp_path / "checkpoint")


def test_a_source_that_may_only_look_at_its_topic_names_the_partition(reader: Reader, guarded: Guarded) -> None:
    with (
        guarded.allowed([(TOPIC, reader.topic, DESCRIBE)]),
        pytest.raises(Exception, match=rf"cannot be read.*partition={reader.topic}-0.*TopicAuthorizationException"),
    ):
        reader.values()


def test_a_source_that_may_not_use_its_group_names_it(reader: Reader, guarded: Guarded) -> None:
    with (
        guarded.allowed([(TOPIC, reader.topic, READ)]),
        pytest.raises(Exception, match=rf"group's offsets cannot be read.*GroupAuthorizationException.*{reader.group}"),
    ):
        reader.values(startingOffsets="group", groupId=reader.group)


def test_a_source_with_a_wrong_password_says_so_at_once(reader: Reader, guarded: Guarded) -> None:
    with pytest.raises(Exception, match=r"tries=1; cause: .*SaslAuthenticationException"):
        reader.values(**WRONG_LOGIN)


def test_a_query_whose_group_it_may_not_commit_to_reads_on(reader: Reader, guarded: Guarded, tmp_path: Path) -> None:
    with guarded.allowed([(TOPIC, reader.topic, READ)]):
        assert reader.available(tmp_path / "checkpoint", groupId=reader.group, maxOffsetsPerTrigger=1) == [["a"], ["b"]]


@pytest.mark.parametrize("missing", [None, "READ", "DESCRIBE_CONFIGS"])
def test_a_source_of_whole_batches_needs_to_read_the_ledger_and_its_settings(
    reader: Reader, guarded: Guarded, missing: str | None
) -> None:
    ledger = fresh_name("ledger")
    ledger_store.open_ledger({"bootstrap_servers": [guarded.broker.address]}, ledger).close()
    wanted = {"READ": ACLOperation.READ, "DESCRIBE_CONFIGS": ACLOperation.DESCRIBE_CONFIGS}
    rights = [(TOPIC, reader.topic, READ), *((TOPIC, ledger, one) for name, one in wanted.items() if name != missing)]
    whole = {"wholeBatches": True, "ledgerTopic": ledger}

    with guarded.allowed(rights):
        if missing is None:
            assert reader.values(**whole) == ["a", "b"]
        else:
            with pytest.raises(Exception, match=rf"BrokerAccessError: .*allow these.*{ledger}.*{missing}"):
                reader.values(**whole)


# Repair ---------------------------------------------------------------------------------------------------------------


def client_of(guarded: Guarded) -> dict[str, Any]:
    """Settings of that user's client."""
    login = {name.removeprefix("kafka."): value for name, value in LOGIN.items()}
    settings = admin_settings.derive({**login, "bootstrap.servers": guarded.address}, {})
    assert not isinstance(settings, JavaClient)
    return settings


def test_a_partition_that_may_not_be_read_is_named_and_a_marker_needs_alter_on_the_cluster(guarded: Guarded) -> None:
    topic = guarded.broker.create_topic(fresh_name("hanging"))
    settings = client_of(guarded)
    nothing = OpenInPartition(topic, 0, 1, 0, 0, 0, 0)
    with (
        guarded.allowed([(TOPIC, topic, DESCRIBE)]),
        closing(Brokers(settings)) as brokers,
        closing(KafkaProducers(settings)) as producers,
    ):
        found = repair.find(producers, brokers, None)
        with pytest.raises(BrokerAccessError, match="the right Alter on the cluster") as refused:
            repair.write_marker(producers, brokers, nothing, is_commit=False)

    assert found.hangs == ()
    assert found.not_asked == [(topic, 0, "TOPIC_AUTHORIZATION_FAILED")]
    assert refused.value.fields["topic"] == topic


def dropped(guarded: Guarded, folder: Path) -> SavedRows:
    """A file of a row that an abort dropped."""
    topic = guarded.broker.create_topic(fresh_name("dropped"))
    Transaction(guarded.broker).send(topic, "a").abort()
    with closing(KafkaProducers({"bootstrap_servers": guarded.broker.address})) as producers:
        row = next(one for one in producers.read(topic, 0, 0) if isinstance(one, Row))
        topic_id = producers.topic_id((topic, 0)) or ""
        origin = Origin(producers.cluster_id(), topic, topic_id, 0, row.offset, row.producer_id, row.epoch, wall_ms())
    path = folder / "saved.avro"
    saved_rows.save(path, origin, [row])
    return saved_rows.load(path)


def restore(guarded: Guarded, saved: SavedRows) -> Restored:
    settings = client_of(guarded)
    with (
        closing(Brokers(settings)) as brokers,
        closing(KafkaProducers(settings)) as producers,
        closing(KafkaRequests(settings)) as requests,
    ):
        return Restoring(producers, brokers, KafkaTransactions(requests)).restore(saved)


@pytest.mark.parametrize("missing", [None, "READ", "WRITE", "id", "group", "settings"])
def test_a_restore_needs_what_the_guide_lists(guarded: Guarded, missing: str | None, tmp_path: Path) -> None:
    saved = dropped(guarded, tmp_path)
    topic = saved.origin.topic
    rights = {
        "READ": (TOPIC, topic, READ),
        "WRITE": (TOPIC, topic, WRITE),
        "id": (TRANSACTIONAL_ID, "oncelog-restore-", WRITE),
        "group": (GROUP, "oncelog-restore-", READ),
        "settings": (ResourceType.CLUSTER, "kafka-cluster", ACLOperation.DESCRIBE_CONFIGS),
    }

    with guarded.allowed(right for name, right in rights.items() if name != missing):
        if missing is None:
            assert restore(guarded, saved).is_ours
        else:
            with pytest.raises(UsageError if missing == "settings" else BrokerAccessError):
                restore(guarded, saved)

    assert values(guarded.broker, topic) == ([] if missing else ["a"])
