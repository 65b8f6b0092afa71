"""What was read at one moment: values of metrics, by their labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from oncelog.metrics.catalogue import Metric

Labels = tuple[str, ...]

NO_LABELS: Final[Labels] = ()

Step = tuple[str, int | None, int]
"""A step that began a round: the query, its batch, and the step's zxid, which many rounds of a copied store share."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A transaction or round that holds data or offsets. Metrics count these; the page of ``oncelog ui`` names them.

    Attributes:
        kind: ``transaction`` or ``round``.
        name: the transactional id, or the prefix of the round's sink.
        number: of the round; None for a transaction.
        state: open, overdue (open beyond the time-out), prepared, decided or hanging (over at its coordinator, and open
            in its one partition).
        timeout_seconds: 0 for one that hangs, which no time-out ends.
        partitions: those that it wrote to.
        groups: those whose offsets it holds.
        abort: the option of ``txn abort`` that ends it, and its value; None where the command takes its id.
        fate: of one that hangs: committed, aborted, running or unknown, as ``txn find-hanging`` says it.
        why: that is known, in words.
    """

    kind: str
    name: str
    number: int | None
    state: str
    age_seconds: float
    timeout_seconds: float
    partitions: tuple[str, ...]
    groups: tuple[str, ...]
    abort: tuple[str, str] | None = None
    fate: str = ""
    why: str = ""


class Reading:
    """Values of gauges. A metric that was announced and has no value is served without a sample.

    Attributes:
        holders: who holds data or offsets.
        queries: ids of the queries that ledgers belong to, by target and prefix.
        steps: the step that began the newest round of each ledger, by target and prefix. Rounds that one step began are
            decided by one, too: see `oncelog.spark.together`.
        notes: what the values of a table leave out, by its title on the page.
    """

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self.holders: list[Holder] = []
        self.queries: dict[Labels, str] = {}
        self.steps: dict[Labels, Step] = {}
        self.notes: dict[str, str] = {}
        self._values: dict[Metric, dict[Labels, float]] = {metric: {} for metric in metrics}

    @property
    def values(self) -> Mapping[Metric, Mapping[Labels, float]]:
        """By metric, and then by the values of its labels."""
        return self._values

    def put(self, metric: Metric, value: float, *labels: object) -> None:
        """Note a value. One that was noted for the same labels is replaced."""
        self._values[metric][_texts(*labels)] = value


@lru_cache(1 << 16, typed=True)  # 1 and True are equal, and other texts
def _texts(*labels: object) -> Labels:
    """Texts that can be encoded: a page that cannot would have no values at all. They return with each reading."""
    return tuple([str(one).encode(errors="replace").decode() for one in labels])
