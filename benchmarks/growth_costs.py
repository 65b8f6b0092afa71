"""What an operation costs: znodes and bytes, which no other process disturbs, and its own time on the CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.report import median
from oncelog.ports import Clock
from oncelog.znodes.clock import SYSTEM_CLOCK
from tests.support.log.counted import CountedStore

ZNODES = "znodes"
KILOBYTES = "kB"
BYTES = "bytes"
NUMBER = "number"
CPU = "CPU, µs"
"""What is measured of an operation. Znodes and kB are those that it reads and writes."""

WARM_RUNS = 2
ROUNDS = 5
"""In each, an operation is run some times. Counts are the mean of all runs, and times the median of the rounds' means:
so what is done only now and then is in them, too, if a round is long enough."""

NOTHING_BYTES = 1_000
"""Fewer bytes than this are those of looking at the process's own counts."""

_PROCESS_IO = Path("/proc/self/io")

Costs = Mapping[str, float]
"""What one operation costs, by what is measured."""


@dataclass(slots=True)
class Operation:
    """What is measured at each size of a curve.

    Attributes:
        name: of the operation.
        costs: by size; not all operations are measured at all sizes.
        why: the reason for its growth; empty for what stays flat.
    """

    name: str
    costs: dict[int, Costs] = field(default_factory=dict)
    why: str = ""


class Curve:
    """The operations of a curve, in the order in which they were measured first.

    Args:
        reasons: why some operations grow, by their names.
    """

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self._reasons = reasons
        self._found: dict[str, Operation] = {}

    @property
    def operations(self) -> list[Operation]:
        return list(self._found.values())

    def measure(self, probes: Mapping[int, Mapping[str, Probe]]) -> None:
        """Measure operations at several sizes.

        Args:
            probes: by size and by operation; the operations are the same at each size, and in the same order.
        """
        for name in next(iter(probes.values())):
            for size, costs in costs_of({size: of_size[name] for size, of_size in probes.items()}).items():
                self.add(size, name, costs)

    def add(self, size: int, name: str, costs: Costs) -> None:
        """Add what an operation costs at a size."""
        found = self._found.setdefault(name, Operation(name, why=self._reasons.get(name, "")))
        found.costs[size] = costs
        figures = ", ".join(f"{what} {value:.4g}" for what, value in costs.items())
        print(f"{size:>11,} {name}: {figures}", flush=True)


class SteppedClock:
    """The time of a machine on which nobody waits: a sleep is over at once, and the clock has gone on by it."""

    def __init__(self) -> None:
        self._slept_ms = 0

    def now_ms(self) -> int:
        return SYSTEM_CLOCK.now_ms() + self._slept_ms

    def monotonic_ms(self) -> int:
        return SYSTEM_CLOCK.monotonic_ms() + self._slept_ms

    def sleep_ms(self, duration_ms: int) -> None:
        self._slept_ms += duration_ms


@dataclass(frozen=True)
class Probe:
    """How an operation is measured at one size.

    Attributes:
        work: the operation.
        store: whose znodes are counted; None to count none.
        each: how often it is run in each of `ROUNDS`.
        share: what it costs is divided by this, as by the number of partitions that it is about.
        clock: goes on by a second before each run.
    """

    work: Callable[[], object]
    store: CountedStore | None = None
    each: int = 8
    share: int = 1
    clock: Clock | None = None


def costs_of(probes: Mapping[int, Probe]) -> dict[int, Costs]:
    """What an operation costs at each size. In turns, so that a slow moment is one for all of them."""
    meters = {size: _Meter(probe) for size, probe in probes.items()}
    for meter in meters.values():
        for _ in range(WARM_RUNS):
            meter.probe.work()
    for _ in range(ROUNDS):
        for meter in meters.values():
            meter.run()
    return {size: meter.costs() for size, meter in meters.items()}


class _Meter:
    """What an operation has cost so far."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self._times: list[float] = []
        self._znodes = self._bytes = 0

    def run(self) -> None:
        """Measure a round."""
        work, store, clock = self.probe.work, self.probe.store, self.probe.clock
        znodes, moved, began = store.znodes if store else 0, _bytes_moved(), time.process_time()
        for _ in range(self.probe.each):
            if clock is not None:
                clock.sleep_ms(1_000)
            work()
        self._times.append(time.process_time() - began)
        self._bytes += _bytes_moved() - moved
        self._znodes += (store.znodes if store else 0) - znodes

    def costs(self) -> Costs:
        """The costs of one run, or of one share of it."""
        shares = self.probe.each * self.probe.share
        found = {} if self.probe.store is None else {ZNODES: self._znodes / ROUNDS / shares}
        if self._bytes > NOTHING_BYTES * ROUNDS:
            found[KILOBYTES] = self._bytes / ROUNDS / shares / 1000
        return found | {CPU: median(self._times) * 1e6 / shares}


def _bytes_moved() -> int:
    """Bytes that this process has read and written so far; 0 where the system does not say."""
    try:
        lines = _PROCESS_IO.read_text().splitlines()
    except OSError:
        return 0
    counts = dict(line.split(": ") for line in lines)
    return int(counts["rchar"]) + int(counts["wchar"])
