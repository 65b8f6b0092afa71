"""Derives the settings of the driver's Kafka client from those of the tasks' client, which is Java's. Pure.

The driver uses kafka-python if that can do all that the options say, because it needs no other process. Otherwise, and
for any setting that is not known here, it uses Java's client as the tasks do (control/), with the tasks' settings.
`needs_java` decides which.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from oncelog.errors import InvalidOptionError
from oncelog.spark.kit import values
from oncelog.spark.kit.options import STREAMING_SINKS, Option

KAFKA = "kafka."
ADMIN = "admin."


_SERVER = re.compile(r"(?:[0-9A-Za-z._%-]*://)?(?P<server>(?:\[[0-9A-Fa-f:.%]+\]|[0-9A-Za-z._%-]+):[0-9]{1,5})")
"""As Kafka's client reads it: a protocol before the host has no meaning, and there is no user."""


def _servers(text: str) -> list[str]:
    found = [_SERVER.fullmatch(one) for one in listed(text)]
    if not found or None in found:
        raise ValueError("brokers as host:port, such as host:9092,other:9092")
    return [one["server"] for one in found if one is not None]


def listed(text: str) -> list[str]:
    """The items of a list, each once; there may be a comma too much, as older clients of Kafka allowed."""
    return list(dict.fromkeys(one.strip() for one in text.split(",") if one.strip()))


SERVERS = Option(
    "kafka.bootstrap.servers",
    STREAMING_SINKS,
    _servers,
    "The brokers: `host:port,host:port`.",
    default_doc="required",
)

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def _protocol(given: str) -> str:
    found = given.strip().upper()  # as Java's client does
    if found not in _PROTOCOLS:
        raise ValueError(f"one of {', '.join(_PROTOCOLS)}")
    return found


_PROTOCOL = Option("kafka.security.protocol", STREAMING_SINKS, _protocol, "", default=_PROTOCOLS[0])

_DIRECT = {
    "bootstrap.servers": "bootstrap_servers",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "client.id": "client_id",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
}
"""From settings of the Java client to their names in kafka-python."""

_TLS = frozenset({"ssl.truststore.type", "ssl.truststore.location", "ssl.endpoint.identification.algorithm"})

_JAAS = "sasl.jaas.config"

_PROVIDERS = "config.providers"
"""Names who replaces `${...}` in other settings. Only Kafka's client can do that, where it is created."""

CONNECTION = frozenset(_DIRECT)
"""Settings of the Java client that say how to connect, together with those that begin with one of these prefixes:"""

CONNECTION_PREFIXES = ("ssl.", "sasl.", "config.", "security.")

_JAAS_WORD = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';]+))""")
"""One ``name=value`` of a JAAS login: the value in quotes of either kind, or without quotes, as Java reads it."""

_CREDENTIALS = ("sasl_plain_username", "sasl_plain_password")


CLIENT, JARS = "client", "jars"
"""Under `ADMIN`: which client the driver uses, and additional jars for the class path of Java's client."""

JVM_PROPERTIES = ("java.security.auth.login.config", "java.security.krb5.conf")
"""Under `ADMIN`: system properties of Java's client, which name the files with its login. Spark's JVM has the same."""

_BOOTSTRAP = "bootstrap_timeout_ms"

CONNECT_TIMEOUT_MS = 30_000
"""How long the first broker may take to answer; the same as in kafka-python."""

_OF_JAVA = frozenset({CLIENT, JARS, *JVM_PROPERTIES})
"""Settings of the driver's client that kafka-python does not know."""

_OF_EITHER = _OF_JAVA | {_BOOTSTRAP}
"""Settings that either client of the driver accepts."""

_FOR_TASKS = frozenset(
    re.findall(
        r"\S+",
        """
        acks allow.auto.create.topics auto.commit.interval.ms auto.offset.reset batch.size buffer.memory
        buffer.memory.allocation.strategy check.crcs client.rack compression.gzip.level compression.lz4.level
        compression.type compression.zstd.level connections.max.idle.ms default.api.timeout.ms
        delivery.timeout.ms enable.auto.commit enable.idempotence enable.metrics.push exclude.internal.topics
        fetch.max.bytes fetch.max.wait.ms fetch.min.bytes group.id group.instance.id heartbeat.interval.ms
        isolation.level linger.ms max.block.ms max.in.flight.requests.per.connection max.partition.fetch.bytes
        max.poll.interval.ms max.poll.records max.request.size metadata.max.age.ms metadata.max.idle.ms
        metric.reporters metrics.num.samples metrics.recording.level metrics.sample.window.ms
        partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.ignore.keys
        partitioner.rack.aware receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms
        request.timeout.ms retries retry.backoff.max.ms retry.backoff.ms send.buffer.bytes session.timeout.ms
        socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms transaction.timeout.ms
        transactional.id
        """,
    )
)
"""Settings of the Java client that tune the tasks' clients, and do not change who can connect, or how."""

_PYTHONS_MECHANISMS = re.compile("PLAIN|SCRAM-SHA-(256|512)")

_PYTHONS_MODULES = re.compile(
    r"\s*(kafkashaded\.)?org\.apache\.kafka\.common\.security\.(plain\.Plain|scram\.Scram)LoginModule\s"
)
"""The login modules of these mechanisms: all that they do with username and password is to hand them on."""

