"""A streaming query into one or several targets: a driver, its tasks, and a checkpoint, as in Spark.

A driver may die, stand still and wake up beside its successor. Its checkpoint may be lost; then the operator starts
a new query behind the last decided batch, which takes the history over. A sink may be added to the others at a restart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from random import Random
from typing import Any

from oncelog.batches.attempt import Batch, BatchReport, Target
from oncelog.batches.run import BatchDriver
from oncelog.errors import (
    AbortableError,
    BatchRefusedError,
    FatalError,
    InvalidRecordError,
    OncelogError,
    OutcomeUnknownError,
    RetriableError,
    RunSupersededError,
)
from oncelog.ports import ZnodeStore
from oncelog.spark.kit.context import BatchContext
from oncelog.spark.kit.requests import batch_request
from simulation.clients import Client, persevere
from simulation.errors import LawBrokenError
from simulation.processes import Process
from simulation.sinks import Told
from simulation.targets.books import Books, Ledger
from simulation.targets.destinations import Destination, continuing
from simulation.targets.places import AWAY_MS
from simulation.world import DELIVERED_WITHIN_MS, World
from simulation.znodes import SharedZnodes

FALLS_WITHIN_MS = 30
"""How soon after a decision a driver's machine may die: about as long as it takes to make a batch visible."""

OUT_OF_REACH, STANDS_STILL_MS = 0.5, 60_000
"""The probability that a driver cannot be killed when another query takes the history over, and how long it then stands
still."""

ROWS_MAX = 3
"""The most rows in one partition of a batch."""

RESTARTS = 4
"""The most restarts of a query at the end, when no more faults happen."""


@dataclass(slots=True)
class Checkpoint:
    """A query's checkpoint.

    Attributes:
        query_id: of the query.
        base: the number of the source's batch that is the query's batch 0.
        formers: the queries whose history it continues.
        done: the query's batches that are known to be done.
    """

    query_id: str
    base: int = 0
    formers: tuple[str, ...] = ()
    done: set[int] = field(default_factory=set)

    @property
    def next_batch(self) -> int:
        """The number of the query's next batch."""
        return max(self.done, default=-1) + 1

    def successor(self, base: int) -> Checkpoint:
        """An empty checkpoint, of a new query."""
        name, _, number = self.query_id.partition("/")
        return Checkpoint(f"{name}/{int(number or 0) + 1}", base, (*self.formers, self.query_id))


@dataclass(frozen=True, slots=True)
class Traits:
    """The properties of a query.

    Attributes:
        batches: how many its source has.
        losses: the probability, at the start of a life, that the checkpoint is lost.
        falls: the probability that a driver's machine dies right after a decision.
        strays: the probability, at the start of a life, that the driver is given another, empty ledger first.
        repeats: the probability that the user's function calls the sinks a second time for a batch.
        is_repeatable: see `Batch`.
    """

    batches: int = 2
    losses: float = 0.0
    falls: float = 0.0
    strays: float = 0.0
    repeats: float = 0.1
    is_repeatable: bool = True


