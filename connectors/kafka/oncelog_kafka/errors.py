"""The errors that only Kafka has, on the branches of oncelog's tree that say what the caller does next.

RetriableError
└── BrokerUnavailableError      a broker cannot be reached, or does not serve this request now
FatalError
├── BrokerAccessError           the brokers do not let this client in, or do not let it do this
├── KafkaInternalsError         the Kafka client is not the one this connector knows
├── ParticipantLostError        the brokers aborted a part of a decided batch, or none can tell what became of it
└── RewriteMismatchError        a replayed batch does not hold the rows that were decided
"""

from __future__ import annotations

from oncelog.errors import FatalError, RetriableError


class BrokerUnavailableError(RetriableError):
    """A broker cannot be reached, or does not serve this request now."""


class BrokerAccessError(FatalError):
    """The brokers do not let this client in, or do not let it do this: mend credentials or ACLs."""


class KafkaInternalsError(FatalError):
    """The Kafka client is not the one this connector knows: use the connector's own jar, or the named version."""


class ParticipantLostError(FatalError):
    """The brokers aborted a part of a decided batch (or nothing tells any more what became of it)."""


class RewriteMismatchError(FatalError):
    """The replay of a decided batch does not hold the rows that were decided: the plan is not deterministic."""
