"""The way to the connector's Java side, which runs a batch's tasks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException

from oncelog.errors import (
    InvalidRecordError,
    InvalidTransactionTimeoutError,
    NotPreparedError,
    OncelogError,
    RecordTooLargeError,
    UnknownPartitionError,
    UnknownTopicError,
    UsageError,
)
from oncelog_kafka import columns
from oncelog_kafka.errors import BrokerAccessError, BrokerUnavailableError, KafkaInternalsError
from oncelog_kafka.participants import Participant
from oncelog_kafka.target import Written

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CLASS = "io.oncelog.kafka.sink.BatchWriter"

_MARKED = re.compile(r"oncelog\[(?P<kind>\w+)\] (?P<text>[^\n]*)")
"""How the Java side marks why a task failed: Spark carries that to the driver as text."""

_ERRORS: Mapping[str, tuple[type[OncelogError], str]] = {
    "INVALID_ROW": (InvalidRecordError, "a row cannot be written"),
    "RECORD_TOO_LARGE": (
        RecordTooLargeError,
        "a record is larger than the producer or the topic allows; raise kafka.max.request.size and the topic's "
        "max.message.bytes, or write smaller values",
    ),
    "UNKNOWN_TOPIC": (UnknownTopicError, "a row's topic does not exist; create it first"),
    "UNKNOWN_PARTITION": (UnknownPartitionError, "a row names a partition that its topic does not have"),
    "NOT_AUTHORISED": (
        BrokerAccessError,
        "the brokers do not let the tasks' producers do this; mend the ACLs (docs/kafka.md lists what a sink needs)",
    ),
    "TIMEOUT_TOO_LONG": (
        InvalidTransactionTimeoutError,
        "transactionTimeoutMs is above the brokers' transaction.max.timeout.ms",
    ),
    "FENCED": (NotPreparedError, "a newer driver fenced this batch's producers"),
    "UNAVAILABLE": (BrokerUnavailableError, "the brokers did not take the batch in time"),
    "UNKNOWN_CLIENT": (KafkaInternalsError, "the Kafka client is not the one this connector knows"),
    "FAILED": (NotPreparedError, "a task could not prepare its part of the batch"),
}


class SparkJob:
    """The plan of a batch in Spark; see `Job`.

    Args:
        rows: in the sink's columns.
    """

    def __init__(self, rows: DataFrame) -> None:
        self._rows = rows

    def parallelism(self) -> int:
        return self._rows.sparkSession.sparkContext.defaultParallelism

    def speculates(self) -> bool:
        return self._rows.sparkSession.sparkContext.getConf().get("spark.speculation", "false") == "true"

    def run(self, settings: Mapping[str, Any], buckets: int | None) -> Written:
        """Run the plan once, each task preparing a participant.

        Raises:
            UsageError: the connector's jar is not in this Spark.
            OncelogError: of the kind that the tasks' failure is, where it is known.
        """
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # not there under Spark Connect

        rows = self._rows if buckets is None else columns.spread_by_content(self._rows, buckets)
        writer = _find_class(rows)
        text = json.dumps({**settings, "columns": rows.columns})
        try:
            found = json.loads(writer.write(rows._jdf, text))
        except (Py4JError, PySparkException) as problem:
            named = named_failure(str(problem))
            if named is None:
                raise
            raise named from problem
        return Written(tuple(_participant(one) for one in found), not all(one["isFirstAttempt"] for one in found))


def named_failure(text: str) -> OncelogError | None:
    """The error that a task's failure is, as far as its text, which Spark carries to the driver, names it."""
    marked = _MARKED.search(text)
    if marked is None:
        return None
    kind, what = _ERRORS[marked["kind"]]
    return kind(what, problem=marked["text"].strip())


def _find_class(rows: DataFrame) -> Any:
    from py4j.protocol import Py4JError  # not there under Spark Connect

    jvm: Any = rows.sparkSession._jvm
    loader = jvm.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(_CLASS)
    except Py4JError:
        raise UsageError(
            "the Kafka connector's jar is not in this Spark; start the session with oncelog_kafka.configure(builder), "
            "or with spark.jars=oncelog_kafka.jars() (ADD JAR in a running session does not help)",
            missing=_CLASS,
        ) from None
    return jvm.io.oncelog.kafka.sink.BatchWriter


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
