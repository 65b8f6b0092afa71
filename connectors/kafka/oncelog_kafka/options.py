"""What users ask of the sink, checked and typed. `OPTIONS` is the one table of names, defaults and meanings.

Options that begin with ``kafka.`` are those of Kafka's Java producer and pass through to the tasks, as in Spark's own
sink. The driver talks to the brokers too, by kafka-python; its settings are derived from the same options, and what
cannot be derived (key stores in Java's formats) is given as ``admin.<kafka-python's name>``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from oncelog.arguments import check_name
from oncelog.errors import InvalidOptionError, UsageError
from oncelog.limits import MAX_NAME_BYTES
from oncelog_kafka import admin_settings
from oncelog_kafka.admin_settings import SERVERS
from oncelog_kafka.option_values import ADMIN, KAFKA, Option, parsed

MAX_STRING_BYTES = 32_767
"""Of a text in Kafka's protocol."""


class OnTimedOut(StrEnum):
    """What to do with a decided participant that the broker timed out."""

    FAIL = "fail"
    REWRITE = "rewrite"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What a sink was asked for.

    Attributes:
        znodes: where the ledger is.
        topic: of all rows; None if each row names its own.
        transactional_id_prefix: None for the query id.
        transaction_timeout_ms: None for the most the brokers allow.
        participants: how many content-hash participants a batch has under `OnTimedOut.REWRITE`; None for Spark's
            default parallelism.
        producer: settings of the tasks' producers.
        admin: settings of the driver's client.
    """

    znodes: str
    topic: str | None
    transactional_id_prefix: str | None
    sink_name: str | None
    group_id: str | None
    takeover: str | None
    transaction_timeout_ms: int | None
    on_timed_out: OnTimedOut
    participants: int | None
    producer: Mapping[str, str] = field(repr=False)
    admin: Mapping[str, Any] = field(repr=False)


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("a text that is not empty")
    return text.strip()


def _kafka_name(text: str) -> str:
    name = _text(text)
    if len(name.encode()) > MAX_STRING_BYTES:
        raise ValueError(f"a name of at most {MAX_STRING_BYTES} bytes, as Kafka's protocol has it")
    return name


def _prefix(text: str) -> str:
    """A part of transactional ids, of groups and of a znode's path, of which the path takes least."""
    prefix = _text(text)
    if re.search(r"-[0-9]+$", prefix):
        raise ValueError("a text that does not end in -<digits>, as the transactional ids of a prefix do")
    try:
        return check_name("prefix", prefix)
    except UsageError as error:
        raise ValueError(f"a name that a path can hold: {error}") from None


def _positive(text: str) -> int:
    if not re.fullmatch(r"\s*0*[1-9][0-9]{0,17}\s*", text):
        raise ValueError("a whole number above 0, of 18 digits at most")
    return int(text)


def _on_timed_out(text: str) -> OnTimedOut:
    try:
        return OnTimedOut(text.strip().lower())
    except ValueError:
        raise ValueError(f"one of {', '.join(OnTimedOut)}") from None


