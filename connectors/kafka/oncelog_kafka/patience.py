"""Repeats requests to the brokers, with pauses, until there is an answer or the patience ends.

Every request is idempotent, so it may be sent again if the answer was lost, or says that a coordinator moved or is
loading. Neither says what the cluster did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from oncelog.errors import InvariantViolation
from oncelog.ports import Clock
from oncelog_kafka.errors import BrokerAccessError, BrokerUnavailableError
from oncelog_kafka.protocol import end_txn
from oncelog_kafka.protocol.extents import Extents
from oncelog_kafka.protocol.participants import Listed, Participant, Transaction
from oncelog_kafka.protocol.ports import Ended, Offsets, PartitionStates, Requests

T = TypeVar("T")

PATIENCE_MS = 60_000
"""How long a request is repeated while brokers are unavailable; the default of Kafka's producer (max.block.ms)."""

PAUSE_MS = 20
"""The first pause between two tries: a coordinator that is busy with the last transition needs some milliseconds."""

LONGEST_PAUSE_MS = 500

SEEN_WITHIN_MS = 2_000
"""How long a broker may not know a topic that was created a moment ago."""

_MOVED = frozenset(
    {
        "FENCED_LEADER_EPOCH",
        "KAFKA_STORAGE_ERROR",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_FOR_PARTITION",
        "NOT_LEADER_OR_FOLLOWER",  # the name that Java's client has for the one before
        "OFFSET_NOT_AVAILABLE",
        "UNKNOWN_LEADER_EPOCH",
    }
)
"""A broker's answers if it is not the leader of the partition, or has just become it."""

_UNSEEN = frozenset({"UNKNOWN_TOPIC_ID", "UNKNOWN_TOPIC_OR_PARTITION"})


class PatientBrokers:
    """Implements `ports.Brokers` by repeating `ports.Requests`.

    Args:
        requests: send a request to the cluster once.
        clock: measures how long to wait.
    """

    def __init__(self, requests: Requests, clock: Clock) -> None:
        self.requests = requests
        self._clock = clock

    @property
    def clock(self) -> Clock:
        return self._clock

    def close(self) -> None:
        """Close the connections."""
        self.requests.close()

    # Transactions

    def commit(self, participants: Sequence[Participant]) -> list[Ended]:
        return self.requests.end(participants)

    def fence(self, transactional_ids: Iterable[str], timeout_ms: int) -> None:
        waiting = list(transactional_ids)
        for _ in self.tries("a transaction could not be aborted"):
            answers = self.requests.init(waiting, timeout_ms)
            for name, answer in zip(waiting, answers, strict=True):
                if answer != "NONE" and answer not in end_txn.PASSING:
                    raise refusal(answer, "a transaction could not be aborted", transactional_id=name)
            waiting = [name for name, answer in zip(waiting, answers, strict=True) if answer != "NONE"]
            if not waiting:
                return

    def describe(self, transactional_ids: Iterable[str]) -> dict[str, Transaction]:
        found: dict[str, Transaction] = {}
        waiting = list(transactional_ids)
        for _ in self.tries("transactions could not be described"):
            retried = []
            for name, answer in zip(waiting, self.requests.describe(waiting), strict=True):
                if isinstance(answer, Transaction):
                    found[name] = answer
                elif answer in end_txn.PASSING:
                    retried.append(name)
                elif answer != "TRANSACTIONAL_ID_NOT_FOUND":
                    raise refusal(answer, "transactions could not be described", transactional_id=name)
            waiting = retried
            if not waiting:
                break
        return found

    def states(self, rows: Extents, others: Iterable[tuple[str, int]] = ()) -> PartitionStates:
        found: PartitionStates = {}
        waiting, left = dict(rows), set(others)
        asked_ms = self._clock.monotonic_ms()
        for _ in self.tries("partitions could not be described"):
            answers = self.requests.states(waiting, sorted(left))
            passing = _MOVED | end_txn.PASSING
            if self._clock.monotonic_ms() - asked_ms < SEEN_WITHIN_MS:
                passing |= _UNSEEN
            again = {one for one, answer in answers.items() if isinstance(answer, str) and answer in passing}
            found |= {one: answer for one, answer in answers.items() if one not in again}
            waiting = {one: extent for one, extent in waiting.items() if (one.topic, one.partition) in again}
            left &= again
            if not again:
                break
        return found

    def list_ids(self, states: Sequence[str] = ()) -> list[Listed]:
        return sorted(self._patiently("transactions could not be listed", lambda: self.requests.list_ids(states)))

    # Offsets

    def offsets(self, groups: Mapping[str, Iterable[tuple[str, int]] | None]) -> dict[str, Offsets]:
        found: dict[str, Offsets] = {}
        waiting = {group: None if wanted is None else sorted(wanted) for group, wanted in groups.items()}
        for _ in self.tries("offsets could not be read"):
            for group, answer in self.requests.offsets(waiting).items():
                if not isinstance(answer, str):
                    found[group] = answer
                    del waiting[group]
                elif answer not in end_txn.PASSING:
                    raise refusal(answer, "offsets of a group could not be read", group_id=group)
            if not waiting:
                break
        return found

    # Cluster

    def partitions_of(self, topic: str) -> int | None:
        return self._patiently("a topic could not be described", lambda: self.requests.partitions_of(topic))

    def keeps_ledger(self, topic: str) -> bool:
        return self._patiently("a topic could not be read", lambda: self.requests.keeps_ledger(topic))

    def topic_settings(self, topic: str) -> Mapping[str, str]:
        try:
            return self._patiently("a topic's settings could not be read", lambda: self.requests.topic_settings(topic))
        except BrokerAccessError:
            return {}

    def cluster_id(self) -> str:
        return self._patiently("the cluster could not be described", self.requests.cluster_id)

    def broker_setting(self, name: str) -> int | None:
        try:
            return self._patiently("a broker's settings could not be read", lambda: self.requests.broker_setting(name))
        except BrokerAccessError:
            return None

    # Time

    def _patiently(self, what: str, ask: Callable[[], T]) -> T:
        return patiently(self._clock, what, ask)

    def tries(self, what: str, **fields: object) -> Iterator[None]:
        return turns(self._clock, what, within_ms=None, **fields)


