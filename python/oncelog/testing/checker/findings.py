"""The result of a check: the anomalies by name, and the report.

Anomalies have Jepsen's and Adya's names if there is one. G0, interleaved writes of transactions, is allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

EXAMPLES = 10
"""How many of each anomaly are shown; all are counted."""


class Anomaly(StrEnum):
    """What no history of a correct log shows."""

    ABORTED_READ = "aborted read"
    """G1a: a committed reader was given a record, or a group an offset, of a transaction that aborted."""

    PRECOMMITTED_READ = "precommitted read"
    """A committed reader, possibly the writer itself, was given a record before anyone asked to commit it."""

    FOREIGN_READ = "foreign read"
    """A reader of either isolation level was given a record that nobody wrote."""

    LOST_WRITE = "lost write"
    """A record of a committed transaction is not in the log at the end."""

    DUPLICATE = "duplicate"
    """One reader was given a record at two places."""

    INCONSISTENT_OFFSET = "inconsistent offset"
    """Two records have the same offset, or one record has two offsets: for two readers, or for a reader and the writer.
    Or a record is in another partition than it was written to."""

    TORN_TRANSACTION = "torn transaction"
    """Part of a transaction is in the log at the end, or in a complete plan of a reader, without the rest."""

    TWO_OUTCOMES = "two outcomes"
    """One client was told that a transaction is committed, and another one that it is aborted."""

    HALF_BATCH = "half batch"
    """A torn micro-batch, or a torn call that sent records without a transaction."""

    POLL_SKIP = "poll skip"
    """A reader of either isolation level skipped a committed record."""

    NON_MONOTONIC_POLL = "non-monotonic poll"
    """A reader went backwards, or was given records out of order, or outside the range that it asked for."""

    LSO_REGRESS = "LSO regress"
    """A last stable offset of some partitions is below one that an earlier plan of the same partitions found."""

    LSO_PASSES_UNDECIDED = "LSO passes undecided"
    """A last stable offset is above a record that nobody had asked to commit yet, and that was committed later."""

    ORDER = "order"
    """Records of one producer are in a partition in another order than it sent them."""

    GROUP_OFFSETS = "group offsets"
    """A group's offset is not that of the last transaction whose records are in the log."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One anomaly.

    Attributes:
        what: what was found, in words.
        events: the calls that show it, as ``process#number``.
        records: how many records are affected.
    """

    anomaly: Anomaly
    what: str
    events: Sequence[str] = ()
    records: int = 1


@dataclass(slots=True)
class Report:
    """What the checker found, and the size of the history.

    Attributes:
        counts: events, calls by kind, and records written, committed and read.
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
        """Count an anomaly, and keep the first ones of each kind."""
        count = self.anomalies.get(finding.anomaly, 0) + 1
        self.anomalies[finding.anomaly] = count
        if count <= EXAMPLES:
            self.findings.append(finding)

    def to_json(self) -> dict[str, Any]:
        """The report in JSON's types."""
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
