"""A real Kafka broker on this machine, from Maven's jars. Needs Java, and Maven for the first start of a version.

    with running_broker(tmp_path) as broker:
        broker.create_topic("flights", partitions=4)
        spark.readStream.format("oncelog-kafka").option("kafka.bootstrap.servers", broker.address)

It is for tests and trials: broker and controller are one process, which listens on 127.0.0.1 without authentication and
keeps one copy of everything. So its data survives a kill of the process, but not a power failure.
"""

from __future__ import annotations

import socket
import subprocess
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import md5
from pathlib import Path
from typing import TYPE_CHECKING

from oncelog.signatures import checked
from oncelog.testing import maven
from oncelog.testing.server_process import STARTED_WITHIN_S, ServerFailedError, ServerProcess, free_ports, java_for

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

DEFAULT_VERSION = "4.2.2"
"""The newest release that is safe for a single broker. 4.3.0 to 4.4.0 can leave out the markers of transactions that
end while the broker restarts (KAFKA-20734); rows that were committed then stay invisible."""

TV2_VERSION = "4.4.0"
"""The newest version with KIP-890 part 2: every transaction has its own epoch."""

TV1_VERSION = "3.9.2"
"""The last release line without it."""

TV1_FEATURES = ("transaction.version=1",)
"""Formats a newer broker so that its transactions work as in `TV1_VERSION`."""

_SERVER = "kafka"
_PAUSE_S = 0.05

_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    # A broker that was killed can only come back after its old session, by default 30 seconds.
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "200",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    # How often to look for transactions that timed out; by default every ten seconds.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "log.cleaner.dedupe.buffer.size": "2097152",  # the default of 128 MB does not fit into the small heap
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
"""For a small and fast broker. A version ignores settings that it does not know."""

_JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")

_LOGGING = """\
log4j.rootLogger=ERROR, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
"""
"""For 3.x; 4.x prints errors by itself."""


