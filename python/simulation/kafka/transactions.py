"""What a transaction coordinator does with a transactional id: the part of Kafka's state machine that sinks use. Pure.

    Empty ──add partitions──> Ongoing ──end──> PrepareCommit ──markers──> CompleteCommit
                                 └──end, init, time-out──> PrepareAbort ──markers──> CompleteAbort

Every function takes what the coordinator knows, and returns what it knows afterwards, with its answer. At transaction
version 2 each end raises the epoch (KIP-890); fencing, by an init or a time-out, raises it at both versions.
tests/test_simulated_brokers.py checks that random scripts get the same answers from real brokers of both versions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

TopicPartition = tuple[str, int]

NONE = "NONE"
FENCED = "PRODUCER_FENCED"
CONCURRENT = "CONCURRENT_TRANSACTIONS"
NO_MAPPING = "INVALID_PRODUCER_ID_MAPPING"
NOT_IN_STATE = "INVALID_TXN_STATE"

MAX_EPOCH = 2**15 - 1
"""The last epoch. Only the coordinator uses it; producers get at most one less."""

_NEVER = -1


class State(StrEnum):
    """Kafka's names of the states."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


ENDING = frozenset({State.PREPARE_COMMIT, State.PREPARE_ABORT})
_COMPLETE = {State.PREPARE_COMMIT: State.COMPLETE_COMMIT, State.PREPARE_ABORT: State.COMPLETE_ABORT}

_END = "the transaction ends"

_ENDS_V1 = {
    State.EMPTY: (NOT_IN_STATE, NOT_IN_STATE),
    State.ONGOING: (_END, _END),
    State.PREPARE_COMMIT: (CONCURRENT, NOT_IN_STATE),
    State.PREPARE_ABORT: (NOT_IN_STATE, CONCURRENT),
    State.COMPLETE_COMMIT: (NONE, NOT_IN_STATE),
    State.COMPLETE_ABORT: (NOT_IN_STATE, NONE),
}
"""The answers to an EndTxn below version 5 with the id's epoch, by the id's state: for a commit, for an abort."""

_ENDS_V2 = {
    (State.EMPTY, False): (NOT_IN_STATE, _END),
    (State.ONGOING, False): (_END, _END),
    (State.PREPARE_COMMIT, True): (CONCURRENT, NOT_IN_STATE),
    (State.PREPARE_ABORT, True): (NOT_IN_STATE, CONCURRENT),
    (State.COMPLETE_COMMIT, True): (NONE, NOT_IN_STATE),
    (State.COMPLETE_COMMIT, False): (NOT_IN_STATE, _END),
    (State.COMPLETE_ABORT, True): (NOT_IN_STATE, NONE),
    (State.COMPLETE_ABORT, False): (NOT_IN_STATE, _END),
}
"""The same from version 5 on, by the state and by whether the request has the epoch before the id's. Any other request
is fenced."""


class Identity(NamedTuple):
    """How a producer identifies itself in its requests."""

    transactional_id: str
    producer_id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Known:
    """What a coordinator knows about an id.

    Attributes:
        started_ms: when the last transaction began; below 0 if none did.
        updated_ms: of the last change; decides when the id expires.
        partitions: of the open transaction, or those that still need a marker of an ending one.
        next_producer_id: becomes the id's producer id when the transaction that used up the epochs is complete.
        previous_producer_id: the producer id whose epochs are used up.
        version: of the transaction that is ending, or that ended last; decides the format of its markers.
    """

    producer_id: int
    epoch: int
    timeout_ms: int
    updated_ms: int
    state: State = State.EMPTY
    started_ms: int = _NEVER
    partitions: frozenset[TopicPartition] = frozenset()
    next_producer_id: int = _NEVER
    previous_producer_id: int = _NEVER
    version: int = 1


class Step(NamedTuple):
    """What the coordinator knows after a request, and its answer."""

    known: Known
    answer: str


