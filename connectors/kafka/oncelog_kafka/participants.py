"""Participants of a batch: their transactional ids, what is recorded of them, and whether they may be decided. Pure.

A participant is one task's transaction. Its id is ``<prefix>-<partition>-<lease>.<stage attempt>.<attempt>``: a retry
or a speculative copy has another id than what it replaces, and a newer driver has another lease, so that nobody ever
begins a transaction of an id whose last one is not known to be over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

MARGIN_MS = 120_000
"""What must be left of a participant's time before the decision: a driver may die behind it, and needs to come back."""

LOOK_MS = 10_000
"""How old a look at the participants may be when the batch is decided by it. A driver may be stopped in between, and
their transactions time out or are aborted meanwhile. With a step on the ledger (TRANSACT_DEADLINE_MS) it is well within
the margin."""

LOOKS = 5
"""A driver that is stopped, or needs longer, behind each of so many looks gives up."""

ONGOING = "Ongoing"
"""Kafka's name of the state in which a transaction can be committed."""

_ID = re.compile(
    r"(?P<prefix>.+)-(?P<partition>[0-9]{1,19})-(?P<lease>[0-9]{1,19})\.(?P<stage>[0-9]{1,19})\.(?P<attempt>[0-9]{1,19})",
    re.DOTALL,
)
"""Brokers also list ids that other programs made up, of digits that Python takes for none, or for too many."""


@dataclass(frozen=True, slots=True)
class ParticipantId:
    """A participant's transactional id, taken apart."""

    prefix: str
    partition: int
    lease: int
    stage_attempt: int
    attempt: int

    @classmethod
    def parse(cls, transactional_id: str) -> Self | None:
        """Read an id; None if it is no participant's."""
        found = _ID.fullmatch(transactional_id)
        if found is None:
            return None
        return cls(
            found["prefix"], int(found["partition"]), int(found["lease"]), int(found["stage"]), int(found["attempt"])
        )

    def __str__(self) -> str:
        return f"{self.prefix}-{self.partition}-{self.lease}.{self.stage_attempt}.{self.attempt}"


def token_group(prefix: str, partition: int) -> str:
    """The consumer group whose offset is the token of a participant."""
    return f"{token_group_prefix(prefix)}-{partition}"


def token_group_prefix(prefix: str) -> str:
    """What the token groups of a sink have in common."""
    return f"oncelog-{prefix}"


@dataclass(frozen=True, slots=True)
class Participant:
    """A prepared participant, as its task reported it and the ledger keeps it.

    Attributes:
        transactional_id: of the transaction.
        partition: of the batch: Spark's, or the number of the content-hash bucket.
        producer_id, epoch: name the transaction.
        transaction_version: 2 if every transaction has an epoch of its own, else 1; how to end it.
        rows: in it.
        content_hash: of them, whatever their order; 0 where it is not asked for.
        token_topic: partition 0 of it carries the token.
        is_lost: the broker aborted it after the decision, by the evidence of the token; it must be rewritten.
    """

    transactional_id: str
    partition: int
    producer_id: int
    epoch: int
    transaction_version: int
    rows: int
    content_hash: int
    token_topic: str
    is_lost: bool = False


@dataclass(frozen=True, slots=True)
class Transaction:
    """What a transaction coordinator says of a transactional id.

    Attributes:
        state: Kafka's name for it.
        started_ms: when the transaction began, by the broker's clock; below 0 when none is open.
        partitions: ``topic-number`` of each partition in it.
    """

    transactional_id: str
    state: str
    producer_id: int
    epoch: int
    timeout_ms: int
    started_ms: int
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Instant:
    """A moment by two clocks of one process.

    Attributes:
        wall_ms: of the wall's clock, which may jump.
        running_ms: of one for durations, which on some systems stands still while the machine is suspended.
    """

    wall_ms: int
    running_ms: int

    def since_ms(self, earlier: Instant) -> int:
        """How much later it is, by the clock that says more."""
        return max(self.wall_ms - earlier.wall_ms, self.running_ms - earlier.running_ms)

    def earlier(self, duration_ms: int) -> Instant:
        """The moment so long before."""
        return Instant(self.wall_ms - duration_ms, self.running_ms - duration_ms)


