"""Takes a micro-batch through the phases of its target; of several targets, under one decision.

The ledgers of several sinks are in one store. One transaction plans the rounds of all, and one decides them. Hence
whoever finds one of these rounds decided knows that the others are, too, and each target completes its own round as if
its sink were alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from oncelog.batches.after_decision import after_decision
from oncelog.batches.attempt import Attempt, Batch, BatchReport, Target
from oncelog.batches.transaction import run_steps
from oncelog.crash_points import CrashPoint, reach
from oncelog.errors import NotPreparedError, OncelogError, RoundAbortedError

NamePhase = Callable[[str], AbstractContextManager[None]]


class BatchDriver:
    """Writes the batches of one sink, or of several under one decision.

    Args:
        targets: of the sinks, in the order in which they write and commit. Their ledgers are in one store.
        named: held during the phases that may run jobs; gets the name of the phase.

    Attributes:
        reports: what each sink did with the last batch.
    """

    def __init__(self, *targets: Target[Any], named: NamePhase = lambda phase: nullcontext()) -> None:
        self._targets = targets
        self._named = named
        self.reports: list[BatchReport] = []

    def run(self, *batches: Batch[Any]) -> BatchReport:
        """Write one batch, exactly once.

        Args:
            batches: one for each sink.

        Returns:
            What all sinks did, and how long each phase took.

        Raises:
            RunSupersededError, BatchRefusedError, RoundAbortedError: see batches/rules.py; nothing was decided.
            NotPreparedError: nothing was decided; a restart of the query writes the batch again.
            NotCommittedError: the batch is decided, and its target failed with an error that is not oncelog's.
            Anything that the job or the target raises: what was decided stays decided, the rest is aborted. After the
                decision it is an OncelogError that says so.
        """
        try:
            return self._run(batches)
        except (NotPreparedError, RoundAbortedError):  # nothing was decided, and there is no newer driver
            if not all(batch.is_repeatable for batch in batches):
                raise
            return self._run(batches)

    def attempt(self, *batches: Batch[Any]) -> BatchRun:
        """A new attempt at a batch; does nothing yet."""
        return BatchRun(self._targets, batches, self._named)

    def _run(self, batches: Sequence[Batch[Any]]) -> BatchReport:
        run = self.attempt(*batches)
        self.reports = [part.report for part in run.parts]
        with closing(run):
            if run.plan():
                run.write()
                run.complete()
            else:
                run.complete_replay()
        return run.report


@dataclass(frozen=True, slots=True)
class Part:
    """What one sink does in a run."""

    attempt: Attempt
    report: BatchReport


class BatchRun:
    """One attempt at a batch. A driver that lives in two processes takes the run up in the second one.

    Attributes:
        parts: one for each sink.
        report: of all sinks.
    """

    def __init__(self, targets: Sequence[Target[Any]], batches: Sequence[Batch[Any]], named: NamePhase) -> None:
        if len(targets) > 1:
            shared: dict[Any, Any] = {}
            batches = [replace(batch, shared=shared) for batch in batches]
        self._store, self._clock, self._named = targets[0].store, targets[0].clock, named
        self.parts = [
            Part(target.attempt(batch), BatchReport(batch.request.batch_id))
            for target, batch in zip(targets, batches, strict=True)
        ]
        self.report = self.parts[0].report if len(self.parts) == 1 else BatchReport(batches[0].request.batch_id)

    @property
    def _open(self) -> list[Part]:
        """The parts that are not decided yet. A sink may have decided the batch when it was still alone."""
        return [part for part in self.parts if part.attempt.is_open]

    def plan(self) -> bool:
        """Plan the batch in all ledgers. False: it was decided before in all, so that `complete_replay` follows."""
        run_steps(self._store, [part.attempt.plan for part in self.parts])
        for part in self.parts:
            part.report.is_replay = not part.attempt.is_open
        self.report.is_replay = not self._open
        return bool(self._open)

    def write(self) -> None:
        """Run the jobs; before that, complete the parts that were decided before."""
        with self.undone_if_it_fails(), self._kept_alive(), self._timed("write_ms"), self._named("write"):
            for part in self.parts:
                if not part.attempt.is_open:
                    with after_decision(part.report.batch_id):
                        part.attempt.commit(part.report)
            for part in self._open:
                part.attempt.write(part.report)

    def complete(self) -> None:
        """Prepare, decide and commit a batch whose jobs have run."""
        parts = self._open
        with self.undone_if_it_fails():
            with self._kept_alive(), self._timed("prepare_ms"):
                for part in parts:
                    part.attempt.prepare(part.report)
            with self._timed("decide_ms"):
                run_steps(self._store, [partial(part.attempt.decide, part.report) for part in parts])
            with self._timed("commit_ms"):
                self._commit(parts)
        self._finish()
        reach(CrashPoint.SINK_DONE)

    def complete_replay(self) -> None:
        """Commit what was decided before, as far as that has not happened."""
        self._commit(self.parts)
        self._finish()

    def close(self) -> None:
        """Release what the attempts hold."""
        for part in self.parts:
            part.attempt.close()

    @contextmanager
    def undone_if_it_fails(self) -> Iterator[None]:
        """Abort what is not decided if an error is raised."""
        try:
            yield
        except BaseException:
            for part in self._open:
                with suppress(OncelogError):
                    part.attempt.abort()
            raise

    def _commit(self, parts: Sequence[Part]) -> None:
        """Commit in these targets, even after one fails: a store that is unreachable must not delay the others."""
        problem: Exception | None = None
        for part in parts:
            try:
                with self._named("commit"), after_decision(part.report.batch_id):
                    part.attempt.commit(part.report)
            except Exception as found:  # noqa: BLE001 - raised below
                if problem is None:
                    problem = found
                else:
                    problem.add_note(f"And another sink of the batch: {found}")
        if problem is not None:
            raise problem
        if len(self.parts) > 1:
            self._add_up()

    def _finish(self) -> None:
        with after_decision(self.report.batch_id):
            for part in self.parts:
                part.attempt.finish()

    def _add_up(self) -> None:
        """Put the counts of all parts into the report."""
        found = [part.report for part in self.parts]
        sizes = [one.size_bytes for one in found if one.size_bytes is not None]
        self.report.size_bytes = sum(sizes) if sizes else None
        for count in ("rows", "participants", "rewritten", "aborted"):
            setattr(self.report, count, sum(getattr(one, count) for one in found))

    @contextmanager
    def _kept_alive(self) -> Iterator[None]:
        with ExitStack() as stack:
            for part in self._open:
                stack.enter_context(part.attempt.kept_alive())
            yield

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        began_ms = self._clock.monotonic_ms()
        yield
        setattr(self.report, phase, self._clock.monotonic_ms() - began_ms)