class Coordinator(NamedTuple):
    """A coordinator's clock and settings.

    Attributes:
        version: the cluster's transaction version.
        now_ms: its wall clock.
        new_producer_id: returns an unused producer id.
        max_epoch: a small one makes producers use up their epochs soon.
    """

    version: int
    now_ms: int
    new_producer_id: Callable[[], int]
    max_epoch: int = MAX_EPOCH

    def init(self, known: Known | None, timeout_ms: int) -> Step:
        """InitProducerId by a producer without a previous producer id."""
        if known is None:
            return Step(Known(self.new_producer_id(), 0, timeout_ms, self.now_ms), NONE)
        if known.state in ENDING:
            return Step(known, CONCURRENT)
        if known.state is State.ONGOING:
            return Step(self.fence(known), CONCURRENT)
        empty = replace(self._moved(known, State.EMPTY), timeout_ms=timeout_ms, started_ms=_NEVER)
        if self._is_exhausted(known):
            return Step(replace(empty, producer_id=self.new_producer_id(), epoch=0), NONE)
        return Step(replace(empty, epoch=known.epoch + 1), NONE)

    def add_partitions(self, known: Known | None, who: Identity, partitions: frozenset[TopicPartition]) -> Step | str:
        """AddPartitionsToTxn and AddOffsetsToTxn, and what a write does implicitly at version 2."""
        if known is None or known.producer_id != who.producer_id:
            return NO_MAPPING
        if known.epoch != who.epoch:
            return FENCED
        if known.state in ENDING:
            return CONCURRENT
        added = known.partitions | partitions
        if known.state is not State.ONGOING:
            known = replace(known, started_ms=self.now_ms)
        elif added == known.partitions:
            return NONE
        return Step(replace(self._moved(known, State.ONGOING), partitions=added), NONE)

    def end(self, known: Known | None, who: Identity, *, is_commit: bool, version: int) -> Step | str:
        """EndTxn, as a client of this transaction version sends it."""
        if known is None:
            return NO_MAPPING
        answer = self._end_answer(known, who, version)[0 if is_commit else 1]
        if answer != _END:
            return answer
        return Step(self._prepare(known, is_commit=is_commit, version=version), NONE)

    def _end_answer(self, known: Known, who: Identity, version: int) -> tuple[str, str]:
        used_up = self.max_epoch - 1, 0
        has_rotated = known.previous_producer_id == who.producer_id and (who.epoch, known.epoch) == used_up
        if known.producer_id != who.producer_id and not (version >= 2 and has_rotated):
            return NO_MAPPING, NO_MAPPING
        is_repeated = version >= 2 and (has_rotated or known.epoch == who.epoch + 1)
        if not is_repeated and known.epoch != who.epoch:
            return FENCED, FENCED
        fenced = FENCED, FENCED
        answers = _ENDS_V1[known.state] if version < 2 else _ENDS_V2.get((known.state, is_repeated), fenced)
        return (CONCURRENT, CONCURRENT) if is_completing(known) and FENCED not in answers else answers

    def fence(self, known: Known) -> Known:
        """Raise the epoch of an open transaction's producer, and abort; the abort does not raise the epoch again."""
        fenced = self._ended(known, State.PREPARE_ABORT, self.version)
        return replace(fenced, epoch=min(known.epoch + 1, self.max_epoch))

    def complete(self, known: Known) -> Known:
        """Complete a transaction whose markers are all written."""
        done = replace(self._moved(known, _COMPLETE[known.state]), partitions=frozenset())
        if known.next_producer_id == _NEVER:
            return done
        return replace(done, producer_id=known.next_producer_id, epoch=0, next_producer_id=_NEVER)

    def is_timed_out(self, known: Known) -> bool:
        return known.state is State.ONGOING and known.started_ms + known.timeout_ms < self.now_ms

    def is_expired(self, known: Known, expiration_ms: int) -> bool:
        """Whether the id was unused for too long; an id with an open transaction never expires."""
        is_idle = known.state is not State.ONGOING and known.state not in ENDING
        return is_idle and known.updated_ms <= self.now_ms - expiration_ms

    def _prepare(self, known: Known, *, is_commit: bool, version: int) -> Known:
        ended = self._ended(known, State.PREPARE_COMMIT if is_commit else State.PREPARE_ABORT, version)
        if version < 2:
            return ended
        successor = self.new_producer_id() if self._is_exhausted(known) else _NEVER
        return replace(ended, epoch=min(known.epoch + 1, self.max_epoch), next_producer_id=successor)

    def _ended(self, known: Known, state: State, version: int) -> Known:
        started_ms = known.started_ms if known.state is State.ONGOING else self.now_ms
        return replace(self._moved(known, state), started_ms=started_ms, version=version)

    def _moved(self, known: Known, state: State) -> Known:
        return replace(known, state=state, updated_ms=self.now_ms, previous_producer_id=known.producer_id)

    def _is_exhausted(self, known: Known) -> bool:
        return known.epoch >= self.max_epoch - 1


def following(known: Known, transactional_id: str) -> Identity:
    """The producer of the id's next transaction, as the answer to an EndTxn of version 5 names it."""
    if known.next_producer_id != _NEVER:
        return Identity(transactional_id, known.next_producer_id, 0)
    return Identity(transactional_id, known.producer_id, known.epoch)


def verify(known: Known | None, who: Identity, partition: TopicPartition) -> str:
    """The answer to a partition's leader that asks whether a write belongs to an open transaction (version 1)."""
    if known is None or known.producer_id != who.producer_id:
        return NO_MAPPING
    if known.epoch != who.epoch:
        return FENCED
    if known.state in ENDING:
        return CONCURRENT
    return NONE if partition in known.partitions else "TRANSACTION_ABORTABLE"


def is_completing(known: Known) -> bool:
    """Whether all markers of an ending transaction are written, so that its coordinator will complete it next."""
    return known.state in ENDING and not known.partitions


def without_partition(known: Known, partition: TopicPartition) -> Known:
    """The same after the marker of a partition was written."""
    return replace(known, partitions=known.partitions - {partition})
