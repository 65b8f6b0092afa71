"""The errors of the Kafka connector, under the branches of oncelog's error tree that say what the caller does next.

RetriableError
└── BrokerUnavailableError      a broker cannot be reached, or cannot serve this request now
FatalError
├── BrokerAccessError           the brokers refuse this client, or refuse what it asks for
├── ForeignTopicError           a topic that was named for a ledger belongs to another program
├── KafkaInternalsError         the Kafka client is not the one that this connector knows
├── ParticipantLostError        the brokers aborted a part of a decided batch, or it cannot be known whether they did
└── RewriteMismatchError        the replay of a decided batch does not contain the rows that were decided
"""

from __future__ import annotations

from oncelog.errors import FatalError, RetriableError, UsageError


class BrokerUnavailableError(RetriableError):
    """A broker cannot be reached, or cannot serve this request now."""


class BrokerAccessError(FatalError):
    """The brokers refuse this client, or refuse what it asks for: check its credentials and ACLs."""


class ForeignTopicError(FatalError):
    """A topic that was named for a ledger has records, and none of oncelog's: name another topic."""


class KafkaInternalsError(FatalError):
    """The Kafka client is not the one that this connector knows: use the connector's own jar."""


class ParticipantLostError(FatalError):
    """The brokers aborted a part of a decided batch, or it can no longer be known whether they did."""


class RewriteMismatchError(FatalError):
    """The replay of a decided batch does not contain the rows that were decided: the plan is not deterministic."""


def missing_jar() -> UsageError:
    """The error for a Spark that was started without the connector's jar."""
    return UsageError(
        "the Kafka connector's jar is not in this Spark; start the session with oncelog_kafka.configure(builder), and "
        "set spark.jars of your own before that, not after it; or start the program, or the server of Spark Connect, "
        'with --jars "$(oncelog jars)" (ADD JAR in a running session does not help)'
    )