class KafkaBroker(ServerProcess):
    """One broker process that listens on 127.0.0.1. Ctrl-C in the terminal does not end it; call `stop`.

    Args:
        folder: for its configuration, data and output.
        version: of Kafka, as in Maven.
        settings: further settings of the broker; they override those of this module.
        features: to format it with, such as `TV1_FEATURES`; the version's defaults if not given.
        port: for clients; a free one if not given. It stays the same after a restart.
        java: further options for its JVM.
    """

    kind = "broker"

    @checked
    def __init__(
        self,
        folder: Path,
        *,
        version: str = DEFAULT_VERSION,
        settings: Mapping[str, str] | None = None,
        features: Sequence[str] = (),
        port: int | None = None,
        java: Sequence[str] = (),
    ) -> None:
        super().__init__(folder)
        self.version = version
        client_port, controller_port = free_ports(2)
        self.port = port or client_port
        self._features = features
        self._java = java
        listeners = f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{controller_port}"
        self._settings = {
            **_SETTINGS,
            "listeners": listeners,
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
            "log.dirs": str(folder / "data"),
            **(settings or {}),
        }
        folder.mkdir(parents=True, exist_ok=True)
        self._write_settings()
        (folder / "log4j.properties").write_text(_LOGGING)

    def __repr__(self) -> str:
        return f"KafkaBroker({self.address!r}, version={self.version!r})"

    @property
    def address(self) -> str:
        """The broker's ``host:port``, for ``bootstrap.servers``."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the process without waiting until it answers; the first start formats its folder.

        Raises:
            UsageError: there is no Java, or the version's jars are missing and there is no Maven.
            ServerFailedError: the folder could not be formatted, or Maven failed.
        """
        if not (self.folder / "data" / "meta.properties").exists():
            self._format()
        self._launch([*self._java_command(), *self._java, "kafka.Kafka", str(self._settings_file)])

    def is_serving(self) -> bool:
        """Whether the broker answers clients, and has registered itself so that topics can be created."""
        from kafka.errors import KafkaError

        # kafka-python never closes the sockets of refused connections, so first wait until somebody listens.
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=2).close()
        except OSError:
            return False
        with suppress(KafkaError), self.admin(request_timeout_ms=2_000) as admin:
            return len(admin.describe_cluster()["brokers"]) > 0
        return False

    @contextmanager
    def admin(self, **settings: object) -> Iterator[KafkaAdminClient]:
        """kafka-python's admin client, open during the block."""
        from kafka.admin import KafkaAdminClient

        client = KafkaAdminClient(bootstrap_servers=self.address, **settings)
        try:
            yield client
        finally:
            client.close()

    @checked
    def create_topic(self, name: str, *, partitions: int = 1, **settings: str) -> str:
        """Create a topic and return its name.

        Args:
            settings: of the topic, with underscores for dots: ``retention_ms="1000"``.
        """
        from kafka.admin import NewTopic

        configs = {key.replace("_", "."): value for key, value in settings.items()}
        with self.admin() as admin:
            admin.create_topics([NewTopic(name, partitions, 1, topic_configs=configs)])
        return name

    @checked
    def delete_topic(self, name: str) -> None:
        """Delete a topic; the broker finishes this a moment after the call returns."""
        with self.admin() as admin:
            admin.delete_topics([name])

    @checked
    def delete_records(self, topic: str, partition: int, *, before: int) -> None:
        """Move the start of a partition's log to offset `before`, as retention does."""
        from kafka.structs import TopicPartition

        with self.admin() as admin:
            admin.delete_records({TopicPartition(topic, partition): before})

    @checked
    def create_partitions(self, topic: str, count: int) -> None:
        """Add partitions to a topic, so that it has `count`."""
        with self.admin() as admin:
            admin.create_partitions({topic: count})

    @checked
    def group_offsets(self, group_id: str) -> dict[tuple[str, int], int]:
        """The offsets that a consumer group has committed, by topic and partition."""
        with self.admin() as admin:
            found = admin.list_group_offsets(group_id)[group_id]
        return {(p.topic, p.partition): committed.offset for p, committed in found.items()}

    @checked
    def commit_group_offset(
        self, group_id: str, topic: str, partition: int, *, offset: int, metadata: str = ""
    ) -> None:
        """Commit an offset to a consumer group that has no members.

        Args:
            group_id: the group; it does not have to exist.
            offset: the next offset to read.
            metadata: a text that is kept with the offset.
        """
        from kafka.errors import KafkaError, NoError
        from kafka.structs import OffsetAndMetadata, TopicPartition

        wanted = {TopicPartition(topic, partition): OffsetAndMetadata(offset, metadata, -1)}
        deadline_s = time.monotonic() + STARTED_WITHIN_S
        with self.admin() as admin:
            while True:
                try:
                    (answer,) = admin.alter_group_offsets(group_id, wanted).values()
                    if answer is NoError:
                        return
                    raise answer(f"the offset of {group_id} was not committed")
                except KafkaError as error:  # a new broker has no group coordinator until the first request
                    if not error.retriable or time.monotonic() > deadline_s:
                        raise
                time.sleep(_PAUSE_S)

    @checked
    def change_settings(self, settings: Mapping[str, str]) -> None:
        """Change settings of the broker from the next start on."""
        self._settings.update(settings)
        self._write_settings()

    @property
    def _settings_file(self) -> Path:
        return self.folder / "server.properties"

    def _write_settings(self) -> None:
        self._settings_file.write_text("".join(f"{key}={value}\n" for key, value in self._settings.items()))

    def _format(self) -> None:
        features = [word for feature in self._features for word in ("--feature", feature)]
        command = [*self._java_command(), "kafka.tools.StorageTool", "format", "--cluster-id", self._cluster_id()]
        done = subprocess.run(
            [*command, "--config", str(self._settings_file), *features],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ServerFailedError(f"the broker's folder cannot be formatted:\n{done.stdout}{done.stderr}")

    def _cluster_id(self) -> str:
        """An id of the cluster's own: its brokers have the same controller, and no other broker that runs has it."""
        voters = md5(self._settings["controller.quorum.voters"].encode(), usedforsecurity=False).digest()
        return urlsafe_b64encode(voters).decode().rstrip("=").replace("-", "A")

    def _java_command(self) -> list[str]:
        logging = (
            [f"-Dlog4j.configuration=file:{self.folder}/log4j.properties"] if self.version.startswith("3.") else []
        )
        return [java_for("a Kafka broker"), *_JVM, *logging, "-cp", f"{broker_jars(self.version)}/*"]


@checked
@contextmanager
def running_broker(
    folder: Path,
    *,
    version: str = DEFAULT_VERSION,
    settings: Mapping[str, str] | None = None,
    features: Sequence[str] = (),
) -> Iterator[KafkaBroker]:
    """A broker that runs during the block. For the arguments see `KafkaBroker`."""
    with KafkaBroker(folder, version=version, settings=settings, features=features).running() as broker:
        yield broker


@checked
def broker_jars(version: str) -> Path:
    """The folder with the jars of a broker; Maven downloads them on the first call.

    Raises:
        UsageError: the jars are missing and there is no Maven.
        ServerFailedError: Maven could not download them.
    """
    kafka = [("org.apache.kafka", "kafka_2.13", version), ("org.apache.kafka", "kafka-tools", version)]
    # 4.x logs through a facade without an implementation, so its errors would be lost.
    logging = [] if version.startswith("3.") else [("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")]
    return maven.jars(_SERVER, version, [*kafka, *logging])


@checked
def has_jars(version: str) -> bool:
    """Whether a broker's jars are present, so that it starts without Maven."""
    return maven.kept_jars(_SERVER, version).is_dir()
