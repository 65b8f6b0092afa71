"""The look at a batch's participants before it is decided: only what can still be committed is."""

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
    """Too much time went by since the participants were looked at."""


class Look:
    """Of one attempt at a batch.

    Args:
        brokers: of the sink.
        now: this moment.
        timeout_ms: of the participants' transactions.
        request: which batch.
    """

    def __init__(self, brokers: Brokers, now: Callable[[], Instant], timeout_ms: int, request: BatchRequest) -> None:
        self._brokers = brokers
        self._now = now
        self._timeout_ms = timeout_ms
        self._request = request

    def decide(
        self, participants: Sequence[Participant], began: Instant, step: Callable[[Callable[[], None]], KafkaRound]
    ) -> tuple[KafkaRound, dict[str, Transaction]]:
        """Look at every participant, and take the step that decides if they can all be committed.

        Args:
            participants: which.
            began: before their job.
            step: decides; it calls what it is given last before the write.

        Returns:
            what was decided, and what the coordinators said of the participants.

        Raises:
            NotPreparedError: one of them could not be committed any more, or not for long.
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
        raise self._not_prepared({"": "each time it was looked at, the look was too old before it could be decided"})

    def _not_prepared(self, problems: Mapping[str, str]) -> NotPreparedError:
        return NotPreparedError(
            "not every part of the batch is ready to be committed, so the batch was not decided; it is aborted, "
            "and the query's restart writes it again; if time ran out, raise transactionTimeoutMs or make batches "
            "smaller",
            prefix=self._request.prefix,
            batch_id=self._request.batch_id,
            problems=dict(problems),
        )
