"""A partition with more and more records, whose index is made up: what it costs to append to it and to look into it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Self

import oncelog
from benchmarks import planning
from benchmarks.growth_costs import BYTES, NUMBER, Costs, Curve, Operation, Probe, SteppedClock
from benchmarks.growth_partitions import counted_log
from oncelog import limits
from oncelog.log import partition_log, partition_reads, snapshot
from oncelog.log.partition_log import Append
from oncelog.types import IsolationLevel
from oncelog.znodes import payloads

EXPLANATION = """\
One partition with so many records, 1,000 in each batch. Its index is made up: real index files and znodes, that name
data files which are not there. So a partition of 1,000,000,000 records has 1,000,000 index entries, behind which 100
new batches are in the tail. Who looks into it has read nothing before."""

QUICK = (1_000, 10_000, 100_000, 1_000_000)
FULL = (*QUICK, 10_000_000, 100_000_000, 1_000_000_000)

ROWS = 1_000

ROOTS = """\
16 index files of one level get a parent, so there are at most 15 roots of each level, and a level more for 16 times \
the history: the logarithm."""
PATH = """\
a lookup reads one file of each level: the logarithm. A history that is no longer than one leaf is read with a smaller \
leaf."""
REASONS = {
    "roots": ROOTS,
    "levels": ROOTS,
    "partition's znode": ROOTS,
    "append, with its share of rolling": "every append writes the partition's znode, which lists the roots.",
    "lookup of an offset": PATH,
    "lookup of a time": PATH,
}


def run(folder: Path, *, quick: bool) -> list[Operation]:
    """Measure histories of each size."""
    curve, sizes = Curve(REASONS), QUICK if quick else FULL
    with ExitStack() as closing:
        histories = {}
        for records in sizes:
            history = closing.enter_context(_History(folder / str(records), records))
            for name, costs in history.size():
                curve.add(records, name, costs)
            histories[records] = history
        curve.measure({records: history.probes() for records, history in histories.items()})
    return curve.operations


class _History:
    """A partition with so many records, in a log of its own."""

    def __init__(self, place: Path, records: int) -> None:
        with oncelog.open(place) as made:
            self._partition = planning.make_history(made, records // ROWS, ROWS)
        self._log, self._store = counted_log(place, SteppedClock())
        self._middle = records // 2
        self._index_files, self._sequences = self._log.services.new_index_files(), count(0, ROWS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._log.close()

    def size(self) -> Iterator[tuple[str, Costs]]:
        """How large the index is."""
        state = partition_reads.read_partition(self._store, self._partition)
        yield "roots", {NUMBER: len(state.roots)}
        yield "levels", {NUMBER: max(ref.level for ref in state.roots) + 1}
        yield "partition's znode", {BYTES: len(payloads.encode_partition(state))}

    def probes(self) -> dict[str, Probe]:
        """Appends come last, since they make the history longer."""
        log, store = self._log, self._store
        return {
            "lookup of an offset": Probe(self._by_offset, store),
            "lookup of a time": Probe(self._by_time, store),
            "plan of the newest batches": Probe(lambda: planning.plan(log, self._partition, ROWS), store),
            "append, with its share of rolling": Probe(self._append, store, each=limits.TAIL_MAX_ENTRIES),
        }

    def _by_offset(self) -> None:
        files, offset = self._log.services.new_index_files(), self._middle
        isolation = IsolationLevel.READ_COMMITTED
        found = snapshot.visible_range(self._store, files, self._partition, offset, offset + 1, isolation)
        if found.count != 1:
            raise RuntimeError("the offset was not found")

    def _by_time(self) -> None:
        files, time_ms = self._log.services.new_index_files(), self._middle
        _, found = partition_reads.walk_index(
            self._store, self._partition, lambda state, index: index.first_entry_since(files, time_ms, state.log_start)
        )
        if found is None or not found.base_offset <= time_ms < found.end_offset:
            raise RuntimeError("the time was not found")

    def _append(self) -> None:
        first = next(self._sequences)
        block = planning.made_up_block(first, ROWS)
        request = Append(self._partition, planning.PRODUCER, first, None, (block,))
        done = self._store.transact(lambda view: partition_log.append(view, request))
        partition_log.roll_if_long(self._store, self._index_files, self._partition, done.tail_nodes)
