"""Helpful errors for names that do not exist here, above all those that users know from Kafka's clients.

Public classes derive from `Guided`. A wrong argument or method name then raises an error that says what to write
instead. It is also a TypeError or AttributeError, as Python expects.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

from oncelog.errors import UnknownNameError, WrongArgumentsError

Call = TypeVar("Call", bound=Callable[..., Any])

_OPEN = "oncelog.open(path) opens a log; for Kafka use oncelog_kafka"
_IDEMPOTENT = "every producer is idempotent and waits until its records are safe; leave it out"
_NO_MEMBERS = "there is no rebalancing; leave it out"
_LIST = "poll() returns a list: for record in consumer.poll(timeout_ms=1000)"
_TOPICS = "log.admin.list_topics() lists the topics"
_PARTITIONS = "log.admin.describe_topic(topic).partitions lists them"

ARGUMENTS: Final[Mapping[str, str]] = {
    "bootstrap_servers": _OPEN,
    "group": "write group_id",
    "group_metadata": "write group_id",
    "key_serializer": "pass bytes to send()",
    "value_serializer": "pass bytes to send()",
    "key_deserializer": "decode the bytes that poll() returns",
    "value_deserializer": "decode the bytes that poll() returns",
    "compression_type": "write codec",
    "acks": _IDEMPOTENT,
    "enable_idempotence": _IDEMPOTENT,
    "max_in_flight_requests_per_connection": _IDEMPOTENT,
    "retries": "delivery_timeout_ms says how long errors are retried",
    "enable_auto_commit": "only commit() commits offsets; leave it out",
    "auto_commit_interval_ms": "only commit() commits offsets; leave it out",
    "max_poll_records": "write poll(max_records=...)",
    "num_partitions": "write partitions",
    "replication_factor": "the files are as safe as their storage; leave it out",
    "config": "write retention_ms and retention_bytes",
    "timestamp": "write timestamp_ms",
    "on_delivery": "send() returns a receipt, and its result() is the record's place",
    "callback": "send() returns a receipt, and its result() is the record's place",
    "on_assign": _NO_MEMBERS,
    "listener": _NO_MEMBERS,
    "pattern": "name each topic; log.admin.list_topics() lists them",
    "topics": "write subscribe([...])",
    "asynchronous": "a commit is done when the call returns; leave it out",
    "message": "write commit({TopicPartition(topic, partition): offset + 1})",
}
"""Arguments that Kafka's Python clients take, and what to write here instead."""

NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "oncelog": {
        "KafkaProducer": "log.producer() makes a producer of a log that oncelog.open(path) opened",
        "KafkaConsumer": "log.consumer() makes a consumer of a log that oncelog.open(path) opened",
        "KafkaAdminClient": "log.admin is the admin client of a log that oncelog.open(path) opened",
        "AdminClient": "log.admin is the admin client of a log that oncelog.open(path) opened",
        "NewTopic": "write log.create_topic(name, partitions=...)",
        "connect": _OPEN,
    },
    "Log": {
        "create_topics": "write create_topic(name, partitions=...) for each",
        "topics": "write admin.list_topics()",
    },
    "Producer": {
        "produce": "write send(topic, value, key=...)",
        "poll": "a producer needs no polling: a receipt's result() is the record's place",
        "partitions_for": _PARTITIONS,
        "list_topics": _TOPICS,
    },
    "Consumer": {
        "consume": "write poll(timeout_ms=..., max_records=...)",
        "getmany": "write poll(timeout_ms=..., max_records=...)",
        "getone": "write poll(timeout_ms=..., max_records=1)",
        "unsubscribe": "write assign([])",
        "subscription": "write assignment()",
        "paused": "keep your own list of what you paused",
        "topics": _TOPICS,
        "list_topics": _TOPICS,
        "partitions_for_topic": _PARTITIONS,
        "get_watermark_offsets": "write beginning_offsets([partition]) and end_offsets([partition])",
        "highwater": "write end_offsets([partition])",
        "commit_async": "write commit()",
        "store_offsets": "write commit({partition: offset})",
        "consumer_group_metadata": "send_offsets_to_transaction() takes the group's id",
    },
    "Admin": {
        "create_topics": "write create_topic(name, partitions=...) for each",
        "delete_topics": "write delete_topic(name) for each",
        "describe_topics": "write describe_topic(name) for each",
        "create_partitions": "a topic's number of partitions is fixed; create another topic and copy the records",
        "alter_configs": "write configure_topic(name, retention_ms=...)",
        "describe_configs": "write describe_topic(name)",
        "list_consumer_groups": "write list_groups()",
        "describe_consumer_groups": "write describe_group(group_id) for each",
        "list_consumer_group_offsets": "write describe_group(group_id)",
        "alter_consumer_group_offsets": "write alter_offsets(group_id, {partition: offset})",
        "delete_consumer_groups": "write delete_group(group_id) for each",
        "describe_transactions": "write describe_transaction(transactional_id) for each",
        "describe_cluster": "log.cluster_id is its id",
    },
    "Receipt": {
        "get": "write result()",
        "add_callback": "write result(), best after flush()",
        "add_errback": "result() raises the error of the send",
        "succeeded": "write is_done, and result()",
        "offset": "write result().offset",
    },
    "Records": {
        **dict.fromkeys(("items", "keys", "values", "key", "value", "topic", "partition", "offset"), _LIST),
        "error": f"errors are raised, and {_LIST}",
    },
    "ConsumerRecord": {"error": "errors are raised; leave it out", "timestamp": "write timestamp_ms"},
    "RecordMetadata": {"timestamp": "write timestamp_ms"},
}
"""Names in Kafka's Python clients, by the class here that does not have them, and what to write instead."""


