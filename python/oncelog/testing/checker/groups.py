"""Checks of groups: an offset is that of the last transaction that committed one, and visible with its records."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from oncelog.testing.checker.columns import NEVER, Columns, Found, Outcome, Staged, Transaction
from oncelog.testing.checker.findings import Anomaly, Finding
from oncelog.testing.checker.places import Places

NO_OFFSET = -1


@dataclass(frozen=True, slots=True)
class _Commit:
    """A transaction that staged an offset, and when it was first known to be committed, if it was."""

    staged: Staged
    transaction: Transaction
    known_ns: int
    is_absent: bool

    def may_be_seen(self, found: Found) -> bool:
        is_asked = self.transaction.asked_ns <= found.answered_ns
        return self.transaction.outcome != Outcome.ABORTED and is_asked and not self.is_absent


class GroupChecks:
    """The checks of group offsets.

    Args:
        columns, places: of the history.
        is_judged: for each written piece, whether a reader would have seen it if it were in the log.
    """

    def __init__(self, columns: Columns, places: Places, is_judged: NDArray[np.bool_]) -> None:
        self._columns = columns
        size = len(columns.transactions)
        is_told = places.is_sole
        is_seen = places.is_seen[places.written.segment]
        self._is_there = np.bincount(places.transaction[is_told & is_seen], minlength=size) > 0
        self._is_absent = np.bincount(places.transaction[is_told & ~is_seen & is_judged], minlength=size) > 0
        self._seen_ns = np.full(size, NEVER)
        seen_ns = places.first_seen_ns[places.written.segment[is_told]]
        np.minimum.at(self._seen_ns, places.transaction[is_told], seen_ns)

    def all(self) -> Iterator[Finding]:
        """All findings."""
        commits: dict[tuple[str, int], list[_Commit]] = defaultdict(list)
        for staged in self._columns.stages:
            commits[staged.group, staged.partition].append(self._commit(staged))
        for found in self._columns.fetches:
            for partition, offset in found.values.items():
                yield from self._judge(found, partition, offset, commits[found.group, partition])

    def _commit(self, staged: Staged) -> _Commit:
        number, transaction = staged.transaction, self._columns.transactions[staged.transaction]
        is_absent = bool(self._is_absent[number] and not self._is_there[number])
        return _Commit(staged, transaction, min(transaction.ended_ns, int(self._seen_ns[number])), is_absent)

    def _judge(self, found: Found, partition: int, offset: int, commits: list[_Commit]) -> Iterator[Finding]:
        alike = [commit for commit in commits if commit.staged.offset == offset]
        possible = [commit for commit in alike if commit.may_be_seen(found)]
        what = f"group {found.group}: {self._columns.partition_name(partition)} is at {offset}"
        events = [found.event, *(f"{commit.staged.event} in {commit.transaction.name}" for commit in alike)]
        if offset != NO_OFFSET and not possible:
            yield self._impossible(found, alike, what, events)
            return
        known = [commit for commit in commits if commit.known_ns < found.asked_ns]
        last_began_ns = max((commit.transaction.began_ns for commit in known), default=-NEVER)
        last_known_ns = max((commit.known_ns for commit in possible), default=-NEVER)
        if last_known_ns < last_began_ns:
            later = max(known, key=lambda commit: commit.transaction.began_ns)
            behind = f"{what}, and {later.transaction.name} committed {later.staged.offset} afterwards"
            yield Finding(Anomaly.GROUP_OFFSETS, behind, [*events, later.staged.event])

    def _impossible(self, found: Found, alike: list[_Commit], what: str, events: list[str]) -> Finding:
        if any(commit.is_absent for commit in alike if commit.transaction.outcome != Outcome.ABORTED):
            return Finding(Anomaly.GROUP_OFFSETS, f"{what}, and the records of its transaction are not there", events)
        if any(commit.transaction.outcome == Outcome.ABORTED for commit in alike):
            return Finding(Anomaly.ABORTED_READ, f"{what}, of a transaction that aborted", events)
        if alike:
            return Finding(Anomaly.PRECOMMITTED_READ, f"{what}, before anybody asked to commit it", events)
        return Finding(Anomaly.GROUP_OFFSETS, f"{what}, which nobody committed", events)