class TargetQuery(Client):
    """A query; each life is a run of its driver.

    Args:
        books: of its decisions.
        destinations: its targets, in order.
        later: those that the operator adds, one at each restart.
        topic: whose numbers its rows get.
    """

    def __init__(
        self,
        world: World,
        name: str,
        books: Books,
        destinations: Sequence[Destination],
        traits: Traits,
        *,
        later: Sequence[Destination] = (),
        topic: str = "rows",
        lives: int = 5,
    ) -> None:
        super().__init__(world, name, lives)
        self.destinations = list(destinations)
        self.books = books
        self.traits = traits
        self.checkpoint = Checkpoint(name)
        self.source: list[list[list[int]]] = []
        self._later = list(later)
        self._topic = topic
        self._drivers: list[Process] = []
        self._former: Checkpoint | None = None
        books.on_decision = self._fall
        for destination in destinations:
            self._enter(destination, since=0)
        self.plan(traits.batches)
        self._sight = Random(repr(self.source))
        self._habit = Random(repr(self.source))

    def plan(self, batches: int) -> None:
        """Add this many more batches to the source. Some have no rows."""
        chance, world = self.world.chance, self.world
        for _ in range(batches):
            counts = [chance.randint(0, ROWS_MAX) for _ in range(chance.randint(1, 2))]
            firsts = [world.numbers(self._topic, count) for count in counts]
            self.source.append([list(range(first, first + n)) for first, n in zip(firsts, counts, strict=True)])

    def _enter(self, destination: Destination, since: int) -> None:
        self.books.ledgers[destination.name] = Ledger(destination, since)

    # Lives

    def expects(self, error: FatalError) -> bool:
        return isinstance(error, (RunSupersededError, BatchRefusedError))

    def live(self, process: Process) -> None:
        self._operate(process)
        if self.world.chance.random() < self.traits.strays:
            self._stray(process)
        checkpoint = self.checkpoint
        try:
            self.go_on(process)
        except BatchRefusedError:
            self._restore(process, checkpoint)
            raise
        except OncelogError as error:
            if not self._mend(process, error):
                raise
        else:
            self.is_done = True

    def go_on(self, process: Process) -> None:
        """Run batches until the source has no more."""
        run = _Run(self, process, process.store())
        while run.checkpoint.base + run.checkpoint.next_batch < len(self.source):
            run.write(run.checkpoint.next_batch)

    def catch_up(self, process: Process) -> None:
        """At the end of the run, process what is left, and one batch more, which carries out all before it.

        Raises:
            LawBrokenError: it is not done, though nothing goes wrong any more.
        """
        process.sleep_ms(max(AWAY_MS))
        self.plan(1)
        problem: OncelogError | None = None
        for _ in range(RESTARTS):
            try:
                return self.go_on(process)
            except BatchRefusedError as error:
                problem = error
                self._restore(process, self.checkpoint)
            except (RetriableError, OutcomeUnknownError, AbortableError) as error:
                problem = error
            except OncelogError as error:
                if not self._mend(process, error):
                    raise
            process = self.world.process(self.name)
        raise LawBrokenError(f"{self.name}: the work is not done after {RESTARTS} restarts: {problem}")

    def _fall(self, run_id: str) -> None:
        """Sometimes let the driver's machine die right after a decision."""
        chance = self.world.chance
        driver = next((one for one in self._drivers if one.name == run_id), None)
        if driver is not None and not driver.is_dead and chance.random() < self.traits.falls:
            self.world.scheduler.start(driver.crash, chance.randrange(FALLS_WITHIN_MS))

    def _mend(self, process: Process, error: OncelogError) -> bool:
        """Do for a target what its error asks for. Returns whether there is something to do."""
        return any(one.mend(self, process, error) for one in self.destinations)

    def calls_twice(self) -> bool:
        """Whether the user's function calls the sinks once more for the batch that it has just written."""
        return self._habit.random() < self.traits.repeats

    # The operator

    def _operate(self, process: Process) -> None:
        """Before a life begins, lose the checkpoint, or add a sink, if it is time for that."""
        loses = bool(self._drivers) and self.world.chance.random() < self.traits.losses
        adds = bool(self._drivers) and bool(self._later)
        self._drivers.append(process)
        if not (loses or adds):
            return
        self.stop_others(process, out_of_reach=OUT_OF_REACH if loses else 0.0)
        ends = {self.books.ledgers[one.name].next_batch for one in self.destinations}
        if loses and len(ends) == 1:  # a sink that was added may lack a batch of the others: no new query can go on
            self.world.counts["checkpoints lost"] += 1
            if self._owner() == self.checkpoint.query_id:
                self._former = self.checkpoint
            self.checkpoint = self.checkpoint.successor(ends.pop())
        if adds and self._later:  # otherwise a life that began meanwhile has added it
            self.world.counts["sinks added"] += 1
            added = self._later.pop(0)
            self._enter(added, since=self.checkpoint.base + self.checkpoint.next_batch)
            self.destinations.append(added)

    def _stray(self, process: Process) -> None:
        """Begin with another ledger: a target whose place knows the query must refuse that."""
        run = _Run(self, process, SharedZnodes(self.world).opened_by(process))
        batch_id = run.checkpoint.next_batch
        if not run.is_known(batch_id):
            return
        try:
            run.write(batch_id)
        except BatchRefusedError:
            self.world.counts["other ledgers refused"] += 1
        else:
            self.books.break_law("a batch is written with a ledger that lacks the history")

    def stop_others(self, process: Process, *, out_of_reach: float = 0.0) -> None:
        """Kill all other drivers, and wait until nothing that they sent is under way. Their tasks go on.

        Args:
            out_of_reach: the probability that one cannot be killed. It stands still until another query has taken over.
        """
        missed = {process}
        while others := [one for one in self._drivers if one not in missed and not one.is_dead]:
            for other in others:
                if self._sight.random() >= out_of_reach:
                    other.crash()
                    continue
                missed.add(other)
                other.pause(STANDS_STILL_MS)
                self.world.scheduler.start(partial(self._kill_too_early, other), STANDS_STILL_MS - 1)
            process.sleep_ms(DELIVERED_WITHIN_MS + 1)

    def _kill_too_early(self, driver: Process) -> None:
        """Kill a driver that would wake up before another query has taken over, because it would go on."""
        if driver.is_dead:
            return
        if self._owner() == self.checkpoint.query_id:
            self.world.counts["drivers of a former query that woke up"] += 1
        else:
            driver.crash()

    def _restore(self, process: Process, refused: Checkpoint) -> None:
        """A new query was refused: it is stopped, and if the former one still owns the history, that one goes on."""
        former = self._former
        if former is None or refused is not self.checkpoint or self._owner() != former.query_id:
            return
        self.stop_others(process)
        if refused is self.checkpoint and self._owner() == former.query_id:
            self.world.counts["checkpoints restored"] += 1
            self.checkpoint, self._former = former, None
            for ledger in self.books.ledgers.values():  # a sink that was added for the new query begins with this one
                if not ledger.decided:
                    ledger.since = min(ledger.since, former.base + former.next_batch)

    def _owner(self) -> str | None:
        first = self.destinations[0]
        ledger = first.kind.read(self.world.znodes.store, first.prefix)
        return None if ledger is None else ledger.query_id

    def abort_open(self, process: Process) -> None:
        """What an operator may do at any time: abort the newest round of one of the ledgers, if it is open."""
        chosen = self.world.chance.choice(self.destinations)
        store = process.store()
        ledger = persevere(process, lambda: chosen.kind.read(store, chosen.prefix))
        if ledger is not None and ledger.current_round:
            number = ledger.current_round
            if persevere(process, lambda: chosen.kind.abort(store, chosen.prefix, number)):
                self.world.counts["rounds aborted by an operator"] += 1

    # Laws

    def judge(self, in_log: Sequence[tuple[int, int]]) -> None:
        """Check everything after the query has caught up.

        Args:
            in_log: partition and number of each record of the topic, in order.

        Raises:
            LawBrokenError: a law is broken.
        """
        problems = list(self.books.broken)
        for destination in self.destinations:
            ledger = self.books.ledgers[destination.name]
            if ledger.next_batch != len(self.source):
                problems.append(f"{ledger.name}: {ledger.next_batch} of {len(self.source)} batches are decided")
            found = destination.seen(in_log)
            expected = self._expected(destination, ledger.since)
            problems += _wrong_rows(destination.name, found, expected, destination.given_up())
            problems += (f"{ledger.name}: {path} is not over: {one}" for path, one in ledger.not_over())
            problems += destination.left(len(self.source))
        if problems:
            raise LawBrokenError("\n".join(problems))
        self.world.counts["batches in all targets"] += len(self.source)

    def _expected(self, destination: Destination, since: int) -> list[set[int]]:
        batches = [destination.chosen(rows) for rows in self.source[since:]]
        return [{number for some in rows for number in some} for rows in batches]