@dataclass(frozen=True, slots=True)
class Moment:
    """When a check is made.

    Attributes:
        now_ms: by this process's wall clock.
        job_ms: how long ago the batch's job began, by a clock that never jumps: no participant is older.
    """

    now_ms: int
    job_ms: int

    def left_ms(self, transaction: Transaction) -> int:
        """How long a transaction may still be open, by the more generous of two bounds.

        Both hold only one way: the job's age says nothing of a transaction that began late in a long job, and the
        wall clock may differ from the broker's. Either one that leaves enough time is proof enough.
        """
        by_job = transaction.timeout_ms - self.job_ms
        by_wall_clock = transaction.started_ms + transaction.timeout_ms - self.now_ms
        return max(by_job, by_wall_clock)


def margin_ms(timeout_ms: int) -> int:
    """What must be left of a time-out; a quarter of a short one."""
    return min(MARGIN_MS, timeout_ms // 4)


def look_ms(timeout_ms: int) -> int:
    """How old a look may be; half of the margin if that is short."""
    return min(LOOK_MS, margin_ms(timeout_ms) // 2)


def find_unprepared(
    participants: Iterable[Participant], found: Mapping[str, Transaction], moment: Moment
) -> dict[str, str]:
    """Which participants must not be decided, and why.

    Args:
        participants: what the tasks reported.
        found: what the coordinators say, by transactional id.
        moment: of the look at them.

    Returns:
        the reasons, by transactional id; empty if the batch may be decided.
    """
    problems = {}
    for participant in participants:
        reason = _reason(participant, found.get(participant.transactional_id), moment)
        if reason is not None:
            problems[participant.transactional_id] = reason
    return problems


def _reason(ours: Participant, found: Transaction | None, moment: Moment) -> str | None:
    if found is None:
        return "the coordinator does not know it"
    if (found.producer_id, found.epoch) != (ours.producer_id, ours.epoch):
        return f"another producer has the id ({found.producer_id}.{found.epoch})"
    if found.state != ONGOING:
        return f"it is {found.state}"
    if moment.left_ms(found) < margin_ms(found.timeout_ms):
        return f"it times out in {moment.left_ms(found)} ms"
    return None


def by_time_left(participants: Iterable[Participant], found: Mapping[str, Transaction]) -> list[Participant]:
    """In the order in which to end them: what times out first comes first."""

    def ends_ms(participant: Participant) -> int:
        transaction = found.get(participant.transactional_id)
        return 0 if transaction is None else transaction.started_ms + transaction.timeout_ms

    return sorted(participants, key=ends_ms)


Listed = tuple[str, str]
"""A transactional id and the state that its coordinator has for it."""


def find_losers(prefix: str, lease: int, winners: Iterable[Participant], found: Iterable[Listed]) -> list[str]:
    """What to abort behind a job: open transactions of this lease or older ones that are no participant.

    Newer leases belong to a newer driver, and a driver that does not know yet that it was superseded leaves them alone.
    """
    kept = {participant.transactional_id for participant in winners}
    return [name for name, state in found if state == ONGOING and name not in kept and _lease(name, prefix) <= lease]


def find_old(prefix: str, lease: int, found: Iterable[Listed]) -> list[str]:
    """What to fence when a lease begins: what older ones left open, and every id of the one before.

    The driver of the lease before may be alive and its tasks about to begin; those of leases before that one were
    fenced when it began.
    """
    old = [(name, state) for name, state in found if _lease(name, prefix) < lease]
    before = max((_lease(name, prefix) for name, _ in old), default=0)
    return [name for name, state in old if state == ONGOING or _lease(name, prefix) == before]


def of_prefix(prefix: str, found: Iterable[Listed]) -> list[Listed]:
    """The ids of the participants of one sink."""
    return [(name, state) for name, state in found if _lease(name, prefix) < _NONE]


_NONE = 2**63


def _lease(transactional_id: str, prefix: str) -> int:
    """The lease of an id; beyond all leases if it is none of this prefix."""
    name = ParticipantId.parse(transactional_id)
    return name.lease if name is not None and name.prefix == prefix else _NONE
