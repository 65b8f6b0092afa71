"""Every error oncelog raises, as a tree branched by what the caller must do next.

    OncelogError
    ├── RetriableError              wait, then make the same call again
    │   ├── StoreUnavailableError       the znode store cannot be reached or stays busy
    │   ├── FileUnavailableError        a file cannot be read or removed now (I/O error, permissions)
    │   ├── TransactConflictError       others kept changing what a step had read, until its deadline
    │   ├── ConcurrentTransactionsError another transition of the same transactional id is under way
    │   ├── UnstableOffsetCommitError   a group has offsets in an undecided transaction
    │   ├── PlanOvertakenError          settling overtook a reader's plan every time
    │   ├── PartitionPinnedError        too many unsettled transactions in one partition
    │   ├── LogInUseError               somebody used the log during work that needs it at rest
    ├── AbortableError              abort the transaction, then begin it again
    │   ├── TransactionAbortableError   a send of this transaction failed
    │   ├── FileWriteError              a file could not be written (disk full, I/O error) and was discarded
    │   ├── StaleFileError              a data file waited across two collections: write it again
    │   ├── StepTooLargeError           it spans more partitions than one step of the store takes
    │   ├── RoundAbortedError           a micro-batch's round timed out or was aborted: run the batch again
    │   └── NotPreparedError            a participant of a Kafka batch is not prepared: run the batch again
    ├── FatalError                  close this client; a new one may go on
    │   ├── ProducerFencedError         a newer incarnation of the transactional id exists
    │   ├── InvalidTxnStateError        the coordinator's state forbids the step
    │   ├── InvalidProducerIdMappingError  the transactional id is unknown or expired
    │   ├── OutOfOrderSequenceError     a batch before this one is missing
    │   ├── RunSupersededError          a newer run of the same query took over
    │   ├── BatchRefusedError           the ledger's history contradicts this batch
    │   ├── GroupOwnedError             a sink owns the group's offsets
    │   ├── DataLossError               records a reader still needed are gone
    │   ├── CorruptDataError            a file or znode does not hold what was written
    │   ├── UnsupportedFormatError      a file or store written by a newer oncelog
    │   ├── StoreHostError              the embedded store belongs to another host or file system
    │   ├── StoreAccessError            the znode store does not let this process in, or is gone
    │   ├── SparkInternalsError         Spark's internals are not as this oncelog knows them
    ├── OutcomeUnknownError         the write may or may not have happened: run the same step again
    └── UsageError                  the call is wrong: mend the named argument; nothing was written
        ├── InvalidOptionError
        ├── WrongArgumentsError
        ├── UnknownNameError
        ├── UnknownTopicError
        ├── TopicExistsError
        ├── UnknownPartitionError
        ├── UnknownGroupError
        ├── UnknownPrefixError
        ├── OffsetOutOfRangeError
        ├── RecordTooLargeError
        ├── InvalidRecordError
        ├── InvalidTransactionTimeoutError
        └── IllegalStateTransitionError  a client method called in a state that does not allow it
    InvariantViolation              a bug in oncelog: report it; nothing was written

A message is static text; the values that matter are named fields behind it, so that logs can be searched and
errors survive pickling between Spark's processes.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Self


class OncelogError(Exception):
    """Root of every error of oncelog.

    Args:
        message: static text that says what happened and what to do.
        fields: the values concerned, by name; appended to the text as ``name=value``.
    """

    def __init__(self, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.message = message
        self.fields = fields

    def __str__(self) -> str:
        if not self.fields:
            return self.message
        return f"{self.message} [{', '.join(f'{name}={_shown(value)}' for name, value in self.fields.items())}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.fields)

    @classmethod
    def rebuild(cls, message: str, fields: dict[str, Any]) -> Self:
        return cls(message, **fields)


class Shown(str):
    """A text in an error's fields that is shown without quotation marks: it is the representation of something."""

    __slots__ = ()
    __repr__ = str.__str__


def _shown(value: object) -> str:
    """A member of an enumeration is shown as users write it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_shown, value))}]"
    return repr(value.value if isinstance(value, Enum) else value)


def _rebuild(kind: type[OncelogError], message: str, fields: dict[str, Any]) -> OncelogError:
    return kind.rebuild(message, fields)


class RetriableError(OncelogError):
    """Wait, then make the same call again."""


class StoreUnavailableError(RetriableError):
    """The znode store cannot be reached or stays busy. Nothing was written."""


class FileUnavailableError(RetriableError):
    """A file cannot be read, listed or removed now; the reason is the file system's."""


class TransactConflictError(RetriableError):
    """Others kept changing what a step had read until its deadline. Nothing was written."""


class ConcurrentTransactionsError(RetriableError):
    """Another transition of the same transactional id is under way."""


