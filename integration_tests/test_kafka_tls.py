"""Brokers that speak TLS only, know their clients by certificate and password, and are used by the same options."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker
import pytest

from integration_tests.certificates import Authority
from integration_tests.engine import KAFKA_IMAGE
from integration_tests.kafka_copying import kafka_copying
from integration_tests.kafka_servers import Kafka, running_kafka
from tests.support.harness.parts import require_java
from tests.support.servers.kafka import require_shims
from tests.support.spark import spark_home

COUNT = 1_000
USER = "alice"
PASSWORD, KEY_PASSWORD = "hidden-of-alice", "hidden-of-the-key"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"

LOGGING = """\
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {file}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %p %c: %m%n%ex
"""
"""Of Spark, which shows no more than warnings on the console of a Python program."""


class Door:
    """What a broker and its clients need to know of each other.

    Args:
        folder: for the client's files.
    """

    def __init__(self, folder: Path) -> None:
        self._authority = Authority("the authority")
        self._authority_file = folder / "authority.pem"
        self._authority_file.write_text(self._authority.certificate)
        client = self._authority.sign(USER, password=KEY_PASSWORD)
        self._client_file = folder / "client.pem"
        self._client_file.write_text(client.key + client.certificate)
        self._client_store = folder / "client.p12"
        self._client_store.write_bytes(client.store)

    @contextmanager
    def opened(self, engine: docker.DockerClient) -> Iterator[Kafka]:
        """A broker behind it."""
        server = self._authority.sign("the broker")
        settings = {
            "sasl.enabled.mechanisms": "PLAIN",
            **_of_listener(
                {
                    "plain.sasl.jaas.config": f'{PLAIN} user_{USER}="{PASSWORD}";',
                    "ssl.client.auth": "required",
                    "ssl.keystore.type": "PEM",
                    "ssl.keystore.key": server.key,
                    "ssl.keystore.certificate.chain": server.certificate,
                    "ssl.truststore.type": "PEM",
                    "ssl.truststore.certificates": self._authority.certificate,
                }
            ),
        }
        more = {"client": self.of_librdkafka(), "admin": self.of_kafka_python()}
        with running_kafka(engine, KAFKA_IMAGE, security="SASL_SSL", settings=settings, **more) as kafka:
            yield kafka

    def of_the_connector(self) -> dict[str, str]:
        """The options for source and sink: Java reads the key store, the driver's own client the PEM file."""
        return {
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.jaas.config": f'{PLAIN} username="{USER}" password="{PASSWORD}";',
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(self._authority_file),
            "kafka.ssl.keystore.type": "PKCS12",
            "kafka.ssl.keystore.location": str(self._client_store),
            "kafka.ssl.keystore.password": KEY_PASSWORD,
            "admin.ssl_certfile": str(self._client_file),
            "admin.ssl_password": KEY_PASSWORD,
        }

    def of_librdkafka(self) -> dict[str, str]:
        return {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(self._authority_file),
            "ssl.certificate.location": str(self._client_file),
            "ssl.key.location": str(self._client_file),
            "ssl.key.password": KEY_PASSWORD,
        }

    def of_kafka_python(self) -> dict[str, Any]:
        return {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": USER,
            "sasl_plain_password": PASSWORD,
            "ssl_cafile": str(self._authority_file),
            "ssl_certfile": str(self._client_file),
            "ssl_password": KEY_PASSWORD,
        }


def _of_listener(settings: dict[str, str]) -> dict[str, str]:
    """Settings of the clients' listener, each on one line: PEM takes any white space."""
    return {f"listener.name.client.{name}": value.replace("\n", " ") for name, value in settings.items()}


@pytest.fixture(autouse=True)
def _needs_java() -> None:
    require_java()
    require_shims()


def test_a_copy_over_tls_is_exact_and_its_secrets_show_nowhere(engine: docker.DockerClient, tmp_path: Path) -> None:
    """Neither in the log, however much of it there is, nor in plans, progress, events, checkpoint, ledger or errors."""
    door, stranger = (Door(_made(tmp_path / name)) for name in ("door", "stranger"))
    events = _made(tmp_path / "events")
    logging = tmp_path / "log4j2.properties"
    log = tmp_path / "log"
    logging.write_text(LOGGING.format(file=log))
    spark = {
        "spark.log.level": "INFO",
        "spark.driver.extraJavaOptions": f"{spark_home.jvm_options()} -Dlog4j2.configurationFile={logging}",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{events}",
    }
    folder = _made(tmp_path / "copy")
    with door.opened(engine) as kafka, kafka_copying(kafka, folder, client=door.of_the_connector()) as copy:
        copy.start(spark=spark)
        copy.feed(COUNT)
        copy.wait_until_copied()
        copy.finish()
        copy.assert_exact()
        assert "ProducerConfig values" in log.read_text()
        assert any(events.iterdir())

        copy.start(spark=spark, client=stranger.of_the_connector())
        copy.wait_for_errors()
        assert "SSL handshake failed" in copy.output.read_text()

    shown = [file for file in tmp_path.rglob("*") if file.is_file() and _shows_secret(file)]
    assert shown == [copy.settings]


def _shows_secret(file: Path) -> bool:
    content = file.read_bytes()
    return any(secret.encode() in content for secret in (PASSWORD, KEY_PASSWORD))


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder
