"""Checks of records: each was written and committed, and is in the log once, in order, with its whole transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from oncelog.testing.checker.columns import NEVER, NOWHERE, Columns, Ints, Outcome
from oncelog.testing.checker.findings import EXAMPLES, Anomaly, Finding
from oncelog.testing.checker.places import Flags, Pieces, Places, distinct
from oncelog.testing.history import NUMBERS

SHOWN = 3
"""How many of the calls behind a finding are named."""


class RecordChecks:
    """The checks of records; each yields its findings."""

    def __init__(self, columns: Columns, places: Places) -> None:
        self._columns = columns
        self._places = places
        self._reads, self._writes = columns.reads, columns.writes
        self._found: Counter[Anomaly] = Counter()

    def all(self) -> Iterator[Finding]:
        """All findings."""
        yield from self.unwritten()
        yield from self.precommitted()
        yield from self.several_places()
        yield from self.shared_places()
        yield from self.acknowledged_places()
        yield from self.lost()
        yield from self.torn()
        yield from self.two_outcomes()
        yield from self.order()

    # Reads ------------------------------------------------------------------------------------------------------------

    def unwritten(self) -> Iterator[Finding]:
        """Reads, at either isolation level, of records that nobody wrote, and committed reads of aborted records."""
        places, written = self._places, self._places.written
        was_written = places.times_of(written) > 0
        for segment in np.flatnonzero((places.times_of(places.read_any) > 0) & ~was_written).tolist():
            yield self._finding(Anomaly.FOREIGN_READ, "was written by nobody", segment)
        is_aborted = places.is_seen & was_written & (places.writers == 0)
        # A retry may have written the same records again; then the place tells which writer's records they are.
        is_at_its_place = (written.place >= 0) & (written.place == places.place[written.segment])
        is_aborted[written.segment[is_at_its_place & ~places.is_live]] = True
        for segment in np.flatnonzero(is_aborted).tolist():
            yield self._finding(Anomaly.ABORTED_READ, "is of a transaction that aborted", segment)

    def precommitted(self) -> Iterator[Finding]:
        """Reads that ended before anybody asked to commit what they returned."""
        places, read = self._places, self._places.read
        live = places.written.where(places.is_live)
        asked_ns = np.full(len(places.key), NEVER)
        np.minimum.at(asked_ns, live.segment, places.asked_ns[places.transaction[places.is_live]])
        is_early = (self._poll_times(read) < asked_ns[read.segment]) & (places.writers[read.segment] > 0)
        for segment in np.unique(read.segment[is_early]).tolist():
            yield self._finding(Anomaly.PRECOMMITTED_READ, "was read before anybody asked to commit it", segment)

    def several_places(self) -> Iterator[Finding]:
        """Records at several places, for one reader or for different ones.

        A reader of uncommitted records sees those of every try; records that were written once have one place even
        then.
        """
        places, read = self._places, self._places.read_any
        was_written_once = places.times_of(places.written) <= 1
        is_committed = self._columns.polls["is_committed"].astype(np.bool_)[self._reads["poll"][read.row]]
        read = read.where(is_committed | was_written_once[read.segment])
        seen = distinct(read)
        readers = self._columns.polls["reader"][self._reads["poll"][read.row]]
        each = distinct(Pieces(read.row, read.segment * len(self._columns.readers) + readers, read.place))
        segments = each.segment // max(1, len(self._columns.readers))
        doubled = np.unique(segments[1:][np.diff(each.segment) == 0])
        for segment in np.flatnonzero(places.times_of(seen) > 1).tolist():
            found = ", ".join(map(self._columns.place_name, seen.place[seen.segment == segment]))
            if segment in doubled:
                yield self._finding(Anomaly.DUPLICATE, f"is at {found}", segment)
            else:
                yield self._finding(Anomaly.INCONSISTENT_OFFSET, f"is at {found} for different readers", segment)

    def shared_places(self) -> Iterator[Finding]:
        """Places with several records, at either isolation level."""
        places = self._places
        each = distinct(places.read_any)
        order = np.argsort(each.place, kind="stable")
        place, segment = each.place[order], each.segment[order]
        ends = np.maximum.accumulate(place + places.count[segment])
        for at in np.flatnonzero(place[1:] < ends[:-1]) + 1:
            found = f"has the offset of another record: {self._columns.place_name(place[at])}"
            yield self._finding(Anomaly.INCONSISTENT_OFFSET, found, segment[at])

    def acknowledged_places(self) -> Iterator[Finding]:
        """Records that are not at the place that their writer was told, or not in the partition that it named."""
        places = self._places
        is_certain = (places.outcome[places.transaction] == Outcome.COMMITTED) | places.is_sole
        told = places.written.where(places.is_live & is_certain & (places.written.place >= 0))
        actual = places.place[told.segment]
        for at in np.flatnonzero((actual >= 0) & (actual != told.place)):
            name = self._columns.place_name
            found = f"is at {name(actual[at])}, and its writer was told {name(told.place[at])}"
            yield self._finding(Anomaly.INCONSISTENT_OFFSET, found, told.segment[at])
        live = places.written.where(places.is_live)
        partition, actual = self._writes["partition"][live.row], places.place[live.segment]
        is_right = (partition == NOWHERE) | (partition == actual // NUMBERS) | (actual < 0)
        is_wrong = (places.writers > 0) & (places.times_of(live.where(is_right)) == 0)
        for segment in np.flatnonzero(is_wrong).tolist():
            found = f"is at {self._columns.place_name(places.place[segment])}, and was written to another partition"
            yield self._finding(Anomaly.INCONSISTENT_OFFSET, found, segment)

    # Transactions -----------------------------------------------------------------------------------------------------

    def lost(self) -> Iterator[Finding]:
        """Committed records that are not in the log at the end, even if somebody saw them before."""
        places = self._places
        is_committed = places.outcome[places.transaction] == Outcome.COMMITTED
        is_lost = places.is_live & is_committed & self.is_judged() & ~places.is_at_end[places.written.segment]
        for transaction, pieces in self._by_transaction(is_lost):
            yield self._of_transaction(Anomaly.LOST_WRITE, "is committed and not in the log", transaction, pieces)

    def torn(self) -> Iterator[Finding]:
        """Transactions of which only a part is in the log, ignoring records that several of them may have written."""
        places = self._places
        is_told = places.is_sole & self.is_judged()
        is_there = places.is_at_end[places.written.segment]
        size = len(self._columns.transactions)
        there = np.bincount(places.transaction[is_told & is_there], minlength=size) > 0
        missing = np.bincount(places.transaction[is_told & ~is_there], minlength=size) > 0
        is_torn = (there & missing)[places.transaction]
        for transaction, pieces in self._by_transaction(is_told & ~is_there & is_torn):
            found = self._columns.transactions[transaction]
            name = Anomaly.HALF_BATCH if found.is_batch else Anomaly.TORN_TRANSACTION
            yield self._of_transaction(
                name, "is not in the log, and the rest of its transaction is", transaction, pieces
            )

    def two_outcomes(self) -> Iterator[Finding]:
        """Transactions that one answer calls committed, and another one aborted."""
        for transaction in self._columns.transactions:
            if transaction.is_answered and transaction.is_aborted:
                what = f"{transaction.name} was answered as committed and as aborted"
                yield Finding(Anomaly.TWO_OUTCOMES, what, transaction.calls[-SHOWN:])

    def order(self) -> Iterator[Finding]:
        """Records of a producer that come after later ones in the same partition."""
        places = self._places
        written = places.written.where(places.is_sole & (places.place[places.written.segment] >= 0))
        place = places.place[written.segment]
        producer, time_ns = self._writes["producer"][written.row], self._writes["time"][written.row]
        stream = producer * max(1, len(self._columns.partitions)) + place // NUMBERS
        order = np.lexsort((written.segment, written.row, time_ns, stream))
        is_back = (np.diff(place[order]) < 0) & (np.diff(stream[order]) == 0)
        for at in np.flatnonzero(is_back) + 1:
            segment = written.segment[order][at]
            before = self._columns.key_name(places.key[written.segment[order][at - 1]])
            yield self._finding(Anomaly.ORDER, f"was sent after {before}, and is before it", segment)

    def is_judged(self) -> Flags:
        """For each written piece, whether the final readers would have seen it if it were in the log.

        A record whose offset is not known may have been removed by retention, if the log does not begin at 0.
        """
        columns, written = self._columns, self._places.written
        starts = self.final_starts()
        if not len(starts):
            return np.zeros(len(written.row), np.bool_)
        place = np.where(written.place >= 0, written.place, self._places.place[written.segment])
        partition, topic = self._writes["partition"][written.row], self._writes["topic"][written.row]
        partition = np.where(place >= 0, place // NUMBERS, partition)
        of_topic = np.array([columns.topics.number(columns.partitions[at][0]) for at in range(len(starts))], np.int64)
        is_read = np.zeros(len(columns.topics), np.bool_)
        is_read[of_topic[starts == 0]] = True
        is_read[of_topic[starts > 0]] = False
        start = np.where(partition == NOWHERE, np.where(is_read[topic], 0, NOWHERE), starts[partition])
        first = np.where(place >= 0, place % NUMBERS, 0)
        judged: Flags = (start >= 0) & (first >= start)
        return judged

    def final_starts(self) -> Ints:
        """Where the final readers began in each partition; `NOWHERE` if there was none."""
        pieces = self._columns.pieces
        is_final = self._columns.polls["is_final"].astype(np.bool_)[pieces["poll"]]
        starts = np.full(len(self._columns.partitions), NEVER)
        np.minimum.at(starts, pieces["partition"][is_final], pieces["start"][is_final])
        starts[starts == NEVER] = NOWHERE
        return starts

    # Findings ---------------------------------------------------------------------------------------------------------

    def _by_transaction(self, chosen: Flags) -> Iterator[tuple[int, Pieces]]:
        places = self._places
        order = np.argsort(places.transaction[chosen], kind="stable")
        transaction, pieces = places.transaction[chosen][order], places.written.where(chosen).where(order)
        firsts = np.flatnonzero(np.diff(transaction, prepend=NOWHERE))
        for first, end in pairwise([*firsts.tolist(), len(order)]):
            yield int(transaction[first]), pieces.where(slice(first, end))

    def _of_transaction(self, anomaly: Anomaly, what: str, number: int, pieces: Pieces) -> Finding:
        transaction = self._columns.transactions[number]
        records = int(self._places.count[pieces.segment].sum())
        name = self._columns.key_name(self._places.key[pieces.segment[0]])
        calls = dict.fromkeys(map(self._columns.call_name, self._writes["call"][pieces.row[:SHOWN]]))
        events = [*(f"written by {call}" for call in calls), *transaction.calls[-SHOWN:]]
        return Finding(anomaly, f"{transaction.name}: {name} {what}", events, records)

    def _finding(self, anomaly: Anomaly, what: str, segment: int) -> Finding:
        """A finding about the records of a segment, with the calls that wrote and read them."""
        places = self._places
        what, records = f"{self._columns.key_name(places.key[segment])} {what}", int(places.count[segment])
        self._found[anomaly] += 1
        if self._found[anomaly] > EXAMPLES:  # counted, but not shown
            return Finding(anomaly, what, (), records)
        written = places.written.where(places.written.segment == segment)
        read = places.read_any.where(places.read_any.segment == segment)
        events = []
        for row, number in zip(written.row[:SHOWN], self._writes["transaction"][written.row[:SHOWN]], strict=True):
            transaction = self._columns.transactions[number]
            call = self._columns.call_name(self._writes["call"][row])
            events += [f"written by {call} in {transaction.name}", *transaction.calls[-SHOWN:]]
        for poll in np.unique(self._reads["poll"][read.row])[:SHOWN]:
            events.append(f"read by {self._columns.call_name(self._columns.polls['call'][poll])}")
        return Finding(anomaly, what, events, records)

    def _poll_times(self, read: Pieces) -> Ints:
        times: Ints = self._columns.polls["time"][self._reads["poll"][read.row]]
        return times
