"""What was read at one moment: values of metrics, by their labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from oncelog.metrics.catalogue import Metric

Labels = tuple[str, ...]

NO_LABELS: Final[Labels] = ()


class Reading:
    """Values of gauges. A metric that was announced and has no value is served without a sample."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._values: dict[Metric, dict[Labels, float]] = {metric: {} for metric in metrics}

    @property
    def values(self) -> Mapping[Metric, Mapping[Labels, float]]:
        """By metric, and then by the values of its labels."""
        return self._values

    def put(self, metric: Metric, value: float, *labels: object) -> None:
        """Note a value. One that was noted for the same labels is replaced."""
        self._values[metric][tuple(map(_label, labels))] = value


def _label(value: object) -> str:
    """Text that can be encoded: a page that cannot would have no values at all."""
    text = str(value)
    return text if text.isascii() else text.encode(errors="replace").decode()