OPTIONS: tuple[Option, ...] = (
    SERVERS,
    Option(
        "znodes",
        _text,
        "Where the ledger is: a folder or `sqlite:/a/file` where one host runs the query's driver, "
        "`zk://host:port,.../chroot` for several hosts. It must outlive the query's checkpoint; one place serves many "
        "queries.",
        default_doc="required",
    ),
    Option("topic", _kafka_name, "Topic of all rows. Without it, each row names its own in the column `topic`."),
    Option(
        "transactionalIdPrefix",
        _prefix,
        "The transactional ids are `<prefix>-<partition>-<lease>.<stage attempt>.<attempt>`. Naming a prefix is "
        "recommended: by default a deleted checkpoint brings a new query id, and with it an empty ledger. With the "
        f"`sinkName` it has at most {MAX_NAME_BYTES} bytes.",
        default_doc="the query id",
    ),
    Option("sinkName", _prefix, "Tells apart the sinks of one query: the prefix is then `<prefix>.<sinkName>`."),
    Option(
        "groupId",
        _kafka_name,
        "The batch's source offsets (of `kafka` and `oncelog-kafka` sources) are committed to this consumer group in "
        "the batch's own transactions. Needs a `transactionalIdPrefix`.",
    ),
    Option("takeover", _text, "Id of the query whose history under the prefix this query continues."),
    Option(
        "transactionTimeoutMs",
        _positive,
        "How long a batch's transactions may stay open: from the first row a task writes until the driver's commit, a "
        "restart of the driver included.",
        default_doc="the brokers' maximum",
    ),
    Option(
        "onTimedOutParticipant",
        _on_timed_out,
        "What to do when the brokers timed out a part of a batch after its decision: `fail` names what is missing; "
        "`rewrite` writes it again from Spark's replay, and verifies count and content. `rewrite` shuffles each batch.",
        default=OnTimedOut.FAIL,
    ),
    Option(
        "participants",
        _positive,
        "Transactions of a batch under `onTimedOutParticipant=rewrite`.",
        default_doc="Spark's default parallelism",
    ),
)

FORBIDDEN: Mapping[str, str] = {
    "key.serializer": "keys are written as the bytes of the column; cast it",
    "value.serializer": "values are written as the bytes of the column; cast it",
    "transactional.id": "each task has an id of its own; name what they begin with by transactionalIdPrefix",
    "transaction.timeout.ms": "set transactionTimeoutMs",
    "transaction.two.phase.commit.enable": "no release of Kafka has two-phase commit (KIP-939) yet",
    "interceptor.classes": "the connector's client has its classes under other names, and nothing may change a row",
    "partitioner.class": "the connector's client has its classes under other names; use the column partition",
}
"""Settings of Kafka's producer that a user may not give, and why."""

REQUIRED_VALUES: Mapping[str, tuple[frozenset[str], str]] = {
    "enable.idempotence": (frozenset({"true"}), "a producer without it writes twice when it tries again"),
    "acks": (frozenset({"all", "-1"}), "a prepared transaction must be on all in-sync replicas"),
}
"""Settings that may be given with these values only, and why."""

PRODUCER_DEFAULTS: Mapping[str, str] = {
    "batch.size": "262144",
    "linger.ms": "5",
    "retry.backoff.ms": "10",
}
"""They measured well. A back-off of Kafka's 100 ms costs each batch 0.2 s: beginning a transaction waits for the end of
the last one."""


def parse(options: Mapping[str, object]) -> SinkOptions:
    """Read and check the options of a sink.

    Args:
        options: names in any case, values as text, number or bool.

    Raises:
        InvalidOptionError: an option is unknown, malformed, missing, forbidden, or contradicts another one.
    """
    texts = {name: _as_text(name, raw) for name, raw in options.items() if raw is not None}
    kafka = _below(KAFKA, texts)
    admin = _below(ADMIN, texts)
    own = _own({name: text for name, text in texts.items() if not name.lower().startswith((KAFKA, ADMIN))})
    if "bootstrap.servers" not in kafka:
        raise InvalidOptionError("a required option is missing", option="kafka.bootstrap.servers")
    if own["znodes"] is None:
        raise InvalidOptionError(
            "a required option is missing: say where the ledger of this query's batches is kept, as a folder or as "
            "zk://host:port/chroot",
            option="znodes",
        )
    for dependent in ("groupId", "takeover"):
        if own[dependent] is not None and own["transactionalIdPrefix"] is None:
            raise InvalidOptionError(
                "this option needs a prefix that outlives the query id",
                option=dependent,
                missing="transactionalIdPrefix",
            )
    if own["transactionalIdPrefix"] is not None and own["sinkName"] is not None:
        _check_together(own["transactionalIdPrefix"], own["sinkName"])
    _check_producer(kafka)
    return SinkOptions(
        znodes=own["znodes"],
        topic=own["topic"],
        transactional_id_prefix=own["transactionalIdPrefix"],
        sink_name=own["sinkName"],
        group_id=own["groupId"],
        takeover=own["takeover"],
        transaction_timeout_ms=own["transactionTimeoutMs"],
        on_timed_out=own["onTimedOutParticipant"],
        participants=own["participants"],
        producer={**PRODUCER_DEFAULTS, **kafka, "enable.idempotence": "true", "acks": "all"},
        admin=admin_settings.derive(kafka, admin),
    )


