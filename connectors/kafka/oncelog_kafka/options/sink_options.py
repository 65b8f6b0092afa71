"""The options of the sink, checked and typed. `OPTIONS` is the only table of their names, defaults and meanings.

Options that begin with ``kafka.`` are settings of Kafka's Java producer, and are passed to the tasks, as in Spark's own
sink. The driver's client gets its settings from the same options (admin_settings.py). Settings for the driver's client
only are given as ``admin.<name>``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from oncelog.errors import InvalidOptionError
from oncelog.spark.kit import values
from oncelog.spark.kit.options import (
    SINKS,
    SOURCE,
    STREAMING_SINKS,
    Given,
    HistoryOptions,
    Option,
    Use,
    as_text,
    history,
    sink_name_option,
    takeover_option,
)
from oncelog.spark.kit.options import render_markdown_table as render_rows
from oncelog_kafka.options import admin_settings
from oncelog_kafka.options.admin_settings import ADMIN, KAFKA, SERVERS

DEFAULT_LEDGER_TOPIC = "oncelog-ledger"

MAX_STRING_BYTES = 32_767
"""The most bytes of a string in Kafka's protocol."""


_STREAM_WRITE = frozenset({Use.STREAM_WRITE})


class OnTimedOut(StrEnum):
    """What to do about a participant that the brokers timed out after the decision."""

    FAIL = "fail"
    REWRITE = "rewrite"

    def __repr__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, slots=True)
class LedgerPlace:
    """Where the ledger of sinks is.

    Attributes:
        znodes: None if it is in the cluster.
        topic: that keeps it then.
        admin: settings of the driver's client.
    """

    znodes: str | None
    topic: str
    admin: Mapping[str, Any] | admin_settings.JavaClient = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions(HistoryOptions):
    """The options of a sink.

    Attributes:
        ledger_topic: keeps the ledger if `znodes` names no other place.
        transaction_timeout_ms: None for the brokers' maximum.
        participants: how many a batch has under `OnTimedOut.REWRITE`; None for Spark's default parallelism.
        producer: settings of the tasks' producers.
        admin: settings of the driver's client.
    """

    ledger_topic: str
    transaction_timeout_ms: int | None
    on_timed_out: OnTimedOut
    participants: int | None
    producer: Mapping[str, str] = field(repr=False)
    admin: Mapping[str, Any] | admin_settings.JavaClient = field(repr=False)

    @property
    def ledger_topics(self) -> frozenset[str]:
        """Topics of the cluster that keep ledgers, and hence no rows."""
        return frozenset({DEFAULT_LEDGER_TOPIC} if self.znodes else {DEFAULT_LEDGER_TOPIC, self.ledger_topic})

    @property
    def ledger_place(self) -> LedgerPlace:
        return LedgerPlace(self.znodes, self.ledger_topic, self.admin)


def _kafka_name(text: str) -> str:
    name = values.text(text)
    if len(name.encode()) > MAX_STRING_BYTES:
        raise ValueError(f"a name of at most {MAX_STRING_BYTES} bytes, the limit of Kafka's protocol")
    return name


_TOPIC = re.compile("[a-zA-Z0-9._-]{1,249}")


def topic_name(text: str) -> str:
    """The name of a topic that brokers create."""
    found = text.strip()
    if not _TOPIC.fullmatch(found) or found in {".", ".."}:
        raise ValueError("the name of a topic: at most 249 letters, digits, dots, underscores and hyphens")
    return found


def _on_timed_out(text: str) -> OnTimedOut:
    return OnTimedOut(values.choice(*OnTimedOut)(text))


_LEDGER_TOPIC = Option(
    "ledgerTopic",
    SINKS,
    topic_name,
    "Topic of the same cluster that keeps the ledger, which says which batches are done. It is created if there is "
    "none. Many queries can share it.",
    default=DEFAULT_LEDGER_TOPIC,
)

_ZNODES = Option(
    "znodes",
    SINKS,
    values.text,
    "Another place for the ledger: a folder or `sqlite:/a/file` if one host runs the query's driver, "
    "`postgresql://user@host:port/database`, `zk://host:port,.../chroot`, `s3://bucket/folder` for one or two queries, "
    "or `kafka://host:port,.../topic`. It must outlive the query's checkpoint. Many queries can share it.",
    default_doc="the `ledgerTopic`",
)