class Guided:
    """Base of public classes: a wrong argument or name raises an error that says what to write instead."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        for name, member in list(vars(cls).items()):
            if inspect.isfunction(member) and not name.startswith("_") and not hasattr(member, _ANSWERS):
                setattr(cls, name, answering(member))

    if not TYPE_CHECKING:  # otherwise type checkers would accept every name

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):  # a property, whose own code raised: let it say so itself
                return object.__getattribute__(self, name)
            raise unknown_name(type(self).__name__, name, dir(type(self)))


def unknown_name(owner: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error for a name that `owner` does not have. For a private name it is Python's own error."""
    if name.startswith("_"):
        return AttributeError(f"{owner!r} has no attribute {name!r}")
    fix = NAMES.get(owner, {}).get(name) or _did_you_mean(name, known)
    return UnknownNameError(f"{owner} has no {name}{fix and '; '}{fix}")


_MADE_BY: Final = {"services": "; use log.producer(), log.consumer() or log.admin of an open log"}

_ANSWERS: Final = "answers_wrong_arguments"


def answering(call: Call) -> Call:
    """Decorates a function: unknown, surplus or missing arguments raise a WrongArgumentsError."""

    @wraps(call)
    def door(*given: Any, **named: Any) -> Any:
        try:
            return call(*given, **named)
        except TypeError:
            check_names(call, given, named)
            raise

    return answers(door)  # type: ignore[return-value]


def answers(door: Call) -> Call:
    """Marks a function that calls `check_names` itself."""
    setattr(door, _ANSWERS, True)
    return door


def check_names(call: Callable[..., Any], given: tuple[Any, ...], named: Mapping[str, Any]) -> None:
    """Raise a WrongArgumentsError if the call does not take arguments of these names or this number."""
    signature = inspect.signature(call)
    try:
        signature.bind(*given, **named)
    except TypeError:
        raise _mismatch(call, signature, given, named) from None


def _mismatch(
    call: Callable[..., Any], signature: inspect.Signature, given: tuple[Any, ...], named: Mapping[str, Any]
) -> WrongArgumentsError:
    name = shown_name(call)
    found = {p.name: p for p in signature.parameters.values() if p.name != "self"}
    by_position = [p.name for p in found.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    count = len(given) - ("self" in signature.parameters)
    takes = list(found)
    unknown = [argument for argument in named if argument not in found]
    if unknown:
        fix = ARGUMENTS.get(unknown[0]) or _did_you_mean(unknown[0], found)
        return WrongArgumentsError(f"{name} takes no argument {unknown[0]}{fix and '; '}{fix}", takes=takes)
    if count > len(by_position):
        first = (
            f"takes {' and '.join(by_position)} {'alone' if takes == by_position else 'by position, the rest by name'}"
        )
        fix = first if by_position else "takes its arguments by name" if takes else "takes no arguments"
        return WrongArgumentsError(f"{name} {fix}", given_by_position=count, takes=takes)
    twice = [argument for argument in by_position[:count] if argument in named]
    if twice:
        return WrongArgumentsError(f"{name} is given the argument {twice[0]} by position and by name", takes=takes)
    missing = [p.name for p in found.values() if p.default is p.empty and p.name not in (*by_position[:count], *named)]
    fix = _MADE_BY.get(missing[0], "")
    return WrongArgumentsError(f"{name} needs the argument {missing[0]}, which is missing{fix}", takes=takes)


def shown_name(call: Callable[..., Any]) -> str:
    """A function's name as users write it: for a constructor, the class."""
    name: str = inspect.unwrap(call).__qualname__
    return name.removesuffix(".__init__")


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name.lower(), [one for one in known if not one.startswith("_")], n=1, cutoff=0.7)
    return f"did you mean {near[0]}?" if near else ""
