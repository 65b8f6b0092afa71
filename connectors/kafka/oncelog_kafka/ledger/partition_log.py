"""A command log in one partition of a Kafka topic: where the metadata store of `znodes.replicated` is kept.

An entry is a record. It is acknowledged once all replicas in sync have it, and its time is the broker's. A fetch that
reaches the high watermark has every entry that was acknowledged before it was asked.

Other programs can write to the topic, too. Their *foreign records* (entries.py) are left out, so that they change
nothing, and are counted. A batch of records with a foreign one whose checksum does not hold may be a damaged entry:
the log is corrupt then.

A topic with foreign records only is no command log. It is refused, because somebody named a topic of other data, or
copied a command log with a producer that has an id.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, TypeVar

from oncelog.errors import CorruptDataError, OncelogError, OutcomeUnknownError, StoreUnavailableError
from oncelog.ports import Clock
from oncelog.znodes.clock import SYSTEM_CLOCK
from oncelog.znodes.replicated.port import BEGINNING, Entry, TrimmedError
from oncelog_kafka.errors import BrokerUnavailableError
from oncelog_kafka.patience import patiently, refusal
from oncelog_kafka.protocol.entries import entries_in, foreign_topic
from oncelog_kafka.protocol.ports import Appended, Fetched, PartitionRequests, RecordBatch

_log = logging.getLogger(__name__)

PASSING: Final = frozenset(
    {
        "FENCED_LEADER_EPOCH",
        "KAFKA_STORAGE_ERROR",
        "LEADER_NOT_AVAILABLE",
        "NETWORK_EXCEPTION",
        "NOT_ENOUGH_REPLICAS",
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        "NOT_LEADER_FOR_PARTITION",
        "NOT_LEADER_OR_FOLLOWER",  # the name that Java's client has for the one before
        "OFFSET_NOT_AVAILABLE",
        "REQUEST_TIMED_OUT",
        "UNKNOWN_LEADER_EPOCH",
        "UNKNOWN_TOPIC_ID",  # a broker that does not know a new topic yet, or any more
        "UNKNOWN_TOPIC_OR_PARTITION",  # a broker that does not know a new topic yet
    }
)
"""Answers that say nothing but: not now, or not here."""


APPENDED_WITHIN_MS: Final = 15_000
"""How long an append is tried: what was checked before it, such as the age of a batch's transactions, must not be much
older when it arrives. Whoever hears that its outcome is unknown checks again."""

_ABSENT = "UNKNOWN_TOPIC_OR_PARTITION"
_NOT_READ = "the command log could not be read"
_NOT_TAKEN = "the command log takes no entry"
_COMPACTED = f"{_NOT_TAKEN}, because others had its topic compacted: set cleanup.policy to delete with kafka-configs.sh"
_TOO_LARGE = f"{_NOT_TAKEN}, because others lowered its topic's max.message.bytes: raise it with kafka-configs.sh"
_CHANGED = {
    "INVALID_RECORD": _COMPACTED,  # a compacted topic takes nothing without a key
    "MESSAGE_SIZE_TOO_LARGE": _TOO_LARGE,  # kafka-python's name
    "MESSAGE_TOO_LARGE": _TOO_LARGE,
    "RECORD_LIST_TOO_LARGE": _TOO_LARGE,
}
"""What others did to the topic, by what the brokers answer to an append."""

GONE_AFTER_MS: Final = 5_000
"""How long a partition gives no answer before it is asked whether its topic was deleted."""

GONE_FOR_MS: Final = 2_000
"""How long the brokers must say that there is no such topic: one of them may not know all topics for a moment."""

T = TypeVar("T")


class PartitionLog:
    """`znodes.replicated.port.CommandLog` in partition 0 of a topic.

    Args:
        requests: to the topic's cluster. The log closes them.
        topic: which exists, and keeps everything.
        topic_id: of this topic; another one of the same name is another log.
        is_read_only: nobody appends with it. An append that is acknowledged proves that its leader leads; without one,
            the leader is looked up for each read, so that a leader which was deposed is not believed for long.
        clock: by which the brokers are waited for.
    """

    def __init__(
        self,
        requests: PartitionRequests,
        topic: str,
        topic_id: str,
        clock: Clock = SYSTEM_CLOCK,
        *,
        is_read_only: bool = False,
    ) -> None:
        self._requests = requests
        self._is_read_only = is_read_only
        self._topic = topic
        self._topic_id = topic_id
        self._clock = clock
        self._read: tuple[int, int] | None = None
        """The last position that was read, and the offset to go on at, which is after the foreign records there."""
        self._foreign = 0
        self._counted_to = 0

    @property
    def foreign(self) -> int:
        return self._foreign

    def start(self) -> int:
        with self._unavailable():
            return self._patiently(_NOT_READ, lambda: self._requests.earliest(self._topic)) - 1

    def read(self, after: int) -> Sequence[Entry]:
        entries: list[Entry] = []
        if self._is_read_only:
            self._requests.forget_leader(self._topic)
        offset = self._next_offset(after)
        is_new, counted = after == BEGINNING, self._foreign
        while True:
            found = self._fetched(offset)
            for batch in found.batches:
                if batch.count < batch.end - offset:
                    raise self._compacted(offset)
                entries += self._entries(batch)
                offset = batch.end
            if offset >= found.high_watermark:
                break
            if not found.batches:
                raise self._compacted(offset)
        self._read = entries[-1].position if entries else after, offset
        self._tell_of_foreign(self._foreign - counted, has_entries=bool(entries) or not is_new)
        return entries

    def append(self, after: int, body: bytes) -> Sequence[Entry] | None:
        sent = 0

        def produce() -> Appended | str:
            nonlocal sent
            sent += 1
            return self._requests.produce(self._topic, self._topic_id, body)

        try:
            answer = self._patiently("an entry was not acknowledged", produce, within_ms=APPENDED_WITHIN_MS)
        except BrokerUnavailableError as problem:
            raise OutcomeUnknownError(
                "the Kafka brokers did not acknowledge an entry of the command log: run the same step again",
                topic=self._topic,
                reason=str(problem),
            ) from problem
        if answer == "INCONSISTENT_TOPIC_ID":
            raise self._created_again()
        if isinstance(answer, str):
            refused = refusal(answer, _CHANGED.get(answer, _NOT_TAKEN), topic=self._topic)
            if sent > 1:
                raise OutcomeUnknownError(
                    "the Kafka brokers refuse an entry of the command log that was sent before without an answer: "
                    "correct what they refuse, then run the same step again",
                    topic=self._topic,
                    reason=str(refused),
                ) from refused
            raise refused
        if answer.topic_id is None or answer.offset != self._next_offset(after) or answer.time_ms < 0:
            return None
        self._read = answer.offset, answer.offset + 1
        return [Entry(answer.offset, answer.time_ms, body)]  # nothing is between, so nobody has to fetch it

    def trim(self, position: int) -> None:
        with suppress(BrokerUnavailableError):
            self._requests.delete_before(self._topic, position + 1)

    def close(self) -> None:
        self._requests.close()

    def _next_offset(self, after: int) -> int:
        return self._read[1] if self._read is not None and self._read[0] == after else after + 1

    def _entries(self, batch: RecordBatch) -> list[Entry]:
        """The entries in a batch. Other records are counted, each once."""
        entries = entries_in(batch)
        foreign = batch.count - len(entries)
        if foreign and not batch.is_intact():
            raise CorruptDataError(
                "records of the command log are damaged: their checksum does not hold",
                topic=self._topic,
                offset=batch.end - batch.count,
            )
        if foreign and batch.end > self._counted_to:
            self._foreign += foreign
            self._counted_to = batch.end
        return entries

    def _tell_of_foreign(self, count: int, *, has_entries: bool) -> None:
        if self._foreign and not has_entries:
            raise foreign_topic(self._topic)
        if count:
            _log.warning(
                "the topic %s of the ledger has records of another program, which are left out: %d more up to offset "
                "%d. Find out who writes to it, such as a copy of all topics of the cluster",
                self._topic,
                count,
                self._counted_to,
            )

    def _fetched(self, offset: int) -> Fetched:
        with self._unavailable():
            found = self._patiently(_NOT_READ, lambda: self._requests.fetch(self._topic, offset))
        if isinstance(found, Fetched):
            if found.topic_id != self._topic_id:
                raise self._created_again()
            return found
        if found == "OFFSET_OUT_OF_RANGE":
            raise self._out_of_range(offset)
        raise refusal(found, _NOT_READ, topic=self._topic)

    def _patiently(self, what: str, ask: Callable[[], T], within_ms: int | None = None) -> T:
        absence = _Absence(self._requests, self._topic, self._topic_id, self._clock)

        def asked() -> T:
            try:
                answer = ask()
            except BrokerUnavailableError:
                absence.check()
                raise
            if _passes(answer):
                absence.check()
            return answer

        return patiently(self._clock, what, asked, passes=_passes, within_ms=within_ms, topic=self._topic)

    @contextmanager
    def _unavailable(self) -> Iterator[None]:
        try:
            yield
        except BrokerUnavailableError as problem:
            raise StoreUnavailableError(
                "the Kafka brokers that keep the command log cannot be reached, or do not serve",
                topic=self._topic,
                reason=str(problem),
            ) from problem

    def _out_of_range(self, offset: int) -> OncelogError:
        if offset <= self.start():
            return TrimmedError("entries of the command log are gone", topic=self._topic, offset=offset)
        return CorruptDataError(
            "the topic of the command log lost its newest entries, or was created again",
            topic=self._topic,
            offset=offset,
        )

    def _compacted(self, offset: int) -> CorruptDataError:
        return CorruptDataError(
            "entries are gone from the middle of the command log's topic: was it compacted for a while?",
            topic=self._topic,
            offset=offset,
        )

    def _created_again(self) -> CorruptDataError:
        return CorruptDataError(
            "the topic of the command log was deleted and created again", topic=self._topic, was=self._topic_id
        )


class _Absence:
    """Notices that a topic was deleted, while requests to it are repeated.

    Args:
        requests, topic, topic_id, clock: as of `PartitionLog`.
    """

    def __init__(self, requests: PartitionRequests, topic: str, topic_id: str, clock: Clock) -> None:
        self._requests = requests
        self._topic = topic
        self._topic_id = topic_id
        self._clock = clock
        self._began_ms = clock.monotonic_ms()
        self._absent_ms: int | None = None

    def check(self) -> None:
        """Called after each request without an answer.

        Raises:
            CorruptDataError: the topic was deleted.
        """
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._began_ms < GONE_AFTER_MS:
            return
        if self._requests.describe(self._topic).answer != _ABSENT:
            self._absent_ms = None
        elif self._absent_ms is None:
            self._absent_ms = now_ms
        elif now_ms - self._absent_ms >= GONE_FOR_MS:
            raise CorruptDataError(
                "the topic of the command log was deleted, and with it the history of the queries that use it: stop "
                "them; for sinks into Kafka, `oncelog kafka ledger rebuild` writes a new one",
                topic=self._topic,
                was=self._topic_id,
            )


def _passes(answer: object) -> bool:
    return isinstance(answer, str) and answer in PASSING
