"""The judgement: the rows found in an output, against the truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flights.data import FIELDS
from flights.story import KillStory, Story

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


FAULTS = {
    "lost": "lost",
    "duplicated": "duplicated",
    "half_batches": "half batches",
    "out_of_order": "out of order",
    "wrong": "wrong",
}
"""The counts of `Findings` that must be 0, with their names for people."""

FINDINGS = {"expected": "rows expected", "found": "found", **FAULTS}
"""All of its counts."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What an output holds, in rows.

    Attributes:
        expected: rows of the truth.
        found: those of them that are there.
        lost: those that are not.
        duplicated: copies beyond the first one.
        out_of_order: rows behind one of the same partition that should follow them; copies are not counted again.
        wrong: rows that are not of the truth, or differ from it.
        half_batches: batches of which a reader beside the query saw only a part.
        duplicated_by_batch: of `duplicated`, by the batch that wrote the copies.
    """

    expected: int
    found: int
    lost: int
    duplicated: int
    out_of_order: int
    wrong: int
    half_batches: int
    duplicated_by_batch: Mapping[int, int] = field(default_factory=dict)

    @property
    def is_exact(self) -> bool:
        """Whether the output is the truth, and never was anything else to its readers."""
        return not any(map(self.is_fault, FAULTS))

    def is_fault(self, name: str) -> bool:
        """Whether the count of this name is one of faults, and not 0."""
        return name in FAULTS and getattr(self, name) > 0


@dataclass(frozen=True, slots=True)
class Result:
    """A run, and what came of it."""

    story: Story
    findings: Findings

    def copies_after(self, kill: KillStory) -> int:
        """Rows that are there twice because of a kill: those of the batch that was in flight."""
        return self.findings.duplicated_by_batch.get(kill.batch, 0)


def judge(truth: pa.Table, output: pa.Table, half_batches: int) -> Findings:
    """Compare an output with the truth.

    Args:
        truth: the rows expected, columns `FIELDS`, by ascending `row`.
        output: what was read, in reading order; columns `FIELDS`, `batch`, `partition`.
        half_batches: how many the reader beside the query saw.
    """
    rows: Numbers = output["row"].to_numpy()
    is_right = _is_right(truth, output)
    _, first = np.unique(rows, return_index=True)
    is_first = np.zeros(len(rows), dtype=bool)
    is_first[first] = True
    is_copy = is_right & ~is_first
    found = len(np.unique(rows[is_right]))
    partitions: Numbers = output["partition"].to_numpy()
    batches, copies = np.unique(output["batch"].to_numpy()[is_copy], return_counts=True)
    return Findings(
        expected=truth.num_rows,
        found=found,
        lost=truth.num_rows - found,
        duplicated=int(is_copy.sum()),
        out_of_order=_out_of_order(rows[is_first], partitions[is_first]),
        wrong=int((~is_right).sum()),
        half_batches=half_batches,
        duplicated_by_batch=dict(zip(batches.tolist(), copies.tolist(), strict=True)),
    )


def _is_right(truth: pa.Table, output: pa.Table) -> Flags:
    """Which rows of the output are rows of the truth, in every field."""
    if truth.num_rows == 0:
        return np.zeros(output.num_rows, dtype=bool)
    expected: Numbers = truth["row"].to_numpy()
    place = np.searchsorted(expected, output["row"].to_numpy()).clip(max=len(expected) - 1)
    same = truth.take(pa.array(place))
    is_right = np.ones(output.num_rows, dtype=bool)
    for name in FIELDS:
        is_right &= pc.fill_null(pc.equal(same[name], output[name]), False).to_numpy()
    return is_right


def _out_of_order(rows: Numbers, partitions: Numbers) -> int:
    """How many rows are below a row that came before them in their partition."""
    late = 0
    for partition in np.unique(partitions):
        of_partition = rows[partitions == partition]
        late += int((of_partition < np.maximum.accumulate(of_partition)).sum())
    return late
