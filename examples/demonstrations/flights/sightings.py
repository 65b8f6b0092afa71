"""Which rows of which batches a reader saw, look by look.

A batch that comes as a whole is seen with one look. If a later look brings rows of a batch that were not there before,
then the earlier one showed half a batch.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from flights.story import HalfBatch, Sighting

Numbers = npt.NDArray[np.int64]


class Sightings:
    """Which rows of which batches were seen when."""

    def __init__(self) -> None:
        self.all: list[Sighting] = []
        self.half_batches: dict[int, HalfBatch] = {}
        self._rows: dict[int, set[int]] = {}
        self._first_s: dict[int, float] = {}

    def see(self, at_s: float, rows: Numbers, batches: Numbers) -> None:
        """Note the rows that one look brought, with the batch of each."""
        for batch in np.unique(batches).tolist():
            of_batch = rows[batches == batch].tolist()
            self._see_batch(at_s, batch, of_batch)

    def _see_batch(self, at_s: float, batch: int, rows: list[int]) -> None:
        known = self._rows.setdefault(batch, set())
        first_s = self._first_s.setdefault(batch, at_s)
        seen_before, new = len(known), set(rows) - known
        if seen_before and new:
            first_seen = self.half_batches[batch].seen if batch in self.half_batches else seen_before
            self.half_batches[batch] = HalfBatch(first_s, batch, first_seen, seen_before + len(new))
        known |= new
        self.all.append(Sighting(at_s, batch, len(rows), len(rows) - len(new)))

    @property
    def newest_batch(self) -> int:
        """The highest batch seen; -1 before the first."""
        return max(list(self._rows), default=-1)

    def count_beyond(self, batch: int) -> int:
        """How many batches above `batch` were seen."""
        return sum(seen > batch for seen in list(self._rows))

    @property
    def row_count(self) -> int:
        """Different rows seen."""
        return sum(len(rows) for rows in list(self._rows.values()))
