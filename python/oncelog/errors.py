"""Every error that oncelog raises, as a tree. Its branches say what the caller must do next.

    OncelogError
    ├── RetriableError              wait, then make the same call again
    │   ├── StoreUnavailableError       the znode store cannot be reached or stays busy
    │   ├── FileUnavailableError        a file cannot be read or removed now (I/O error, permissions)
    │   ├── TransactConflictError       other writers kept changing what a step had read, until its deadline
    │   ├── ConcurrentTransactionsError another state change of the same transactional id is in progress
    │   ├── UnstableOffsetCommitError   a group has offsets in an undecided transaction
    │   ├── PlanOvertakenError          settling overtook a reader's plan on every attempt
    │   ├── PartitionPinnedError        too many unsettled transactions in one partition
    │   ├── LogInUseError               the log was used during work that needs exclusive access
    ├── AbortableError              abort the transaction, then begin it again
    │   ├── TransactionAbortableError   a send of this transaction failed
    │   ├── FileWriteError              a file could not be written (disk full, I/O error) and was discarded
    │   ├── StaleFileError              a data file is older than the previous generation: write it again
    │   ├── StepTooLargeError           a step is larger than one multi of the store: use fewer partitions at a time
    │   ├── RoundAbortedError           a micro-batch's round timed out or was aborted: run the batch again
    │   └── NotPreparedError            a participant of a Kafka batch is not prepared: run the batch again
    ├── FatalError                  close this client; a new one may continue
    │   ├── ProducerFencedError         a newer producer with the same transactional id exists
    │   ├── InvalidTxnStateError        the coordinator's state forbids the step
    │   ├── InvalidProducerIdMappingError  the transactional id is unknown or expired
    │   ├── OutOfOrderSequenceError     the batch does not follow its producer's last one
    │   ├── RunSupersededError          a newer run of the same query took over
    │   ├── BatchRefusedError           the ledger's history contradicts this batch
    │   ├── NotCommittedError           a decided batch could not be committed: correct the cause, restart the query
    │   ├── GroupOwnedError             a sink owns the group's offsets
    │   ├── DataLossError               records that a reader still needed are gone
    │   ├── CorruptDataError            a file or znode does not hold what was written
    │   ├── UnsupportedFormatError      a newer oncelog wrote the file or store
    │   ├── StoreHostError              the embedded store belongs to another host, or is on an unsafe file system
    │   ├── StoreAccessError            this process may not use the znode store, or the store is gone
    │   ├── SparkInternalsError         this oncelog does not know the internals of this Spark
    ├── OutcomeUnknownError         the write may or may not have happened: run the same step again
    └── UsageError                  the call is wrong: correct the named argument; nothing was written
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

A message is static text, followed by the values as named fields. So logs can be searched, and errors survive pickling
between Spark's processes. Text and values are without secrets (secrecy.py), whoever raises the error.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, Self

from oncelog.secrecy import hidden, in_fields


class OncelogError(Exception):
    """Root of every error of oncelog.

    Args:
        message: static text: what happened and what to do.
        fields: the values, by name; shown after the text as ``name=value``.
    """

    def __init__(self, message: str, **fields: Any) -> None:
        self.message = hidden(message)
        self.fields = in_fields(fields)
        super().__init__(self.message)

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
    """Text in an error's fields that is shown without quotation marks, because it already is a ``repr``."""

    __slots__ = ()
    __repr__ = str.__str__


def _shown(value: object) -> str:
    """A field's value; an enum member as users write it."""
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
    """A file cannot be read, listed or removed now; the error has the file system's reason."""


class TransactConflictError(RetriableError):
    """Other writers kept changing what a step had read, until its deadline. Nothing was written."""


class ConcurrentTransactionsError(RetriableError):
    """Another state change of the same transactional id is in progress."""


class UnstableOffsetCommitError(RetriableError):
    """The group has offsets in an undecided transaction."""


class PlanOvertakenError(RetriableError):
    """Settling overtook a reader's plan on every attempt. Keep the previous end offsets, or plan again."""


