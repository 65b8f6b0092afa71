"""Plans of whole batches: against every possible end, and of a reader beside writers whose steps mix at random."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from random import Random

import pytest

from oncelog.types import TopicIdPartition
from oncelog_kafka.protocol.extents import Batch, Extent, merged
from oncelog_kafka.whole_batches.whole_batches import last_ends, limited_ends

PARTITIONS = [TopicIdPartition("out", "id", number) for number in range(3)]
ELSEWHERE = TopicIdPartition("other", "id", 0)

Ends = Mapping[TopicIdPartition, int]


# Against every possible end -------------------------------------------------------------------------------------------


@dataclass
class Case:
    """Batches anywhere in short partitions, and a reader anywhere before their ends."""

    batches: list[Batch]
    starts: Ends
    stable: Ends

    @classmethod
    def drawn(cls, chance: Random) -> Case:
        partitions = PARTITIONS[: chance.randint(1, 3)]
        stable = {partition: chance.randint(0, 5) for partition in partitions}
        starts = {partition: chance.randint(0, end) for partition, end in stable.items()}
        return cls([cls._batch(chance) for _ in range(chance.randint(0, 4))], starts, stable)

    @staticmethod
    def _batch(chance: Random) -> Batch:
        written = chance.sample([*PARTITIONS, ELSEWHERE], chance.randint(1, 3))
        bounds = {partition: sorted(chance.choices(range(6), k=2)) for partition in written}
        return Batch({partition: Extent(*both) for partition, both in bounds.items()}, chance.random() < 0.8)

    def all_ends(self) -> Iterator[Ends]:
        """Those that cut no batch, as the words say it: row by row."""
        ranges = [range(self.starts[partition], end + 1) for partition, end in self.stable.items()]
        for offsets in product(*ranges):
            ends = dict(zip(self.stable, offsets, strict=True))
            if all(self._is_whole(batch, ends) for batch in self.batches):
                yield ends

    def _is_whole(self, batch: Batch, ends: Ends) -> bool:
        rows = [
            offset < ends[partition]
            for partition, (first, last) in batch.extents.items()
            if partition in ends
            for offset in range(first, last + 1)
            if offset >= self.starts[partition]
        ]
        return not any(rows) or (all(rows) and batch.is_over)


@pytest.mark.parametrize("seed", range(20))
def test_the_last_ends_are_the_highest_of_all_that_cut_no_batch(seed: int) -> None:
    chance = Random(seed)
    for _ in range(100):
        case = Case.drawn(chance)
        possible = list(case.all_ends())

        found = last_ends(case.batches, case.starts, case.stable)

        assert found in possible
        assert all(found[partition] >= ends[partition] for ends in possible for partition in ends)


@pytest.mark.parametrize("seed", range(20))
def test_limited_ends_are_the_nearest_that_cut_no_batch_and_leave_something_to_read(seed: int) -> None:
    chance = Random(seed)
    for _ in range(100):
        case = Case.drawn(chance)
        last = last_ends(case.batches, case.starts, case.stable)
        wanted = {partition: chance.randint(case.starts[partition], end) for partition, end in last.items()}
        possible = list(case.all_ends())

        found = limited_ends(case.batches, case.starts, wanted, last)

        before = [ends for ends in possible if _is_at_most(ends, wanted) and ends != case.starts]
        behind = [ends for ends in possible if _is_at_most(wanted, ends)]
        assert found in possible
        if before:
            assert found in before
            assert all(_is_at_most(ends, found) for ends in before)
        else:
            assert all(_is_at_most(found, ends) for ends in behind)


def _is_at_most(some: Ends, others: Ends) -> bool:
    return all(end <= others[partition] for partition, end in some.items())


# Beside writers -------------------------------------------------------------------------------------------------------


@dataclass
class Part:
    """A transaction of one task.

    Attributes:
        rows: offsets by partition.
        unmarked: partitions without its marker.
    """

    rows: dict[TopicIdPartition, list[int]] = field(default_factory=dict)
    unmarked: set[TopicIdPartition] = field(default_factory=set)
    is_ended: bool = False


@dataclass
class Round:
    parts: list[Part]
    is_decided: bool = False
    is_aborted: bool = False
    is_over: bool = False
    number: int = 0

    def extents(self) -> dict[TopicIdPartition, Extent]:
        rows = [(partition, offset) for part in self.parts for partition, some in part.rows.items() for offset in some]
        return merged({partition: Extent(offset, offset)} for partition, offset in rows)


class Partitions:
    """Partitions, queries that write to them, a stranger's transactions, and a reader of whole batches."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.partitions = PARTITIONS[: self.chance.randint(2, 3)]
        self.lengths = dict.fromkeys(self.partitions, 0)
        self.queries: list[list[Round]] = [[] for _ in range(self.chance.randint(1, 3))]
        self.ledgers: list[dict[int, dict[TopicIdPartition, Extent]]] = [{} for _ in self.queries]
        self.stranger: list[Part] = []
        self.ends = dict.fromkeys(self.partitions, 0)
        self.plans = self.held = 0

    # Writers

    def step(self) -> None:
        """Something that a writer or a broker does."""
        chance = self.chance
        if chance.random() < 0.1:
            self._step_of_the_stranger()
            return
        query = chance.randrange(len(self.queries))
        rounds, ledger = self.queries[query], self.ledgers[query]
        open_parts = [part for one in rounds for part in one.parts if part.is_ended and part.unmarked]
        if open_parts and chance.random() < 0.4:
            self._mark(chance.choice(open_parts))
        elif not rounds or rounds[-1].is_over:
            rounds.append(Round([Part() for _ in range(chance.randint(1, 2))], number=len(rounds)))
        elif not rounds[-1].is_decided:
            self._step_of_tasks(rounds[-1], ledger)
        else:
            self._finish(rounds[-1])
        if chance.random() < 0.1:
            self._merge(rounds, ledger)

    def _step_of_tasks(self, newest: Round, ledger: dict[int, dict[TopicIdPartition, Extent]]) -> None:
        if self.chance.random() < 0.7:
            self._write(self.chance.choice(newest.parts))
        elif self.chance.random() < 0.2:
            newest.is_over = newest.is_aborted = True
            for part in newest.parts:
                part.is_ended = True
        else:
            newest.is_decided = True
            ledger[newest.number] = newest.extents()

    def _finish(self, decided: Round) -> None:
        waiting = [part for part in decided.parts if not part.is_ended]
        if waiting:
            waiting[0].is_ended = True
        else:  # the coordinator has answered; markers may be missing
            decided.is_over = True

    def _step_of_the_stranger(self) -> None:
        if len(self.stranger) < 2:
            self.stranger.append(Part())
        part = self.chance.choice(self.stranger)
        part.is_ended = part.is_ended or (bool(part.rows) and self.chance.random() < 0.3)
        if not part.is_ended:
            self._write(part)
        elif part.unmarked:
            self._mark(part)
        else:
            self.stranger.remove(part)

    def _write(self, part: Part) -> None:
        partition = self.chance.choice(self.partitions)
        part.rows.setdefault(partition, []).append(self.lengths[partition])
        part.unmarked.add(partition)
        self.lengths[partition] += 1

    def _mark(self, part: Part) -> None:
        partition = self.chance.choice(sorted(part.unmarked))
        part.unmarked.remove(partition)
        self.lengths[partition] += 1

    def _merge(self, rounds: Sequence[Round], ledger: dict[int, dict[TopicIdPartition, Extent]]) -> None:
        old = [number for number in ledger if rounds[number].is_over]
        old = old[: self.chance.randint(0, len(old))]
        if len(old) > 1:
            ledger[old[-1]] = merged([ledger.pop(number) for number in old])

    # The reader

    def stable(self, partition: TopicIdPartition) -> int:
        """Where its first open transaction begins; a broker knows it by the missing marker."""
        parts = [part for rounds in self.queries for one in rounds for part in one.parts] + self.stranger
        begins = [part.rows[partition][0] for part in parts if partition in part.unmarked]
        return min(begins, default=self.lengths[partition])

    def batches(self) -> list[Batch]:
        """What the ledgers have now."""
        return [
            Batch(extents, rounds[number].is_over)
            for rounds, ledger in zip(self.queries, self.ledgers, strict=True)
            for number, extents in sorted(ledger.items())
        ]

    def plan(self) -> Ends:
        stable = {}
        for partition in self.partitions:
            stable[partition] = self.stable(partition)
            self._wait()
        ends = last_ends(self.batches(), self.ends, stable)
        self.plans += 1
        self.held += ends != stable
        wanted = {p: self.chance.randint(self.ends[p], end) for p, end in ends.items()}
        if self.chance.random() < 0.5 and wanted not in (self.ends, ends):
            self._wait()
            before, ends = self.ends, limited_ends(self.batches(), self.ends, wanted, ends)
            assert ends != before, "a reader with a limit does not advance"
        return ends

    def go_on(self) -> None:
        """The next plan, whose ends must cut no batch that was decided or not."""
        ends = dict(self.plan())
        assert all(end >= self.ends[partition] for partition, end in ends.items())
        self.ends = ends
        for rounds in self.queries:
            for one in (one for one in rounds if not one.is_aborted):
                seen = [
                    offset < ends[partition]
                    for part in one.parts
                    for partition, offsets in part.rows.items()
                    for offset in offsets
                ]
                assert all(seen) or not any(seen), one

    def _wait(self) -> None:
        for _ in range(self.chance.choice((0, 0, 1, 5))):
            self.step()

    def end(self) -> None:
        """Everything ends, and everything can be read."""
        for rounds, ledger in zip(self.queries, self.ledgers, strict=True):
            for one in rounds:
                if not one.is_over and not one.is_decided:
                    one.is_decided, ledger[one.number] = True, one.extents()
                one.is_over = True
        for part in [part for rounds in self.queries for one in rounds for part in one.parts] + self.stranger:
            while part.unmarked:
                self._mark(part)
        assert last_ends(self.batches(), self.ends, self.lengths) == self.lengths


def played(seed: int, plans: int = 20) -> Partitions:
    world = Partitions(seed)
    for _ in range(plans):
        for _ in range(world.chance.randint(0, 12)):
            world.step()
        world.go_on()
    world.end()
    return world


def test_a_reader_beside_writers_sees_no_part_of_a_batch_and_in_the_end_all() -> None:
    worlds = [played(seed) for seed in range(150)]

    assert sum(world.held for world in worlds) > 100


@pytest.mark.walk("whole batches")
@pytest.mark.parametrize("first", range(0, 50_000, 2_500))
def test_readers_beside_writers_see_no_part_of_a_batch(first: int) -> None:
    for seed in range(first, first + 2_500):
        played(seed)
