"""What a judgement says: the anomalies by name, and the report.

Names are Jepsen's and Adya's where there is one. G0, interleaved writes of transactions, is allowed and not looked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

EXAMPLES = 10
"""Of each anomaly so many are shown; all are counted."""


class Anomaly(StrEnum):
    """What no history of a correct log shows."""

    ABORTED_READ = "aborted read"
    """G1a: a committed reader was given a record, or a group an offset, of a transaction that aborted."""

    PRECOMMITTED_READ = "precommitted read"
    """A committed reader, maybe the writer itself, was given a record before anyone asked to commit it."""

    FOREIGN_READ = "foreign read"
    """A reader of either isolation was given a record that nobody wrote."""

    LOST_WRITE = "lost write"
    """A record of a committed transaction is not in the log at the end."""

    DUPLICATE = "duplicate"
    """One reader was given a record at two places."""

    INCONSISTENT_OFFSET = "inconsistent offset"
    """Two records have one offset, or one record has two: for two readers, or for a reader and the writer. Or a record
    is in another partition than it was written to."""

    TORN_TRANSACTION = "torn transaction"
    """A part of a transaction is in the log at the end, or in a whole plan of a reader, without the rest."""

    TWO_OUTCOMES = "two outcomes"
    """Somebody was told that a transaction is committed, and somebody that it is aborted."""

    HALF_BATCH = "half batch"
    """The same of a micro-batch, or of records that were sent without a transaction in one call."""

    POLL_SKIP = "poll skip"
    """A reader of either isolation went past a committed record."""

    NON_MONOTONIC_POLL = "non-monotonic poll"
    """A reader went back, or was given records out of their order, or outside of what it asked for."""

    LSO_REGRESS = "LSO regress"
    """A last stable offset of some partitions is below one that an earlier plan of the same partitions found."""

    LSO_PASSES_UNDECIDED = "LSO passes undecided"
    """A last stable offset is above a record that nobody had asked to commit, and which was committed afterwards."""

    ORDER = "order"
    """Records of one producer are in one partition in another order than it sent them."""

    GROUP_OFFSETS = "group offsets"
    """A group's offset is not that of the last transaction whose records are in the log."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One anomaly.

    Attributes:
        anomaly: which.
        what: what was found, in words.
        events: the calls that show it, as ``process#number``.
        records: how many records it is about.
    """

    anomaly: Anomaly
    what: str
    events: Sequence[str] = ()
    records: int = 1


@dataclass(slots=True)
class Report:
    """What the checker found, and in how much.

    Attributes:
        counts: of the history: events, calls by kind, records written, committed and read.
        anomalies: how often each was found.
        findings: the first `EXAMPLES` of each.
    """

    counts: dict[str, int] = field(default_factory=dict)
    anomalies: dict[Anomaly, int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found."""
        return not self.anomalies

    def add(self, finding: Finding) -> None:
        """Count an anomaly, and keep it while there are few of its kind."""
        count = self.anomalies.get(finding.anomaly, 0) + 1
        self.anomalies[finding.anomaly] = count
        if count <= EXAMPLES:
            self.findings.append(finding)

    def to_json(self) -> dict[str, Any]:
        """The report as JSON knows it."""
        return {
            "counts": self.counts,
            "anomalies": {str(name): count for name, count in self.anomalies.items()},
            "findings": [asdict(finding) for finding in self.findings],
        }

    def __str__(self) -> str:
        counted = ", ".join(f"{count:,} {name}" for name, count in self.counts.items())
        if self.is_clean:
            return f"{counted}\nno anomalies"
        lines = [counted, *(f"{name}: {count:,}" for name, count in sorted(self.anomalies.items()))]
        for found in self.findings:
            lines.append(f"  {found.anomaly}: {found.what}")
            lines += [f"    {event}" for event in found.events]
        return "\n".join(lines)
