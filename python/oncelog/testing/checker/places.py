"""Where each record is. Runs are divided wherever another run of the same records begins or ends.

A range between two divisions is a *segment*: its records were written and read together or not at all, so they are
checked as one. There are at most twice as many segments as runs, whatever the number of records.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oncelog.testing.checker.columns import NEVER, NOWHERE, Columns, Ints, Outcome
from oncelog.testing.history import NUMBERS

Flags = NDArray[np.bool_]

MANY = -2
"""Stands for the place of a segment that is at several places."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """Runs that are divided into segments.

    Attributes:
        row: the run that each piece belongs to.
        segment: the segment of each piece.
        place: of its first record; `NOWHERE` if it is not known.
    """

    row: Ints
    segment: Ints
    place: Ints

    def where(self, chosen: Flags | Ints | slice) -> Pieces:
        """The chosen pieces."""
        return Pieces(self.row[chosen], self.segment[chosen], self.place[chosen])


class Places:
    """The segments of a history, who wrote them, and where committed readers saw them.

    Attributes:
        key, count: the first record of each segment, and its number of records.
        written: the runs that were written; `is_live` marks those that may be in the log: they did not fail, and their
            transaction did not abort.
        read: the runs that committed readers were given; `read_any` those of all readers.
        seen: the distinct (segment, place) pairs of `read`, sorted; `row` is one of the reads.
        place: of each segment; `NOWHERE` if nobody saw it, `MANY` if it is at several places.
        is_sole: marks those of `written` that are live, and whose records nobody else may have written. If several
            transactions wrote exactly the same records, as a retried batch does, the most certain one counts for all.
        is_at_end: whether a final reader was given each segment.
    """

    def __init__(self, columns: Columns) -> None:
        writes, reads, polls = columns.writes, columns.reads, columns.polls
        self._cut(columns)
        offset, partition = writes["offset"], writes["partition"]
        is_placed = (offset >= 0) & (partition >= 0)
        self.written = self._pieces(
            writes["key"], writes["count"], np.where(is_placed, partition * NUMBERS + offset, NOWHERE)
        )
        self.read_any = self._pieces(reads["key"], reads["count"], reads["place"])
        is_committed = polls["is_committed"].astype(np.bool_)
        self.read = self.read_any.where(is_committed[reads["poll"][self.read_any.row]])
        self.outcome = np.array([int(found.outcome) for found in columns.transactions], np.int64)
        self.asked_ns = np.array([found.asked_ns for found in columns.transactions], np.int64)
        self.transaction = writes["transaction"][self.written.row]
        self.is_live = (self.outcome[self.transaction] != Outcome.ABORTED) & (
            writes["is_failed"][self.written.row] == 0
        )
        self.writers = self.times_of(self.written.where(self.is_live))
        self.is_sole = self._find_sole()
        self.seen = distinct(self.read)
        times_seen = self.times_of(self.seen)
        self.place = np.full(len(self.key), NOWHERE)
        self.place[self.seen.segment] = self.seen.place
        self.place[times_seen > 1] = MANY
        self.first_seen_ns = np.full(len(self.key), NEVER)
        np.minimum.at(self.first_seen_ns, self.read.segment, polls["time"][reads["poll"][self.read.row]])
        is_final = polls["is_final"].astype(np.bool_)[reads["poll"][self.read.row]]
        self.is_at_end = self.times_of(self.read.where(is_final)) > 0

    def times_of(self, pieces: Pieces) -> Ints:
        """How often each segment occurs in some pieces."""
        times: Ints = np.bincount(pieces.segment, minlength=len(self.key))
        return times

    @property
    def is_seen(self) -> Flags:
        """Whether a committed reader saw each segment."""
        seen: Flags = self.place != NOWHERE
        return seen

    def _find_sole(self) -> Flags:
        weight = np.random.default_rng(0).integers(2**62, size=len(self.key))
        written = np.zeros(len(self.outcome), np.int64)  # transactions that wrote the same records have the same sum
        np.add.at(written, self.transaction[self.is_live], weight[self.written.segment[self.is_live]])
        surest = np.argsort(-self.outcome, kind="stable")
        _, firsts = np.unique(written[surest], return_index=True)
        stands_for_all = np.zeros(len(written), np.bool_)
        stands_for_all[surest[firsts]] = True
        chosen: Flags = self.is_live & stands_for_all[self.transaction]
        sole: Flags = chosen & (self.times_of(self.written.where(chosen))[self.written.segment] == 1)
        return sole

    def _cut(self, columns: Columns) -> None:
        ends = [(table["key"], table["key"] + table["count"]) for table in (columns.writes, columns.reads)]
        self._cuts = np.unique(np.concatenate([end for pair in ends for end in pair]))
        self.key = self._cuts[:-1]
        self.count = np.diff(self._cuts)

    def _pieces(self, key: Ints, count: Ints, place: Ints) -> Pieces:
        first, end = np.searchsorted(self._cuts, key), np.searchsorted(self._cuts, key + count)
        pieces = end - first
        row = np.repeat(np.arange(len(key)), pieces)
        within = np.arange(len(row)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        segment = first[row] + within
        behind = self.key[segment] - key[row]
        return Pieces(row, segment, np.where(place[row] == NOWHERE, NOWHERE, place[row] + behind))


def distinct(pieces: Pieces) -> Pieces:
    """One piece for each distinct segment and place, sorted by both."""
    order = np.lexsort((pieces.place, pieces.segment))
    segment, place = pieces.segment[order], pieces.place[order]
    is_new = np.ones(len(order), np.bool_)
    is_new[1:] = (np.diff(segment) != 0) | (np.diff(place) != 0)
    return Pieces(pieces.row[order][is_new], segment[is_new], place[is_new])
