"""Checks a batch's participants right before it is decided: only a batch that can still be committed is decided."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from oncelog.crash_points import reach
from oncelog.errors import NotPreparedError
from oncelog.protocol.batch_ledger import BatchRequest
from oncelog_kafka.crash_points import KafkaCrashPoint
from oncelog_kafka.kafka_rounds import KafkaRound
from oncelog_kafka.participants import LOOKS, Instant, Moment, Participant, Transaction, find_unprepared, look_ms
from oncelog_kafka.ports import Brokers


class _OldLookError(Exception):
    """Too much time has passed since the participants were checked."""


class Look:
    """The check of one attempt at a batch.

    Args:
        now: returns the current time.
        timeout_ms: of the participants' transactions.
        request: identifies the batch in errors.
    """

    def __init__(self, brokers: Brokers, now: Callable[[], Instant], timeout_ms: int, request: BatchRequest) -> None:
        self._brokers = brokers
        self._now = now
        self._timeout_ms = timeout_ms
        self._request = request

    def decide(
        self, participants: Sequence[Participant], began: Instant, step: Callable[[Callable[[], None]], KafkaRound]
    ) -> tuple[KafkaRound, dict[str, Transaction]]:
        """Check every participant; if all can be committed, call `step`, which decides.

        Args:
            began: a time before the participants' job began.
            step: decides; calls its argument right before the write.

        Returns:
            What was decided, and what the coordinators said about the participants.

        Raises:
            NotPreparedError: a participant can no longer be committed, or has too little time left.
        """
        asked = self._now()

        def check() -> None:
            if self._now().since_ms(asked) > look_ms(self._timeout_ms):
                raise _OldLookError

        for _ in range(LOOKS):
            asked = self._now()
            found = self._brokers.describe(participant.transactional_id for participant in participants)
            now = self._now()
            moment = Moment(now_ms=now.wall_ms, job_ms=now.running_ms - began.running_ms)
            problems = find_unprepared(participants, found, moment)
            if problems:
                raise self._not_prepared(problems)
            reach(KafkaCrashPoint.CHECKED)
            with suppress(_OldLookError):
                return step(check), found
        raise self._not_prepared({"": "after each check of the participants, too much time passed before the decision"})

    def _not_prepared(self, problems: Mapping[str, str]) -> NotPreparedError:
        return NotPreparedError(
            "not every part of the batch is ready to be committed, so the batch was not decided; it is aborted, "
            "and the query's restart writes it again; if time ran out, raise transactionTimeoutMs or make batches "
            "smaller",
            prefix=self._request.prefix,
            batch_id=self._request.batch_id,
            problems=dict(problems),
        )