class PartitionPinnedError(RetriableError):
    """Too many unsettled transactions in one partition; the error names the one that holds back the others."""


class LogInUseError(RetriableError):
    """The log was used during work that needs exclusive access. Stop every process that uses it, then try again."""


class AbortableError(OncelogError):
    """Abort the transaction, then begin it again."""


class TransactionAbortableError(AbortableError):
    """A send of this transaction failed, so it can only be aborted."""


class FileWriteError(AbortableError):
    """A file could not be written and was discarded. Fix the stated reason, and write the data again."""


class StaleFileError(AbortableError):
    """A data file is too old to be appended: collection may have removed it already. Write the data again."""


class StepTooLargeError(AbortableError):
    """A step is too large for the metadata store: write to fewer partitions at a time, or use shorter names."""


class RoundAbortedError(AbortableError):
    """The round of a micro-batch was aborted before its decision; run the batch again."""


class NotPreparedError(AbortableError):
    """A participant of a Kafka batch is not prepared, so the batch was not decided; run it again."""


class FatalError(OncelogError):
    """Close this client. A new one may continue."""


class ProducerFencedError(FatalError):
    """A newer producer with the same transactional id (a higher epoch) exists."""


class InvalidTxnStateError(FatalError):
    """The coordinator's state forbids the step (Kafka: INVALID_TXN_STATE)."""


class InvalidProducerIdMappingError(FatalError):
    """The transactional id is unknown, expired, or maps to another producer id."""


class OutOfOrderSequenceError(FatalError):
    """The batch's sequence does not follow the last one of its producer."""


class RunSupersededError(FatalError):
    """A newer run of the same streaming query took over the prefix."""


class BatchRefusedError(FatalError):
    """The ledger's history contradicts this batch; the message says what to do."""


class NotCommittedError(FatalError):
    """A decided batch could not be committed. Correct the cause; a restart of the query commits it."""


class GroupOwnedError(FatalError):
    """A sink owns the group's offsets; nothing else may commit them."""


class DataLossError(FatalError):
    """Records that a reader still needed were removed or cannot be found."""


class CorruptDataError(FatalError):
    """A file or znode does not hold what was written (CRC, length, or structure)."""


class UnsupportedFormatError(FatalError):
    """This oncelog does not know the format version of a file or store: upgrade oncelog."""


class StoreHostError(FatalError):
    """The embedded store belongs to another host, or is on a file system that cannot keep it safe."""


class StoreAccessError(FatalError):
    """This process may not use the znode store (file permissions, ZooKeeper ACLs), or the store is gone."""


class SparkInternalsError(FatalError):
    """This oncelog does not know the internals of this Spark: use a supported Spark, or upgrade oncelog."""


class OutcomeUnknownError(OncelogError):
    """The write may or may not have happened. Run the same step again: every step is idempotent."""


class UsageError(OncelogError, ValueError):
    """The call is wrong. Correct the named argument; nothing was written."""


class InvalidOptionError(UsageError):
    """An unknown, malformed or contradictory option."""


class WrongArgumentsError(UsageError, TypeError):
    """The call got an unknown argument or too many, or one is missing."""


class UnknownNameError(UsageError, AttributeError):
    """There is no such method or field. If Kafka's clients have it, the error says what to write instead."""


class UnknownTopicError(UsageError):
    """No topic of this name exists."""


class TopicExistsError(UsageError):
    """A topic of this name exists already."""


class UnknownPartitionError(UsageError):
    """The topic has no partition with this number."""


class UnknownGroupError(UsageError):
    """No consumer group of this name has committed offsets."""


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
    """A bug in oncelog itself. Nothing was written; please report it with its message."""


def ensure(condition: bool, law: str, **fields: Any) -> None:
    """Raise `InvariantViolation` unless `condition` holds. Always checked, in production too."""
    if not condition:
        details = ", ".join(f"{name}={value!r}" for name, value in fields.items())
        raise InvariantViolation(f"{law} [{details}]" if details else law)