_HALF_SURROGATE = re.compile("[\ud800-\udfff]")


def _as_text(name: str, raw: object) -> str:
    if isinstance(raw, bool):
        return str(raw).lower()
    if not isinstance(raw, str) and not (isinstance(raw, int) and raw.bit_length() < 64):
        raise InvalidOptionError(
            "the option's value must be text, a whole number of 64 bits or a bool", option=name, value=raw
        )
    if _HALF_SURROGATE.search(f"{name}{raw}"):
        raise InvalidOptionError(
            "the option's name or value holds half a surrogate, which nothing can encode",
            option=name,
            value=raw,
        )
    return str(raw)


def _below(prefix: str, texts: Mapping[str, str]) -> dict[str, str]:
    return {name[len(prefix) :].lower(): text for name, text in texts.items() if name.lower().startswith(prefix)}


def _own(texts: Mapping[str, str]) -> dict[str, Any]:
    """The sink's own options, by name; None where neither a value nor a default is there."""
    rows = {option.name.lower(): option for option in OPTIONS if not option.name.startswith(KAFKA)}
    values: dict[str, Any] = {option.name: parsed(option, option.default) for option in rows.values()}
    given: set[str] = set()
    for key, text in texts.items():
        option = rows.get(key.lower())
        if option is None:
            raise InvalidOptionError("unknown option", option=key, **_suggestion(key, rows))
        if option.name in given:
            raise InvalidOptionError("the option is given twice", option=option.name)
        given.add(option.name)
        values[option.name] = parsed(option, text)
    return values


def _suggestion(key: str, rows: Mapping[str, Option]) -> dict[str, str]:
    near = difflib.get_close_matches(key.lower().replace("_", ""), rows, n=1)
    return {"did_you_mean": rows[near[0]].name} if near else {}


def _check_together(prefix: str, sink_name: str) -> None:
    try:
        _prefix(f"{prefix}.{sink_name}")
    except ValueError as problem:
        raise InvalidOptionError(
            "the prefix and the sink's name are too much together",
            options=["transactionalIdPrefix", "sinkName"],
            value=f"{prefix}.{sink_name}",
            expected=str(problem),
        ) from None


def _check_producer(kafka: Mapping[str, str]) -> None:
    for name, text in kafka.items():
        if name in FORBIDDEN:
            raise InvalidOptionError("the option is not the user's to set", option=KAFKA + name, reason=FORBIDDEN[name])
        if name in REQUIRED_VALUES and text.strip().lower() not in REQUIRED_VALUES[name][0]:
            allowed, reason = REQUIRED_VALUES[name]
            raise InvalidOptionError(
                "the option may have one value only",
                option=KAFKA + name,
                value=text,
                allowed=sorted(allowed),
                reason=reason,
            )


def render_markdown_table() -> str:
    """The options as a Markdown table."""
    rows = [f"| `{option.name}` | {_default_doc(option)} | {option.doc} |" for option in OPTIONS]
    refused = [f"| `{KAFKA}{name}` | refused | {reason} |" for name, reason in FORBIDDEN.items()]
    return "\n".join(["| option | default | meaning |", "|---|---|---|", *rows, *refused]) + "\n"


def _default_doc(option: Option) -> str:
    if option.default_doc:
        return option.default_doc
    return "-" if option.default is None else f"`{option.default}`"