class _Run:
    """One run of a query: its driver's process."""

    def __init__(self, query: TargetQuery, process: Process, store: ZnodeStore) -> None:
        self._query = query
        self._process = process
        self._store = store
        self.checkpoint = query.checkpoint
        self._destinations = list(query.destinations)
        query.books.begin(process.name, [one.name for one in self._destinations])
        self._targets: list[Target[Any]] = []
        for destination in self._destinations:
            self._targets.append(persevere(process, lambda one=destination: one.opened(process, store)))  # type: ignore[misc]
        self._calls = count()

    def write(self, batch_id: int) -> None:
        """Write a batch, and note it in the checkpoint."""
        query, process = self._query, self._process
        context = self._context(batch_id)
        number = self.checkpoint.base + batch_id
        query.books.expect(number, (context.start_offsets, context.end_offsets))
        told = Told(query.world.recorder(process), f"{query.name}/{number}/{process.name}", query.name)
        batches = [self._asked(one, context, number, told) for one in self._destinations]
        faults = process.faults
        try:
            report = self._driven(batches)
        except OncelogError as error:
            told.failed(is_certain=False)
            if isinstance(error, InvalidRecordError) and process.faults == faults:
                query.books.judge_undone(process.name)
            raise
        told.committed()
        query.books.judge_done(process.name, number)
        query.world.counts["batches replayed" if report.is_replay else "batches committed"] += 1
        query.world.counts["participants rewritten"] += report.rewritten
        if query.calls_twice():
            self._call_again(batches)
        process.wait(query.world.latency_ms())
        self.checkpoint.done.add(batch_id)

    def _call_again(self, batches: list[Batch[Any]]) -> None:
        """A second call for a batch in one run must be refused, also in a run that only replays the batch."""
        number = next(self._calls)
        again = [
            replace(one, request=replace(one.request, call_id=f"{one.request.run_id}/again/{number}"))
            for one in batches
        ]
        try:
            self._driven(again)
        except BatchRefusedError:
            self._query.world.counts["second calls refused"] += 1
        else:
            self._query.books.break_law("a second call for a batch is not refused")

    def is_known(self, batch_id: int) -> bool:
        """Whether a place shows that the query has a history, when it is asked for this batch."""
        context = self._context(batch_id)
        asked = [
            (one.place, batch_request(one.options, context, context.run_id, "asks only")) for one in self._destinations
        ]
        return any(place is not None and place.knows(request) for place, request in asked)

    def _context(self, batch_id: int) -> BatchContext:
        number = self.checkpoint.base + batch_id
        start, end = (str(number) if batch_id else None,), (str(number + 1),)
        query_id, run_id = self.checkpoint.query_id, self._process.name
        return BatchContext(query_id, run_id, "", batch_id, start, end, has_state=False)

    def _driven(self, batches: list[Batch[Any]]) -> BatchReport:
        """As a sink runs it that is alone, or as `together` runs several."""
        return BatchDriver(*self._targets).run(*batches)

    def _asked(self, one: Destination, context: BatchContext, number: int, told: Told) -> Batch[Any]:
        known = one.kind.read(self._store, one.prefix)
        options = one.options
        if known is not None and known.query_id in self.checkpoint.formers:
            options = continuing(options, known.query_id)
        request = batch_request(options, context, context.run_id, f"{context.run_id}/{number}/{next(self._calls)}")
        job = one.job(self._process, request, one.chosen(self._query.source[number]), told)
        progress = one.progress(number if context.batch_id else None, number + 1)
        return Batch(request, job, progress, is_repeatable=self._query.traits.is_repeatable)


# Laws -----------------------------------------------------------------------------------------------------------------


def _wrong_rows(name: str, found: list[list[int]], expected: list[set[int]], given_up: set[int]) -> Iterator[str]:
    """Each row of each batch must be there once, behind the batch before; those given up may be missing."""
    counts, everything = Counter(number for some in found for number in some), set[int]().union(*expected)
    missing, extra = everything - counts.keys() - given_up, counts.keys() - everything
    doubled = sorted(number for number, count in counts.items() if count > 1)
    if missing or extra or doubled:
        yield f"{name}: missing={sorted(missing)} extra={sorted(extra)} {doubled=}"
        return
    batch_of = {number: at for at, rows in enumerate(expected) for number in rows}
    for some in found:
        order = [batch_of[number] for number in some]
        if order != sorted(order):
            yield f"{name}: batches are out of order: {order}"
