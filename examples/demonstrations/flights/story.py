"""What is remembered of a run of a pipeline. Times are seconds since the run began, by the wall clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """The topic `flights` at one moment; offsets are summed over its partitions.

    Attributes:
        log_end: where the next record goes.
        lso: the last stable offset: where read_committed ends.
        position: the next offset the query reads, as its group says.
    """

    at_s: float
    log_end: int
    lso: int
    position: int

    @property
    def lag(self) -> int:
        """Offsets that the query may read and has not."""
        return max(self.lso - self.position, 0)


@dataclass(frozen=True, slots=True)
class Sighting:
    """Rows of one batch, all seen with one look at the output.

    Attributes:
        rows: how many.
        copies: how many of them had been seen before.
    """

    at_s: float
    batch: int
    rows: int
    copies: int = 0


@dataclass(frozen=True, slots=True)
class HalfBatch:
    """A batch of which a reader saw a part.

    Attributes:
        seen: its rows that were there at first.
        rows: all of its rows, as far as they came later.
    """

    at_s: float
    batch: int
    seen: int
    rows: int


@dataclass(frozen=True, slots=True)
class KillStory:
    """A kill, and what came after it.

    Attributes:
        kill: its name.
        batch: the batch that was in flight.
        back_s: from the kill until what had died was there again, or another in its place; a query, once it had its
            Spark session.
        recovered_s: from the kill until a reader saw a batch that it had not seen before.
    """

    kill: str
    at_s: float
    batch: int
    back_s: float
    recovered_s: float


@dataclass(frozen=True, slots=True)
class Story:
    """One pipeline under all kills.

    Attributes:
        transactions, aborted: of the loader; how many there were, and how many of them it aborted on purpose.
        looks: how often the reader beside the query looked at the output.
    """

    pipeline: str
    duration_s: float
    transactions: int
    aborted: int
    looks: int
    kills: tuple[KillStory, ...]
    samples: tuple[Sample, ...]
    sightings: tuple[Sighting, ...]
    half_batches: tuple[HalfBatch, ...]