OPTIONS: tuple[Option, ...] = (
    SERVERS,
    _LEDGER_TOPIC,
    _ZNODES,
    Option(
        "topic",
        SINKS,
        _kafka_name,
        "Topic of all rows. Without it, each row names its topic in the column `topic`.",
    ),
    Option(
        "transactionalIdPrefix",
        SINKS,
        values.prefix,
        "The transactional ids are `<prefix>-<partition>-<lease>.<stage attempt>.<attempt>`. Set it: with the default, "
        f"a deleted checkpoint brings a new query id, and with it an empty ledger. {values.PREFIX_RULE}",
        default_doc="the query id",
    ),
    Option(
        "includeHeaders",
        SINKS,
        values.boolean,
        "Spark's own, without effect, as in Spark: headers are written if the rows have the column `headers`.",
    ),
    sink_name_option(STREAMING_SINKS),
    Option(
        "groupId",
        STREAMING_SINKS,
        _kafka_name,
        "The batch's source offsets (of `kafka` and `oncelog-kafka` sources that read the sink's cluster) are "
        "committed to this consumer group in the batch's own transactions. Needs a `transactionalIdPrefix`.",
    ),
    takeover_option(STREAMING_SINKS),
    Option(
        "transactionTimeoutMs",
        SINKS,
        values.positive,
        "How long a batch's transactions may stay open (ms): from the first row that a task writes until the driver's "
        "commit, including a restart of the driver.",
        default_doc="the brokers' maximum",
    ),
    Option(
        "onTimedOutParticipant",
        STREAMING_SINKS,
        _on_timed_out,
        "What to do if a part of a batch times out on the brokers after the batch's decision. `fail`: stop, and name "
        "what is missing. `rewrite`: write it again from Spark's replay, and verify count and content; this shuffles "
        "each batch.",
        default=OnTimedOut.FAIL,
    ),
    Option(
        "participants",
        STREAMING_SINKS,
        values.positive,
        "Number of transactions of a batch under `onTimedOutParticipant=rewrite`.",
        default_doc="Spark's default parallelism",
    ),
    Option("checkpointLocation", _STREAM_WRITE, values.text, "Spark's own."),
    Option("queryName", _STREAM_WRITE, values.text, "Spark's own, set by `queryName(...)`."),
)

FORBIDDEN: Mapping[str, str] = {
    "key.serializer": "keys are written as the bytes of the column; cast it",
    "value.serializer": "values are written as the bytes of the column; cast it",
    "transactional.id": "each task has its own id; set their prefix with transactionalIdPrefix",
    "transaction.timeout.ms": "set transactionTimeoutMs",
    "transaction.two.phase.commit.enable": "no release of Kafka has two-phase commit (KIP-939) yet",
    "interceptor.classes": "the connector's client has its classes under other names, and nothing may change a row",
    "partitioner.class": "the connector's client has its classes under other names; use the column partition",
}
"""Settings of Kafka's producer that a user cannot set, and why."""

REQUIRED_VALUES: Mapping[str, tuple[frozenset[str], str]] = {
    "enable.idempotence": (frozenset({"true"}), "without it, a producer that retries may write a row twice"),
    "acks": (frozenset({"all", "-1"}), "a prepared transaction must be on all in-sync replicas"),
}
"""Settings that accept only these values, and why."""

PRODUCER_DEFAULTS: Mapping[str, str] = {
    "linger.ms": "50",
    "retry.backoff.ms": "1",
}
"""Chosen by measurement. A long linger fills batches, and delays nothing, because a task flushes at its end. The client
pauses for the back-off before it looks for a coordinator, and while the last transaction is ending."""

LARGEST_BATCH, SMALLEST_BATCH = 262_144, 16_384
"""The sizes of a producer's batches (bytes): what one partition is best written with, and Kafka's default."""

BUFFER_MEMORY = 33_554_432
"""Kafka's default of ``buffer.memory`` (bytes)."""