_TOKENAUTH = re.compile(r"""tokenauth\s*=\s*["']?true""", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class JavaClient:
    """Settings of a driver's client that is Java's.

    Attributes:
        settings: names without ``kafka.``.
        jars: additional jars for its class path.
        properties: system properties of its JVM.
        connect_timeout_ms: how long the first broker may take to answer.
    """

    settings: Mapping[str, str] = field(repr=False)
    jars: tuple[str, ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    connect_timeout_ms: int = CONNECT_TIMEOUT_MS


def needs_java(kafka: Mapping[str, str], admin: Mapping[str, str]) -> bool:
    """Whether the driver's client must be Java's: if kafka-python is not known to do all that these settings say.

    ``admin.client`` overrides this. Any setting that only kafka-python has chooses kafka-python.

    Args:
        kafka: settings of the Java client, without ``kafka.``.
        admin: settings of the driver's client, without ``admin.``.
    """
    if CLIENT in admin:
        choice = Option(ADMIN + CLIENT, STREAMING_SINKS, values.choice("java", "python"), "").value(admin[CLIENT])
        return bool(choice == "java")
    if admin.keys() - _OF_EITHER:
        return False
    protocol = _PROTOCOL.value(kafka.get("security.protocol"))
    login = {name for name in kafka if name.startswith("sasl.")}
    stores = {name for name in kafka if name.startswith("ssl.")}
    others = kafka.keys() - login - stores - _DIRECT.keys() - _FOR_TASKS
    return (
        bool(others)
        or (protocol.startswith("SASL") and not _is_pythons_login(kafka, login))
        or (protocol.endswith("SSL") and not _are_pythons_stores(kafka, stores))
    )


def _is_pythons_login(kafka: Mapping[str, str], given: set[str]) -> bool:
    mechanism = kafka.get("sasl.mechanism", "GSSAPI").strip().upper()
    return (
        _PYTHONS_MECHANISMS.fullmatch(mechanism) is not None
        and given == {"sasl.mechanism", _JAAS}
        and _PYTHONS_MODULES.match(kafka[_JAAS]) is not None
        and set(_CREDENTIALS) == _login(kafka[_JAAS]).keys()
    )


def _are_pythons_stores(kafka: Mapping[str, str], given: set[str]) -> bool:
    is_pem_file = "ssl.truststore.location" in kafka and kafka.get("ssl.truststore.type", "").upper() == "PEM"
    return given <= (_TLS if is_pem_file else {"ssl.endpoint.identification.algorithm"})


def derive(kafka: Mapping[str, str], admin: Mapping[str, str]) -> dict[str, Any] | JavaClient:
    """The settings of the driver's client that correspond to these settings of the tasks' client.

    Args:
        kafka: settings of the Java client, without ``kafka.``.
        admin: settings of the driver's client, without ``admin.``; they override what is derived.

    Raises:
        InvalidOptionError: a value is malformed, or a login names no username and password, or uses a delegation token.
    """
    if _TOKENAUTH.search(kafka.get(_JAAS, "")):
        raise InvalidOptionError(
            "delegation tokens are not supported, because they expire while a batch is in doubt; log in as a user",
            option=KAFKA + _JAAS,
        )
    _PROTOCOL.value(kafka.get("security.protocol"))  # checked for either client
    given = {name: _python_value(name, text) for name, text in admin.items()}
    if not needs_java(kafka, admin):
        return _of_kafka_python(kafka, {name: one for name, one in given.items() if name not in _OF_JAVA})
    if _PROVIDERS not in kafka:
        SERVERS.value(kafka["bootstrap.servers"])
    jars = tuple(one.strip() for one in admin.get(JARS, "").split(",") if one.strip())
    properties = tuple((name, admin[name]) for name in JVM_PROPERTIES if name in admin)
    return JavaClient(dict(kafka), jars, properties, int(given.get(_BOOTSTRAP, CONNECT_TIMEOUT_MS)))


def _of_kafka_python(kafka: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of kafka-python that correspond to Java's, overridden by `given`."""
    settings: dict[str, Any] = {_DIRECT[name]: text for name, text in kafka.items() if name in _DIRECT}
    settings["bootstrap_servers"] = SERVERS.value(kafka["bootstrap.servers"])
    if "security_protocol" in settings:
        settings["security_protocol"] = _PROTOCOL.value(settings["security_protocol"])
    settings.update(_login(kafka.get(_JAAS, "")))
    if kafka.get("ssl.truststore.type", "").upper() == "PEM" and "ssl.truststore.location" in kafka:
        settings["ssl_cafile"] = kafka["ssl.truststore.location"]
    if kafka.get("ssl.endpoint.identification.algorithm") == "":
        settings["ssl_check_hostname"] = False
    settings.update(given)
    mechanism = str(settings.get("sasl_mechanism", ""))
    if _JAAS in kafka and re.match("PLAIN|SCRAM-", mechanism) and not all(name in settings for name in _CREDENTIALS):
        raise InvalidOptionError(
            "the driver's client finds no username and password in the login; write them as "
            'username="..." password="...", or set admin.sasl_plain_username and admin.sasl_plain_password',
            option=KAFKA + _JAAS,
            sasl_mechanism=mechanism,
        )
    return settings


def _login(jaas: str) -> dict[str, str]:
    """Username and password of a JAAS login, if it has them."""
    words = {name: "".join(values) for name, *values in _JAAS_WORD.findall(jaas)}
    return {
        f"sasl_plain_{name}": re.sub(r"\\(.)", r"\1", words[name]) for name in ("username", "password") if name in words
    }


_NUMBER = re.compile(r".+(_ms|_bytes|_samples|_per_connection)")
_FLAG = "ssl_check_hostname"


def _python_value(name: str, text: str) -> str | int | bool:
    """A setting with the type that kafka-python expects; a password of digits must stay text."""
    parse = _number if _NUMBER.fullmatch(name) else values.boolean if name == _FLAG else str
    value: str | int | bool = Option(ADMIN + name, STREAMING_SINKS, parse, "").value(text)
    return value


def _number(text: str) -> int:
    if not re.fullmatch(r"\s*-?[0-9]{1,18}\s*", text):
        raise ValueError("a whole number")
    return int(text)
