"""Checks of readers: they only read forward and skip nothing, transactions are whole, stable ends never move back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from oncelog.testing.checker.columns import NOWHERE, Columns, Found, Ints, Outcome
from oncelog.testing.checker.findings import Anomaly, Finding
from oncelog.testing.checker.places import Flags, Pieces, Places
from oncelog.testing.history import NUMBERS


class ReaderChecks:
    """The checks of readers and their plans; each yields its findings."""

    def __init__(self, columns: Columns, places: Places) -> None:
        self._columns = columns
        self._places = places
        self._sort_pieces()
        self._find_parts()

    def all(self) -> Iterator[Finding]:
        """All findings."""
        yield from self.non_monotonic()
        yield from self.skips()
        yield from self.torn_plans()
        yield from self.regresses()
        yield from self.passes_undecided()

    def _sort_pieces(self) -> None:
        """Sort the pieces by reader, partition and poll, and note for each where the previous one ended."""
        pieces, polls = self._columns.pieces, self._columns.polls
        poll, partition = pieces["poll"], pieces["partition"]
        stream = polls["reader"][poll] * max(1, len(self._columns.partitions)) + partition
        order = np.lexsort((poll, stream))
        self._poll, self._partition, self._stream = poll[order], partition[order], stream[order]
        self._start, self._end = pieces["start"][order], pieces["end"][order]
        is_next = np.zeros(len(order), np.bool_)
        is_next[1:] = np.diff(self._stream) == 0
        self._from = np.where(is_next, np.roll(self._end, 1), self._start)

    def _find_parts(self) -> None:
        """The first and last offset of each live transaction in each partition where its records were seen.

        Records that several transactions may have written, or that are at several places, are left out.
        """
        places = self._places
        place = places.place[places.written.segment]
        chosen = places.is_sole & (place >= 0)
        place, transaction = place[chosen], places.transaction[chosen]
        last = place + places.count[places.written.segment[chosen]] - 1
        order = np.lexsort((place, place // NUMBERS, transaction))
        place, transaction, last = place[order], transaction[order], last[order]
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = (np.diff(transaction) != 0) | (np.diff(place // NUMBERS) != 0)
        firsts = np.flatnonzero(is_first)
        self._part_transaction = transaction[firsts]
        self._part_partition = place[firsts] // NUMBERS
        self._part_first = place[firsts] % NUMBERS
        self._part_last = np.maximum.reduceat(last, firsts) % NUMBERS if len(firsts) else firsts

    # Polls ------------------------------------------------------------------------------------------------------------

    def non_monotonic(self) -> Iterator[Finding]:
        """Polls that go backwards, and records that are out of order or outside their piece."""
        for at in np.flatnonzero((self._start < self._from) | (self._end < self._start)).tolist():
            what = (
                f"a poll goes from {self._start[at]} to {self._end[at]}, and the one before ended at {self._from[at]}"
            )
            yield self._of_piece(Anomaly.NON_MONOTONIC_POLL, what, at)
        reads, pieces = self._columns.reads, self._columns.pieces
        partitions = max(1, len(self._columns.partitions))
        stream, place = reads["poll"] * partitions + reads["partition"], reads["place"]
        end = place + reads["count"]
        is_back = np.zeros(len(stream), np.bool_)
        is_back[1:] = (np.diff(stream) == 0) & (place[1:] < end[:-1])
        of_piece = pieces["poll"] * partitions + pieces["partition"]
        order = np.argsort(of_piece)
        piece = order[np.searchsorted(of_piece[order], stream)] if len(order) else order
        base = reads["partition"] * NUMBERS
        is_outside = (place < base + pieces["start"][piece]) | (end > base + pieces["end"][piece])
        for row in np.flatnonzero(is_back | is_outside):
            call = self._columns.call_name(self._columns.polls["call"][reads["poll"][row]])
            name = self._columns.place_name(place[row])
            yield Finding(Anomaly.NON_MONOTONIC_POLL, f"{name} is out of order, or outside of its poll", [call])

    def skips(self) -> Iterator[Finding]:
        """Ranges that a reader passed without being given all committed records in them."""
        places, reads = self._places, self._columns.reads
        partitions = max(1, len(self._columns.partitions))
        given: Ints = np.zeros(len(self._columns.polls) * partitions, np.int64)
        read = places.read_any.where(self._is_committed()[places.read_any.segment])
        of_piece = reads["poll"][read.row] * partitions + reads["partition"][read.row]
        np.add.at(given, of_piece, places.count[read.segment])
        there = self._records_below(self._partition * NUMBERS + self._end) - self._records_below(
            self._partition * NUMBERS + self._from
        )
        missing = there - given[self._poll * partitions + self._partition]
        for at in np.flatnonzero((missing > 0) & (self._end > self._from)).tolist():
            what = f"of [{self._from[at]}, {self._end[at]}) {missing[at]} committed records were left out"
            yield self._of_piece(Anomaly.POLL_SKIP, what, at, int(missing[at]))

    def _told(self) -> Pieces:
        """Committed records that no committed reader saw, although their writer was told where they are."""
        places = self._places
        is_told = places.is_live & (places.outcome[places.transaction] == Outcome.COMMITTED)
        is_told &= (places.written.place >= 0) & ~places.is_seen[places.written.segment]
        return places.written.where(is_told)

    def _is_committed(self) -> Flags:
        """For each segment, whether it is known to be in the log, and where."""
        is_committed = self._places.is_seen
        is_committed[self._told().segment] = True
        return is_committed

    def _records_below(self, place: Ints) -> Ints:
        """How many committed records are below each place: those that were seen, and those whose writer was told."""
        places, told = self._places, self._told()
        start = np.concatenate([places.seen.place, told.place])
        count = np.concatenate([places.count[places.seen.segment], places.count[told.segment]])
        order = np.lexsort((count, start))
        start, count = start[order], count[order]
        is_new = np.ones(len(start), np.bool_)
        is_new[:-1] = np.diff(start) != 0  # shared places are found by another check, and count once
        start, count = start[is_new], count[is_new]
        before = np.concatenate([[0], np.cumsum(count)])
        at = np.searchsorted(start, place, side="left")
        last = np.maximum(at - 1, 0)
        if not len(start):
            return np.zeros(len(place), np.int64)
        within = np.minimum(place - start[last], count[last])
        below: Ints = np.where(at > 0, before[last] + within, 0)
        return below

    # Whole plans ------------------------------------------------------------------------------------------------------

    def torn_plans(self) -> Iterator[Finding]:
        """Complete plans with a part of a transaction in the reader's partitions, without the rest."""
        polls = self._columns.polls
        whole, readers = np.flatnonzero(polls["is_whole"]), polls["reader"]
        for reader in np.unique(readers[whole]):
            yield from self._torn_plans_of(int(reader), whole[readers[whole] == reader])

    def _torn_plans_of(self, reader: int, plans: Ints) -> Iterator[Finding]:
        """For each part, the first plans with its first and with its last record; all must be the same plan."""
        partitions = max(1, len(self._columns.partitions))
        shown = np.full((2, len(self._part_transaction)), NOWHERE)
        is_cut = np.zeros(len(self._columns.transactions), np.bool_)
        for stream in np.unique(self._stream[self._stream // partitions == reader]):
            of_stream = slice(*np.searchsorted(self._stream, [stream, stream + 1]))
            ends, start = self._ends_after(plans, of_stream), self._start[of_stream][0]
            parts = np.flatnonzero(self._part_partition == stream % partitions)
            is_cut[self._part_transaction[parts][self._part_first[parts] < start]] = True
            shown[0, parts] = np.searchsorted(ends, self._part_first[parts], side="right")
            shown[1, parts] = np.searchsorted(ends, self._part_last[parts], side="right")
        known = np.flatnonzero((shown[0] != NOWHERE) & ~is_cut[self._part_transaction])
        if not len(known):
            return
        transaction = self._part_transaction[known]
        firsts = np.flatnonzero(np.diff(transaction, prepend=NOWHERE))
        first = np.minimum.reduceat(shown[0, known], firsts)
        last = np.maximum.reduceat(shown[1, known], firsts)
        for at in np.flatnonzero(first != last).tolist():
            found = self._columns.transactions[transaction[firsts[at]]]
            name = Anomaly.HALF_BATCH if found.is_batch else Anomaly.TORN_TRANSACTION
            call = self._columns.call_name(self._columns.polls["call"][plans[first[at]]])
            yield Finding(
                name, f"{found.name}: a whole plan holds only a part of it", [f"read by {call}", *found.calls]
            )

    def _ends_after(self, plans: Ints, of_stream: slice) -> Ints:
        """Where the reader was in one partition after each of its complete plans."""
        behind = np.searchsorted(self._poll[of_stream], plans, side="right") - 1
        ends: Ints = np.where(behind >= 0, self._end[of_stream][np.maximum(behind, 0)], NOWHERE)
        return np.maximum.accumulate(ends)

    # Stable ends ------------------------------------------------------------------------------------------------------

    def regresses(self) -> Iterator[Finding]:
        """Plans whose ends are below those of a plan of the same partitions that had ended before they began."""
        alike: dict[tuple[int, ...], list[Found]] = defaultdict(list)
        for plan in self._columns.plans:
            alike[tuple(sorted(plan.values))].append(plan)
        for partitions, plans in alike.items():
            plans.sort(key=lambda plan: plan.answered_ns)
            answered = np.array([plan.answered_ns for plan in plans])
            before = np.searchsorted(answered, [plan.asked_ns for plan in plans], side="left") - 1
            for partition in partitions:
                ends = np.array([plan.values[partition] for plan in plans])
                highest = np.maximum.accumulate(ends)[np.maximum(before, 0)]
                for at in np.flatnonzero((before >= 0) & (ends < highest)).tolist():
                    name = self._columns.partition_name(partition)
                    what = f"{name}: the stable end is {ends[at]} after it was {highest[at]}"
                    yield Finding(Anomaly.LSO_REGRESS, what, [plans[at].event])

    def passes_undecided(self) -> Iterator[Finding]:
        """Ends above the first record of a transaction that nobody had asked to commit when the plan ended."""
        by_partition: dict[int, list[Found]] = defaultdict(list)
        for plan in self._columns.plans:
            for partition in plan.values:
                by_partition[partition].append(plan)
        for partition, plans in by_partition.items():
            plans.sort(key=lambda plan: plan.answered_ns)
            answered = np.array([plan.answered_ns for plan in plans])
            highest = np.maximum.accumulate([plan.values[partition] for plan in plans])
            parts = np.flatnonzero(self._part_partition == partition)
            asked_ns = self._places.asked_ns[self._part_transaction[parts]]
            before = np.searchsorted(answered, asked_ns, side="left") - 1
            is_passed = (before >= 0) & (highest[np.maximum(before, 0)] > self._part_first[parts])
            for part in parts[is_passed]:
                found = self._columns.transactions[self._part_transaction[part]]
                place = self._columns.place_name(partition * NUMBERS + self._part_first[part])
                above = next(plan for plan in plans if plan.values[partition] > self._part_first[part])
                what = f"{found.name}: a stable end was above {place} before it was asked to commit"
                yield Finding(Anomaly.LSO_PASSES_UNDECIDED, what, [above.event, *found.calls])

    def _of_piece(self, anomaly: Anomaly, what: str, at: int, records: int = 1) -> Finding:
        name = self._columns.partition_name(self._partition[at])
        call = self._columns.call_name(self._columns.polls["call"][self._poll[at]])
        return Finding(anomaly, f"{name}: {what}", [f"read by {call}"], records)