def parse(options: Mapping[str, object], use: Use = Use.FOREACH_BATCH) -> SinkOptions:
    """Read and check the options of a sink.

    Args:
        options: names in any case, values as text, number or bool.
        use: where the options were given.

    Raises:
        InvalidOptionError: an option is unknown, malformed, missing, forbidden, or contradicts another one.
    """
    kafka, admin, own = _divided(options)
    given = Given(own, OPTIONS, use)
    given.only_one_of("znodes", "ledgerTopic")
    _check_producer(kafka)
    return _checked(
        SinkOptions(
            ledger_topic=given.value("ledgerTopic"),
            transaction_timeout_ms=given.value("transactionTimeoutMs"),
            on_timed_out=given.value("onTimedOutParticipant"),
            participants=given.value("participants"),
            producer={**PRODUCER_DEFAULTS, **kafka, "enable.idempotence": "true", "acks": "all"},
            admin=admin_settings.derive(kafka, admin),
            **history(given),
        )
    )


def _checked(options: SinkOptions) -> SinkOptions:
    if options.topic in options.ledger_topics:
        raise InvalidOptionError(
            "the topic keeps the ledger of sinks, which rows would damage; write them to another topic",
            option="topic",
            value=options.topic,
        )
    return options


def with_batch_size(producer: Mapping[str, str], partitions: int | None) -> Mapping[str, str]:
    """The settings of a producer with ``batch.size``, unless the user has set that.

    Batches for all partitions fit into the buffer four times. If it runs full, the producer sends batches as they are,
    with few records, and waits.

    Args:
        partitions: of the only topic; None if each row names its own.
    """
    if "batch.size" in producer:
        return producer
    given = producer.get("buffer.memory", "").strip()
    memory = int(given) if given.isdecimal() else BUFFER_MEMORY  # the client refuses what is malformed
    share = LARGEST_BATCH if partitions is None else memory // (4 * max(partitions, 1))
    return {**producer, "batch.size": str(max(SMALLEST_BATCH, min(LARGEST_BATCH, share)))}


def parse_ledger_place(options: Mapping[str, object]) -> LedgerPlace:
    """Read and check the options that say a reader where the ledger is.

    Raises:
        InvalidOptionError: an option is unknown, malformed, missing, or contradicts another one.
    """
    kafka, admin, own = _divided(options)
    given = Given(own, [replace(option, uses=SOURCE) for option in (_LEDGER_TOPIC, _ZNODES)], Use.BATCH_READ)
    given.only_one_of("znodes", "ledgerTopic")
    return LedgerPlace(given.value("znodes"), given.value("ledgerTopic"), admin_settings.derive(kafka, admin))


def _divided(options: Mapping[str, object]) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """The settings of Kafka's client and of the driver's, without their prefixes, and oncelog's own options."""
    texts = {name: as_text(name, raw) for name, raw in options.items() if raw is not None}
    kafka, admin = _below(KAFKA, texts), _below(ADMIN, texts)
    servers = SERVERS.name.removeprefix(KAFKA)
    if servers not in kafka:
        raise InvalidOptionError("a required option is missing", option=SERVERS.name)
    kafka[servers] = ",".join(admin_settings.listed(kafka[servers]))
    return kafka, admin, {name: text for name, text in texts.items() if not name.lower().startswith((KAFKA, ADMIN))}


def _below(prefix: str, texts: Mapping[str, str]) -> dict[str, str]:
    return {name[len(prefix) :].lower(): text for name, text in texts.items() if name.lower().startswith(prefix)}


def _check_producer(kafka: Mapping[str, str]) -> None:
    for name, text in kafka.items():
        if name in FORBIDDEN:
            raise InvalidOptionError("the option cannot be set", option=KAFKA + name, reason=FORBIDDEN[name])
        if name in REQUIRED_VALUES and text.strip().lower() not in REQUIRED_VALUES[name][0]:
            allowed, reason = REQUIRED_VALUES[name]
            raise InvalidOptionError(
                "the option does not accept this value",
                option=KAFKA + name,
                value=text,
                allowed=sorted(allowed),
                reason=reason,
            )


def render_markdown_table() -> str:
    """The options as a Markdown table."""
    refused = [f"| `{KAFKA}{name}` | refused | - | {reason} |" for name, reason in FORBIDDEN.items()]
    return render_rows(OPTIONS) + "\n".join(refused) + "\n"
