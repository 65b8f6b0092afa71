"""Participants of a batch: their transactional ids, what is recorded about them, and whether they may be decided. Pure.

A participant is one task's transaction. Its id is ``<prefix>-<partition>-<lease>.<stage attempt>.<attempt>``. A retry
or a speculative copy has another id than the task that it replaces, and a newer driver has another lease. Hence nobody
begins a transaction under an id whose last transaction is not known to be over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

MARGIN_MS = 120_000
"""How much time a participant must have left at the decision, so that a driver that dies after it can come back."""

LOOK_MS = 10_000
"""How old the check of the participants may be at the decision. If the driver is stopped in between, transactions may
time out or be aborted. Together with a step on the ledger (TRANSACT_DEADLINE_MS), it is well within the margin."""

CHECKS = 5
"""How often a driver checks again because too much time passed after a check; then it gives up."""

_ABORTED = frozenset({"PrepareAbort", "CompleteAbort"})

ONGOING = "Ongoing"
"""Kafka's name of the state in which a transaction can be committed."""

OWN_EPOCH_FROM = 2
"""The transaction version from which on each transaction has an epoch of its own (KIP-890)."""

_ID = re.compile(
    r"(?P<prefix>.+)-(?P<partition>[0-9]{1,19})-(?P<lease>[0-9]{1,19})\.(?P<stage>[0-9]{1,19})\.(?P<attempt>[0-9]{1,19})",
    re.DOTALL,
)
"""Brokers also list the ids of other programs, with characters that are no ASCII digits, or with too many digits."""