def patiently(
    clock: Clock,
    what: str,
    ask: Callable[[], T],
    *,
    passes: Callable[[T], bool] = lambda answer: False,
    within_ms: int | None = None,
    **fields: object,
) -> T:
    """Ask until there is an answer or the patience ends.

    Args:
        what, within_ms, fields: as of `turns`.
        passes: whether an answer says only that there is none now.

    Raises:
        BrokerUnavailableError: the patience ended.
    """
    for _ in turns(clock, what, within_ms=within_ms, **fields):
        with suppress(BrokerUnavailableError):
            answer = ask()
            if not passes(answer):
                return answer
    raise InvariantViolation("turns end with an error")


def turns(clock: Clock, what: str, *, within_ms: int | None = None, **fields: object) -> Iterator[None]:
    """Yield once for each try, with pauses in between, until the caller stops iterating.

    Args:
        what: the start of the error message, such as "offsets could not be read".
        within_ms: how long to try; None for PATIENCE_MS.
        fields: of the error.

    Raises:
        BrokerUnavailableError: the patience ended.
    """
    patience_ms = PATIENCE_MS if within_ms is None else within_ms
    deadline_ms = clock.monotonic_ms() + patience_ms
    pause_ms = PAUSE_MS
    while True:
        yield
        if clock.monotonic_ms() > deadline_ms:
            raise BrokerUnavailableError(
                f"{what}: the brokers cannot be reached, or do not answer; try again when they do",
                waited_ms=patience_ms,
                **fields,
            )
        clock.sleep_ms(pause_ms)
        pause_ms = min(2 * pause_ms, LONGEST_PAUSE_MS)


def refusal(answer: str, what: str, **fields: object) -> BrokerAccessError:
    """The error for an answer that will not change if the request is repeated."""
    return BrokerAccessError(f"{what}: the brokers refuse it", answer=answer, **fields)
