"""A naive model of the whole log, and the laws that a reader's plan must keep.

`Truth` is the history as a clerk would write it down: per partition the list of who wrote what, and the decisions in
the order in which they were taken. It knows no spans, trims or settling, so what it says cannot depend on them.

Zxids count decisions: the zxid of no other write is ever compared with one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from oncelog.types import ProducerIdAndEpoch

UNDECIDED = "undecided data is never shown"
TORN = "a transaction is shown whole or not at all"
BACKWARDS = "ends never go backwards"
ROWS = "a range below an end shows the committed records, in order, now and later"
EXACT = "ends are the greatest that tear nothing"
PROGRESS = "with everything decided the ends reach the log ends, and settling empties the lists"


@dataclass(frozen=True, slots=True)
class Written:
    """What one offset holds. `owner` is None outside any transaction."""

    owner: str | None
    producer: ProducerIdAndEpoch


@dataclass(frozen=True, slots=True)
class Decision:
    """The end of an owner: after a commit the winners' records are shown, those of all others never."""

    owner: str
    zxid: int
    is_commit: bool
    winners: frozenset[ProducerIdAndEpoch]


@dataclass(frozen=True, slots=True)
class Truth:
    """All that happened: per partition what each offset holds (None: a marker), and the decisions in their order."""

    partitions: tuple[tuple[Written | None, ...], ...]
    decisions: tuple[Decision, ...] = ()

    def wrote(self, partition: int, what: Written | None) -> Truth:
        lists = list(self.partitions)
        lists[partition] = (*lists[partition], what)
        return replace(self, partitions=tuple(lists))

    def decided(self, decision: Decision) -> Truth:
        return replace(self, decisions=(*self.decisions, decision))

    def rows(self, partition: int, start: int, end: int) -> list[int]:
        """The offsets of ``[start, end)`` that a read_committed reader must get."""
        winners = {decision.owner: decision.winners for decision in self.decisions}
        written = self.partitions[partition]
        return [
            offset
            for offset in range(start, end)
            if (what := written[offset]) and (what.owner is None or what.producer in winners.get(what.owner, ()))
        ]

    def records(self, partition: int, start: int, end: int) -> list[int]:
        """The offsets of ``[start, end)`` that a read_uncommitted reader must get."""
        return [offset for offset in range(start, end) if self.partitions[partition][offset]]

    def offsets_of(self, owner: str, partition: int) -> list[int]:
        return [offset for offset, what in enumerate(self.partitions[partition]) if what and what.owner == owner]


@dataclass(frozen=True, slots=True)
class Shown:
    """A finished plan: when it began, how long each of its partitions was when it was read, and what it shows."""

    zxid: int
    log_ends: Mapping[int, int]
    ends: Mapping[int, int]


def greatest_ends(truth: Truth, zxid: int, log_ends: Mapping[int, int]) -> dict[int, int]:
    """The furthest ends that show nothing undecided at `zxid`, and of no committed owner a part only.

    Args:
        truth: the history.
        zxid: later decisions do not count.
        log_ends: what lies beyond them does not exist yet.
    """
    decided = {decision.owner: decision for decision in truth.decisions if decision.zxid <= zxid}
    written = {partition: truth.partitions[partition][:length] for partition, length in log_ends.items()}
    held = {what.owner for slots in written.values() for what in slots if what and what.owner} - decided.keys()
    while True:
        ends = {
            partition: next((offset for offset, what in enumerate(slots) if what and what.owner in held), len(slots))
            for partition, slots in written.items()
        }
        cut = {what.owner for partition, slots in written.items() for what in slots[ends[partition] :] if what}
        torn = {owner for owner in cut - held if owner in decided and decided[owner].is_commit}
        if not torn:
            return ends
        held |= torn


def broken_by(shown: Shown, truth: Truth) -> Iterator[str]:
    """The laws that a plan breaks, given all that happened until it was finished."""
    decided = {decision.owner for decision in truth.decisions if decision.zxid <= shown.zxid}
    below = [what for p, end in shown.ends.items() for what in truth.partitions[p][:end] if what and what.owner]
    if any(what.owner not in decided for what in below):
        yield UNDECIDED
    if any(_is_torn(shown, truth, decision) for decision in truth.decisions):
        yield TORN
    if shown.ends != greatest_ends(truth, shown.zxid, shown.log_ends):
        yield EXACT


def _is_torn(shown: Shown, truth: Truth, decision: Decision) -> bool:
    is_below = {
        offset < end
        for partition, end in shown.ends.items()
        for offset in truth.offsets_of(decision.owner, partition)
        if (what := truth.partitions[partition][offset]) and what.producer in decision.winners
    }
    return len(is_below) > 1


def goes_back(earlier: Shown, later: Shown) -> bool:
    """Whether `later`, which began after `earlier` was finished and plans no more partitions, shows less of one."""
    return later.ends.keys() <= earlier.ends.keys() and any(later.ends[p] < earlier.ends[p] for p in later.ends)