_TOKEN_GROUP = re.compile("oncelog-.+-[0-9]+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ParticipantId:
    """The parts of a participant's transactional id."""

    prefix: str
    partition: int
    lease: int
    stage_attempt: int
    attempt: int

    @classmethod
    def parse(cls, transactional_id: str) -> Self | None:
        """Parse an id; None if it is not a participant's."""
        found = _ID.fullmatch(transactional_id)
        if found is None:
            return None
        return cls(
            found["prefix"], int(found["partition"]), int(found["lease"]), int(found["stage"]), int(found["attempt"])
        )

    def __str__(self) -> str:
        return f"{self.prefix}-{self.partition}-{self.lease}.{self.stage_attempt}.{self.attempt}"


def token_group(prefix: str, partition: int) -> str:
    """The consumer group in which a participant's token is committed."""
    return f"{token_group_prefix(prefix)}-{partition}"


def token_group_prefix(prefix: str) -> str:
    """The common prefix of a sink's token groups."""
    return f"oncelog-{prefix}"


def is_token_group(group: str) -> bool:
    """Whether a consumer group has the name of one in which tokens are committed. Nobody reads with such a group."""
    return _TOKEN_GROUP.fullmatch(group) is not None


class ProducerIdAndEpoch(NamedTuple):
    """Identifies a producer, and at transaction version 2 its transaction too."""

    producer_id: int
    epoch: int


class Handover(NamedTuple):
    """Whom a coordinator expects under an id after it has committed a transaction.

    Attributes:
        ended: the producer of the committed transaction.
        following: the producer of the next one, as the coordinator answered to the commit.
    """

    ended: ProducerIdAndEpoch
    following: ProducerIdAndEpoch


@dataclass(frozen=True, slots=True)
class Participant:
    """A prepared participant, as its task reported it and the ledger keeps it.

    Attributes:
        partition: of the batch: Spark's partition, or the number of the content-hash bucket.
        producer_id, epoch: identify the transaction.
        transaction_version: 2 if every transaction has its own epoch, else 1; it decides how to end the transaction.
        rows: number of rows.
        content_hash: of the rows in any order; 0 if it was not asked for.
        token_topic: the token is an offset of this topic's partition 0.
        is_lost: the broker aborted it after the decision, as its token shows; it must be rewritten.
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

    @property
    def producer(self) -> ProducerIdAndEpoch:
        return ProducerIdAndEpoch(self.producer_id, self.epoch)


@dataclass(frozen=True, slots=True)
class Transaction:
    """What a transaction coordinator says about a transactional id.

    Attributes:
        state: Kafka's name of the state.
        started_ms: when the transaction began, by the broker's clock; below 0 if none is open.
        partitions: ``topic-number`` of each partition in the transaction.
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
        wall_ms: by the wall clock, which may jump.
        running_ms: by the monotonic clock, which on some systems stops while the machine is suspended.
    """

    wall_ms: int
    running_ms: int

    def since_ms(self, earlier: Instant) -> int:
        """The time since `earlier`, by the clock that shows more."""
        return max(self.wall_ms - earlier.wall_ms, self.running_ms - earlier.running_ms)

    def earlier(self, duration_ms: int) -> Instant:
        """The moment `duration_ms` before this one."""
        return Instant(self.wall_ms - duration_ms, self.running_ms - duration_ms)


@dataclass(frozen=True, slots=True)
class Moment:
    """When a check is made.

    Attributes:
        now_ms: by this process's wall clock.
        job_ms: how long ago the batch's job began, by a clock that never jumps; no participant is older.
    """

    now_ms: int
    job_ms: int

    def left_ms(self, transaction: Transaction) -> int:
        """How much time a transaction has left, by the more generous of two estimates.

        The estimate by the job's age is too low for a transaction that began late in a long job. The estimate by the
        wall clock is wrong if that clock differs from the broker's. It is enough if one of them leaves enough time.
        """
        by_job = transaction.timeout_ms - self.job_ms
        by_wall_clock = transaction.started_ms + transaction.timeout_ms - self.now_ms
        return max(by_job, by_wall_clock)


def margin_ms(timeout_ms: int) -> int:
    """How much time a participant must have left at the decision: at most a quarter of the time-out."""
    return min(MARGIN_MS, timeout_ms // 4)


def check_age_ms(timeout_ms: int) -> int:
    """How old a check may be at the decision: at most half of the margin."""
    return min(LOOK_MS, margin_ms(timeout_ms) // 2)


def find_unprepared(
    participants: Iterable[Participant], found: Mapping[str, Transaction], moment: Moment
) -> dict[str, str]:
    """Which participants must not be decided, and why.

    Args:
        participants: what the tasks reported.
        found: what the coordinators say, by transactional id.
        moment: when the coordinators were asked.

    Returns:
        The reasons, by transactional id; empty if the batch may be decided.
    """
    # If the driver's clock is behind the brokers', at least the newest transaction shows it.
    newest_ms = max((one.started_ms for one in found.values()), default=moment.now_ms)
    moment = Moment(max(moment.now_ms, newest_ms), moment.job_ms)
    problems = {}
    for participant in participants:
        reason = _reason(participant, found.get(participant.transactional_id), moment)
        if reason is not None:
            problems[participant.transactional_id] = reason
    return problems


def _reason(ours: Participant, found: Transaction | None, moment: Moment) -> str | None:
    if found is None:
        return "the coordinator does not know it"
    if (found.producer_id, found.epoch - 1) == ours.producer and found.state in _ABORTED:
        return f"it was aborted, by an operator or after its time-out of {found.timeout_ms} ms ({found.state})"
    if (found.producer_id, found.epoch) != ours.producer:
        return f"another producer has the id ({found.producer_id}.{found.epoch})"
    if found.state != ONGOING:
        return f"it is {found.state}"
    if moment.left_ms(found) < margin_ms(found.timeout_ms):
        return f"it times out in {moment.left_ms(found)} ms"
    return None


def by_time_left(participants: Iterable[Participant], found: Mapping[str, Transaction]) -> list[Participant]:
    """The participants in the order in which to end them: those that time out first come first."""

    def ends_ms(participant: Participant) -> int:
        transaction = found.get(participant.transactional_id)
        return 0 if transaction is None else transaction.started_ms + transaction.timeout_ms

    return sorted(participants, key=ends_ms)


Listed = tuple[str, str]
"""A transactional id and its state at the coordinator."""


def find_losers(prefix: str, lease: int, winners: Iterable[Participant], found: Iterable[Listed]) -> list[str]:
    """What to abort after a job: open transactions of this lease or an older one that are not among the winners.

    Newer leases belong to a newer driver. A driver that does not know yet that it was superseded leaves them alone.
    """
    kept = {participant.transactional_id for participant in winners}
    return [name for name, state in found if state == ONGOING and name not in kept and _lease(name, prefix) <= lease]


def find_old(prefix: str, lease: int, found: Iterable[Listed]) -> list[str]:
    """What to fence when a lease begins: what older leases left open, and every id of the previous lease.

    The driver of the previous lease may still be running, with tasks that are about to begin. The tasks of earlier
    leases were fenced when the previous lease began.
    """
    old = [(name, state) for name, state in found if _lease(name, prefix) < lease]
    before = max((_lease(name, prefix) for name, _ in old), default=0)
    return [name for name, state in old if state == ONGOING or _lease(name, prefix) == before]


def of_prefix(prefix: str, found: Iterable[Listed]) -> list[Listed]:
    """The ids of the participants of one sink."""
    return [(name, state) for name, state in found if _lease(name, prefix) < _NONE]


_NONE = 2**63


def _lease(transactional_id: str, prefix: str) -> int:
    """The lease of an id; higher than any lease if the id does not belong to this prefix."""
    name = ParticipantId.parse(transactional_id)
    return name.lease if name is not None and name.prefix == prefix else _NONE
