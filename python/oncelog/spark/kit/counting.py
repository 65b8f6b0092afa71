"""What Spark counts of the rows that a job writes, on their way."""

from __future__ import annotations

from typing import Any, Final

from oncelog.extras import extras

with extras("spark", part="oncelog.spark.kit"):
    from pyspark.sql import Observation

from oncelog.errors import NotPreparedError
from oncelog.spark.kit import context
from oncelog.znodes.clock import SYSTEM_CLOCK

COUNT_TIMEOUT_MS = 60_000
"""How long an event of Spark's may take."""

COUNT_PAUSE_MS: Final = 2


def observed(rows: Observation) -> dict[str, Any]:
    """What Spark counted. It says so by an event, behind the job, and drops events when there are too many.

    Raises:
        NotPreparedError: it did not say so.
    """
    until_ms = SYSTEM_CLOCK.monotonic_ms() + COUNT_TIMEOUT_MS
    told: Any = rows._jo
    with context.known_internals():
        while not told.future().isCompleted():  # `get` alone would wait for ever
            if SYSTEM_CLOCK.monotonic_ms() > until_ms:
                raise NotPreparedError(
                    "Spark did not say how many rows the batch has: its listener bus dropped the event, or is far "
                    "behind; nothing was decided",
                    timeout_ms=COUNT_TIMEOUT_MS,
                )
            SYSTEM_CLOCK.sleep_ms(COUNT_PAUSE_MS)
        return rows.get
