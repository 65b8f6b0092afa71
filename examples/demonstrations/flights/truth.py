"""What the output must hold, computed from the CSV alone: no log and no Spark."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from flights.data import FIELDS

LATE_MINUTES = 15
"""A departure is late from this delay on: the rule of the US Bureau of Transportation Statistics."""


def late_departures(flights: pa.Table) -> pa.Table:
    """Every late departure once, in the order of the CSV; columns `FIELDS`. Cancelled flights are not late."""
    return flights.filter(pc.greater_equal(flights["dep_delay"], LATE_MINUTES)).select(list(FIELDS))