class UnstableOffsetCommitError(RetriableError):
    """The group has offsets in a transaction that is not decided yet."""


class PlanOvertakenError(RetriableError):
    """Settling overtook a reader's plan every time. Keep the previous ends, or plan again."""


class PartitionPinnedError(RetriableError):
    """Too many unsettled transactions in one partition; the error names the one that pins it."""


class LogInUseError(RetriableError):
    """Somebody used the log during work that needs it at rest. Stop every process that uses it, then try again."""


class AbortableError(OncelogError):
    """Abort the transaction, then begin it again."""


class TransactionAbortableError(AbortableError):
    """A send of this transaction failed, so it can only be aborted."""


class FileWriteError(AbortableError):
    """A file could not be written and was discarded. Mend what the reason says, and write the data again."""


class StaleFileError(AbortableError):
    """A data file was written too long ago to be named: collection may have removed it. Write the data again."""


class StepTooLargeError(AbortableError):
    """More than one step of the metadata store takes: write to fewer partitions at a time, or under shorter names."""


class RoundAbortedError(AbortableError):
    """The round of a micro-batch was aborted before its decision; run the batch again."""


class NotPreparedError(AbortableError):
    """A participant of a Kafka batch is not prepared, so the batch was not decided; run it again."""


class FatalError(OncelogError):
    """Close this client. A new one may go on."""


class ProducerFencedError(FatalError):
    """A newer incarnation of the transactional id (a higher epoch) exists."""


class InvalidTxnStateError(FatalError):
    """The coordinator's state forbids the step (Kafka: INVALID_TXN_STATE)."""


class InvalidProducerIdMappingError(FatalError):
    """The transactional id is unknown, expired, or maps to another producer id."""


class OutOfOrderSequenceError(FatalError):
    """The batch's sequence does not follow the last one of its producer."""


class RunSupersededError(FatalError):
    """A newer run of the same streaming query took over its prefix."""


class BatchRefusedError(FatalError):
    """The batch ledger's history contradicts this batch; the text says what to do."""


class GroupOwnedError(FatalError):
    """The offsets of the group belong to a sink, which alone may commit them."""


class DataLossError(FatalError):
    """Records that a reader still needed were removed or cannot be found."""


class CorruptDataError(FatalError):
    """A file or znode does not hold what was written (CRC, length, or structure)."""


class UnsupportedFormatError(FatalError):
    """A file or store of a format version this oncelog does not know: upgrade oncelog."""


class StoreHostError(FatalError):
    """The embedded store belongs to another host, or its file system cannot keep it safe."""


class StoreAccessError(FatalError):
    """The znode store does not let this process in (file permissions, ZooKeeper's ACLs), or was taken away."""


class SparkInternalsError(FatalError):
    """Spark's internals are not as this oncelog knows them: use a Spark that it supports, or upgrade oncelog."""


class OutcomeUnknownError(OncelogError):
    """The write may or may not have happened. Run the same step again: every step is idempotent."""


class UsageError(OncelogError, ValueError):
    """The call is wrong. Mend the named argument; nothing was written."""


class InvalidOptionError(UsageError):
    """An unknown, malformed or contradictory option."""


class WrongArgumentsError(UsageError, TypeError):
    """The call does not take an argument of this name, or so many, or it lacks one."""


class UnknownNameError(UsageError, AttributeError):
    """There is no such call or field; what another client calls so has another name here."""


class UnknownTopicError(UsageError):
    """No topic of this name exists."""


class TopicExistsError(UsageError):
    """A topic of this name exists already."""


class UnknownPartitionError(UsageError):
    """The topic has no partition of this number."""


class UnknownGroupError(UsageError):
    """No consumer group of this name has offsets."""


class UnknownPrefixError(UsageError):
    """No sink has written under this transactional-id prefix."""


class OffsetOutOfRangeError(UsageError):
    """The offset is below the log start or above the log end."""


class RecordTooLargeError(UsageError):
    """A record exceeds ``max_record_bytes``."""


class InvalidRecordError(UsageError):
    """A column is missing or has the wrong type."""


class InvalidTransactionTimeoutError(UsageError):
    """The transaction timeout is not within (0, maximum]."""


class IllegalStateTransitionError(UsageError):
    """A client method was called in a state that does not allow it."""


class InvariantViolation(Exception):  # noqa: N818 - it names a broken law, not a failed request
    """A bug in oncelog itself. Nothing was written; please report it with the text."""


def ensure(condition: bool, law: str, **fields: Any) -> None:
    """Raise `InvariantViolation` unless `condition` holds. On in production."""
    if not condition:
        details = ", ".join(f"{name}={value!r}" for name, value in fields.items())
        raise InvariantViolation(f"{law} [{details}]" if details else law)
