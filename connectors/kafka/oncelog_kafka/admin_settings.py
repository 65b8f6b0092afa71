"""The driver's client, told what the tasks' client, Java's, was told: settings from settings. Pure.

kafka-python serves wherever it can do what the options say: it needs no other process. Where it cannot, the driver has
Java's client too (control.py), with the tasks' own settings. `needs_java` decides that.
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


def _servers(text: str) -> list[str]:
    servers = [one.strip() for one in text.split(",") if one.strip()]
    if not servers or not all(re.fullmatch(r".+:[0-9]{1,5}", one) for one in servers):
        raise ValueError("the brokers, like host:9092,other:9092")
    return servers


SERVERS = Option(
    "kafka.bootstrap.servers",
    STREAMING_SINKS,
    _servers,
    "The brokers: `host:port,host:port`.",
    default_doc="required",
)

_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def _protocol(given: str) -> str:
    found = given.strip().upper()  # as Java's client takes it
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
"""Settings of the Java client that kafka-python has under another name."""

_TLS = frozenset({"ssl.truststore.type", "ssl.truststore.location", "ssl.endpoint.identification.algorithm"})

_JAAS = "sasl.jaas.config"

CONNECTION = frozenset(_DIRECT)
"""Settings of the Java client that say which cluster, and as whom. So do those that begin with these:"""

CONNECTION_PREFIXES = ("ssl.", "sasl.")

_JAAS_WORD = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';]+))""")
"""A word of a login: in quotes of either kind, or bare, as Java reads them."""

_CREDENTIALS = ("sasl_plain_username", "sasl_plain_password")


CLIENT, JARS = "client", "jars"
"""Below `ADMIN`: which client the driver uses, and what the class path of Java's has in addition."""

_BOOTSTRAP = "bootstrap_timeout_ms"

CONNECT_TIMEOUT_MS = 30_000
"""How long the first broker may take to answer, as with kafka-python."""

_OF_EITHER = frozenset({CLIENT, JARS, _BOOTSTRAP})
"""Settings of the driver's client that do not ask for kafka-python."""

_PYTHONS_MECHANISMS = re.compile("PLAIN|SCRAM-SHA-(256|512)")

_HANDLERS = ("sasl.login.class", "sasl.login.callback.handler.class", "sasl.client.callback.handler.class")

_TOKENAUTH = re.compile(r"""tokenauth\s*=\s*["']?true""", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class JavaClient:
    """The driver's client is Java's.

    Attributes:
        settings: of it, without ``kafka.``.
        jars: what its class path has in addition.
        connect_timeout_ms: how long the first broker may take to answer.
    """

    settings: Mapping[str, str] = field(repr=False)
    jars: tuple[str, ...] = ()
    connect_timeout_ms: int = CONNECT_TIMEOUT_MS


def needs_java(kafka: Mapping[str, str], admin: Mapping[str, str]) -> bool:
    """Whether the driver's client must be Java's: kafka-python cannot do what these settings say.

    ``admin.client`` decides where it is given, and settings of kafka-python's own choose kafka-python.

    Args:
        kafka: of the Java client, without ``kafka.``.
        admin: of the driver's client, without ``admin.``.
    """
    if CLIENT in admin:
        choice = Option(ADMIN + CLIENT, STREAMING_SINKS, values.choice("java", "python"), "").value(admin[CLIENT])
        return bool(choice == "java")
    if admin.keys() - _OF_EITHER:
        return False
    protocol = _PROTOCOL.value(kafka.get("security.protocol"))
    return (protocol.endswith("SSL") and _has_javas_stores(kafka)) or (
        protocol.startswith("SASL") and _has_javas_login(kafka)
    )


def _has_javas_stores(kafka: Mapping[str, str]) -> bool:
    is_pem_file = "ssl.truststore.location" in kafka and kafka.get("ssl.truststore.type", "").upper() == "PEM"
    given = {name for name in kafka if name.startswith("ssl.")}
    return bool(given - (_TLS if is_pem_file else {"ssl.endpoint.identification.algorithm"}))


def _has_javas_login(kafka: Mapping[str, str]) -> bool:
    mechanism = kafka.get("sasl.mechanism", "GSSAPI").strip().upper()
    return not _PYTHONS_MECHANISMS.fullmatch(mechanism) or any(name in kafka for name in _HANDLERS)


def derive(kafka: Mapping[str, str], admin: Mapping[str, str]) -> dict[str, Any] | JavaClient:
    """The settings of the driver's client that these settings of the tasks' client amount to.

    Args:
        kafka: of the Java client, without ``kafka.``.
        admin: of the driver's client, without ``admin.``; they come before what is derived.

    Raises:
        InvalidOptionError: a value is malformed, a login names no user and password, or is a delegation token.
    """
    if _TOKENAUTH.search(kafka.get(_JAAS, "")):
        raise InvalidOptionError(
            "delegation tokens are not supported, because they expire while a batch is in doubt; log in as a user",
            option=KAFKA + _JAAS,
        )
    _PROTOCOL.value(kafka.get("security.protocol"))  # whichever client it is for
    given = {name: _python_value(name, text) for name, text in admin.items()}
    if not needs_java(kafka, admin):
        return _of_kafka_python(kafka, {name: one for name, one in given.items() if name not in {CLIENT, JARS}})
    SERVERS.value(kafka["bootstrap.servers"])
    jars = tuple(one.strip() for one in admin.get(JARS, "").split(",") if one.strip())
    return JavaClient(dict(kafka), jars, int(given.get(_BOOTSTRAP, CONNECT_TIMEOUT_MS)))


def _of_kafka_python(kafka: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of kafka-python, as far as those of Java have a counterpart."""
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
            "the login names no username and password that the driver's client finds; write them as "
            'username="..." password="...", or give admin.sasl_plain_username and admin.sasl_plain_password',
            option=KAFKA + _JAAS,
            sasl_mechanism=mechanism,
        )
    return settings


def _login(jaas: str) -> dict[str, str]:
    """User and password of a login in Java's form, as far as it has them."""
    words = {name: "".join(values) for name, *values in _JAAS_WORD.findall(jaas)}
    return {
        f"sasl_plain_{name}": re.sub(r"\\(.)", r"\1", words[name]) for name in ("username", "password") if name in words
    }


_NUMBER = re.compile(r".+(_ms|_bytes|_samples|_per_connection)")
_FLAG = "ssl_check_hostname"


def _python_value(name: str, text: str) -> str | int | bool:
    """A setting of kafka-python, which tells numbers from texts: a password of digits is none."""
    parse = _number if _NUMBER.fullmatch(name) else values.boolean if name == _FLAG else str
    value: str | int | bool = Option(ADMIN + name, STREAMING_SINKS, parse, "").value(text)
    return value


def _number(text: str) -> int:
    if not re.fullmatch(r"\s*-?[0-9]{1,18}\s*", text):
        raise ValueError("a whole number")
    return int(text)
