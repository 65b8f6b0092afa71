"""One kafka-python client of a cluster, and what its errors are called here.

kafka-python has a public API for most of what oncelog asks the brokers. The rest (EndTxn and InitProducerId of any id,
stable offsets, a coordinator that moved, appends and fetches of one partition) uses its private routing, which is
wrapped in this package; pyproject.toml bounds its version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from oncelog.extras import extras

with extras("kafka", part="oncelog_kafka"):
    from kafka import errors as kafka_errors
    from kafka.admin import KafkaAdminClient
    from kafka.future import Future

from oncelog.errors import InvalidOptionError
from oncelog_kafka.errors import BrokerAccessError, BrokerUnavailableError
from oncelog_kafka.protocol import end_txn
from oncelog_kafka.protocol.ports import Answer

RECONNECT_MS = 1_000
"""The longest pause between two attempts to connect; kafka-python's 30 seconds are longer than a broker's restart."""

IN_FLIGHT = 64
"""How many requests are sent before waiting for the first answer."""

_DEFAULTS = {
    "reconnect_backoff_max_ms": RECONNECT_MS,
    # More than are ever in flight: at its limit (by default 5), kafka-python refuses requests instead of queueing them.
    "max_in_flight_requests_per_connection": 2 * IN_FLIGHT,
}


class Client(KafkaAdminClient):  # type: ignore[misc]
    """Closes itself if it cannot connect; kafka-python would leak a thread and file descriptors."""

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except BaseException:
            if hasattr(self, "_net"):
                self._closed = False
                self.close()
            raise


def connected(settings: Mapping[str, Any]) -> Client:
    """A client of the cluster that these settings name.

    Raises:
        InvalidOptionError: a setting is wrong.
        BrokerUnavailableError, BrokerAccessError: no broker answers, or none lets this client in.
    """
    with named_errors():
        try:
            return Client(**{**_DEFAULTS, **settings})
        except kafka_errors.KafkaConfigurationError as problem:
            raise InvalidOptionError("a setting of the driver's Kafka client is wrong", problem=str(problem)) from None
        except kafka_errors.KafkaTimeoutError as problem:
            if not str(settings.get("security_protocol", "")).upper().startswith("SASL"):
                raise
            # If the login is refused, kafka-python usually only notices that the connection was closed.
            raise BrokerUnavailableError(
                "the Kafka brokers cannot be reached, or refuse the login; check kafka.bootstrap.servers and the "
                "credentials",
                problem=repr(problem),
                security_protocol=settings["security_protocol"],
                sasl_mechanism=settings.get("sasl_mechanism"),
            ) from problem


def sent(client: Client, request: Any, node: Any) -> Any:
    """The future answer of a broker. One that left the cluster counts as one that does not answer."""
    try:
        return client._manager.send(request, node_id=node)
    except kafka_errors.UnknownBrokerIdError as problem:
        return Future().failure(problem)


def answer_to(client: Client, request: Any, node: Any) -> Any:
    """A broker's answer, or the name of the failure if it passes."""

    async def asked() -> Any:
        try:
            return await sent(client, request, node)
        except kafka_errors.KafkaError as problem:
            return passing_name(problem)

    with named_errors():
        return client._manager.run(asked)


# Errors ---------------------------------------------------------------------------------------------------------------


def name_of(error_code: int) -> Answer:
    """Kafka's name of an error code."""
    return "NONE" if error_code == 0 else str(kafka_errors.for_code(error_code).message)


def passing_name(problem: kafka_errors.KafkaError) -> Answer:
    """The name of a passing failure; other failures are raised."""
    name = str(getattr(problem, "message", ""))
    if name in end_txn.PASSING:
        return name
    if problem.retriable or isinstance(problem, kafka_errors.UnknownBrokerIdError):
        return "NETWORK_EXCEPTION"
    raise problem


@contextmanager
def named_errors() -> Iterator[None]:
    """Turn kafka-python's errors into oncelog's."""
    try:
        yield
    except (kafka_errors.AuthorizationError, kafka_errors.SaslAuthenticationFailedError) as problem:
        raise BrokerAccessError(
            "the Kafka brokers do not allow this; check the credentials and the ACLs of this user", problem=str(problem)
        ) from problem
    except kafka_errors.KafkaError as problem:
        if not problem.retriable and not isinstance(problem, kafka_errors.UnknownBrokerIdError):
            raise BrokerAccessError("the Kafka brokers refused a request", problem=repr(problem)) from problem
        raise BrokerUnavailableError(
            "the Kafka brokers cannot be reached, or do not answer; check kafka.bootstrap.servers",
            problem=repr(problem),
        ) from problem
