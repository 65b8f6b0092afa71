"""Checks a batch's participants right before it is decided: only a batch that can still be committed is decided.

First their coordinators are asked, then the leaders of all partitions that they have written to; see
partition_checks.py. What happens to a transaction after that, until its commit is written, goes unnoticed. If the
commit is not sent at once, `finishing` asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from oncelog.batches.rules import BatchRequest
from oncelog.crash_points import reach
from oncelog.errors import NotPreparedError
from oncelog_kafka.crash_points import KafkaCrashPoint
from oncelog_kafka.errors import BrokerAccessError
from oncelog_kafka.protocol.participants import CHECKS, Instant, Moment, Transaction, check_age_ms, find_unprepared
from oncelog_kafka.protocol.ports import Brokers
from oncelog_kafka.sinks import partition_checks
from oncelog_kafka.sinks.jobs import Written

RECENT_MS = 1_000
"""How old a check may be when the commits are sent. An operator may end an open transaction at any time."""

_MAY_NOT_READ = "TOPIC_AUTHORIZATION_FAILED"


class _OutdatedCheckError(Exception):
    """Too much time has passed since the participants were checked."""


class ParticipantCheck:
    """The check of one attempt at a batch.

    Args:
        now: returns the current time.
        timeout_ms: of the participants' transactions.
        request: identifies the batch in errors.

    Attributes:
        found: what the coordinators said about the participants at the last check.
    """

    def __init__(self, brokers: Brokers, now: Callable[[], Instant], timeout_ms: int, request: BatchRequest) -> None:
        self._brokers = brokers
        self._now = now
        self._timeout_ms = timeout_ms
        self._request = request
        self._asked = now()
        self._outdated = 0
        self.found: Mapping[str, Transaction] = {}

    def run(self, written: Written, began: Instant) -> None:
        """Check that every participant can be committed.

        Args:
            written: what the tasks prepared.
            began: a time before the participants' job began.

        Raises:
            NotPreparedError: a participant can no longer be committed, or has too little time left.
            BrokerAccessError: the sink lacks a right that the check needs.
        """
        self._asked = self._now()
        found = self._brokers.describe(participant.transactional_id for participant in written.participants)
        now = self._now()
        moment = Moment(now_ms=now.wall_ms, job_ms=now.running_ms - began.running_ms)
        problems = find_unprepared(written.participants, found, moment) or self._find_changed(written, found)
        if problems:
            raise self._not_prepared(problems)
        self.found = found
        reach(KafkaCrashPoint.CHECKED)

    def ensure_recent(self) -> None:
        """Called in the step that relies on the check, right before the write. Fails if the check is too old."""
        if self._now().since_ms(self._asked) > check_age_ms(self._timeout_ms):
            raise _OutdatedCheckError

    def recover(self, problem: Exception) -> bool:
        """Whether the step failed because the check was too old, so that another check may help; see `Step`.

        Raises:
            NotPreparedError: that has happened too often.
        """
        if not isinstance(problem, _OutdatedCheckError):
            return False
        self._outdated += 1
        if self._outdated == CHECKS:
            raise self._not_prepared(
                {"": "after each check of the participants, too much time passed before the decision"}
            ) from None
        return True

    def is_recent(self) -> bool:
        """Whether the participants were checked just now, so that they need not be checked again before the commit."""
        return self._now().since_ms(self._asked) < RECENT_MS

    def _find_changed(self, written: Written, found: Mapping[str, Transaction]) -> dict[str, str]:
        rows = written.extents
        with_rows = {(one.topic, one.partition) for one in rows}
        states = self._brokers.states(rows, partition_checks.of_transactions(found.values()) - with_rows)
        refused = sorted({topic for topic, number in with_rows if states.get((topic, number)) == _MAY_NOT_READ})
        if refused:
            raise BrokerAccessError(
                "before a batch is decided, the sink asks the partitions whether they still have its rows: give its "
                "user the right READ on the topics",
                topics=refused,
            )
        return partition_checks.find_changed(written.participants, written.extents_of, found, states)

    def _not_prepared(self, problems: Mapping[str, str]) -> NotPreparedError:
        return NotPreparedError(
            "not every part of the batch is ready to be committed, so the batch was not decided; it is aborted, "
            "and the query's restart writes it again; if time ran out, raise transactionTimeoutMs or make batches "
            "smaller",
            prefix=self._request.prefix,
            batch_id=self._request.batch_id,
            problems=dict(problems),
        )
