"""The driver's client, kafka-python's, told what the tasks' client, Java's, was told: settings from settings. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
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

HAVE_COUNTERPARTS = frozenset({*_DIRECT, *_TLS, _JAAS})
"""Settings of the Java client that kafka-python has a use for."""

_JAAS_WORD = re.compile(r"""(\w+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';]+))""")
"""A word of a login: in quotes of either kind, or bare, as Java reads them."""

_CREDENTIALS = ("sasl_plain_username", "sasl_plain_password")


def derive(kafka: Mapping[str, str], admin: Mapping[str, str]) -> dict[str, Any]:
    """The settings of kafka-python that these settings of the Java client amount to, as far as they have a counterpart.

    Key stores have none: kafka-python reads PEM files, named by ``admin.ssl_cafile`` and the like.

    Args:
        kafka: of the Java client, without ``kafka.``.
        admin: of kafka-python, without ``admin.``; they come before what is derived.

    Raises:
        InvalidOptionError: a value is malformed, or a login names no user and password.
    """
    settings: dict[str, Any] = {_DIRECT[name]: text for name, text in kafka.items() if name in _DIRECT}
    settings["bootstrap_servers"] = SERVERS.value(kafka["bootstrap.servers"])
    if "security_protocol" in settings:
        settings["security_protocol"] = settings["security_protocol"].strip().upper()  # as Java's client takes it
    settings.update(_login(kafka.get(_JAAS, "")))
    if kafka.get("ssl.truststore.type", "").upper() == "PEM" and "ssl.truststore.location" in kafka:
        settings["ssl_cafile"] = kafka["ssl.truststore.location"]
    if kafka.get("ssl.endpoint.identification.algorithm") == "":
        settings["ssl_check_hostname"] = False
    settings.update({name: _python_value(name, text) for name, text in admin.items()})
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
