"""Reads what the tasks of a batch report: what they prepared, or why they failed. TaskOutcome.java writes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from oncelog.errors import (
    InvalidOptionError,
    InvalidRecordError,
    InvalidTransactionTimeoutError,
    NotPreparedError,
    OncelogError,
    RecordTooLargeError,
    UnknownPartitionError,
    UnknownTopicError,
)
from oncelog.types import TopicIdPartition
from oncelog_kafka.errors import BrokerAccessError, BrokerUnavailableError, KafkaInternalsError
from oncelog_kafka.protocol import extents
from oncelog_kafka.protocol.extents import Extent
from oncelog_kafka.protocol.participants import Participant
from oncelog_kafka.sinks.jobs import Written

_ERRORS: Mapping[str, tuple[type[OncelogError], str]] = {
    "INVALID_ROW": (InvalidRecordError, "a row cannot be written"),
    "REFUSED_RECORD": (
        InvalidRecordError,
        "a topic does not take a record: one that is compacted needs a key in each record, and "
        "message.timestamp.before.max.ms and message.timestamp.after.max.ms limit its age",
    ),
    "WRONG_SETTING": (InvalidOptionError, "the tasks' producers cannot be created with these kafka.* options"),
    "RECORD_TOO_LARGE": (
        RecordTooLargeError,
        "a record is larger than the producer or the topic allows; raise kafka.max.request.size and the topic's "
        "max.message.bytes, or write smaller values",
    ),
    "UNKNOWN_TOPIC": (UnknownTopicError, "a row's topic does not exist; create it first"),
    "UNKNOWN_PARTITION": (UnknownPartitionError, "a row names a partition that its topic does not have"),
    "NOT_AUTHORISED": (
        BrokerAccessError,
        "the brokers do not let the tasks' producers do this; check the ACLs "
        "(docs/guides/kafka.md lists what a sink needs)",
    ),
    "NO_LOGIN": (
        BrokerAccessError,
        "the tasks' producers cannot log in; check the credentials, and what issues them (a KDC, an issuer of tokens); "
        "then start the query again",
    ),
    "TIMEOUT_TOO_LONG": (
        InvalidTransactionTimeoutError,
        "transactionTimeoutMs is above the brokers' transaction.max.timeout.ms",
    ),
    "FENCED": (
        NotPreparedError,
        "this batch's producers were fenced: by a newer driver, or because their transactions were aborted, by an "
        "operator or after transactionTimeoutMs",
    ),
    "UNAVAILABLE": (BrokerUnavailableError, "the brokers did not accept the batch in time"),
    "UNKNOWN_CLIENT": (KafkaInternalsError, "the Kafka client is not the one that this connector knows"),
    "FAILED": (NotPreparedError, "a task could not prepare its part of the batch"),
}


def written(outcomes: Iterable[Mapping[str, Any]]) -> Written:
    """What the tasks prepared.

    Args:
        outcomes: one for each task that had rows.

    Raises:
        OncelogError: the first failure of a task.
    """
    found = list(outcomes)
    failed = failure(found)
    if failed is not None:
        raise failed
    participants = [one["participant"] for one in found]
    is_retried = not all(one["isFirstAttempt"] for one in participants)
    return Written(
        tuple(map(_participant, participants)),
        is_retried,
        {one["transactionalId"]: _extents(one) for one in participants},
    )


def failure(outcomes: Iterable[Mapping[str, Any]]) -> OncelogError | None:
    """The first failure of a task; None if all have prepared their parts."""
    for one in outcomes:
        if one["kind"] is not None:
            kind, what = _ERRORS[one["kind"]]
            return kind(what, problem=one["problem"].strip())
    return None


def _extents(found: Mapping[str, Any]) -> dict[TopicIdPartition, Extent]:
    return dict(
        row
        for topic in found["offsetRanges"]
        for row in extents.of_topic(topic["topic"], topic["topicId"], topic["partitions"]).items()
    )


def _participant(found: Mapping[str, Any]) -> Participant:
    return Participant(
        transactional_id=found["transactionalId"],
        partition=found["partition"],
        producer_id=found["producerId"],
        epoch=found["epoch"],
        transaction_version=found["transactionVersion"],
        rows=found["rows"],
        content_hash=found["contentHash"],
        token_topic=found["tokenTopic"],
    )
