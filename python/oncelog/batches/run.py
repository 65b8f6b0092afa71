"""The driver side of a sink: takes one micro-batch through the phases of its target. The same for every target."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from typing import Generic

from oncelog.batches.after_decision import after_decision
from oncelog.batches.attempt import Attempt, Batch, BatchReport, J, Target
from oncelog.crash_points import CrashPoint, reach
from oncelog.errors import NotPreparedError, OncelogError, RoundAbortedError


class BatchDriver(Generic[J]):
    """Writes the batches of one sink to one target.

    Args:
        target: of the sink.
        named: held during the phases that may run jobs, so that who looks at these sees which phase it is.
    """

    def __init__(
        self, target: Target[J], named: Callable[[str], AbstractContextManager[None]] = lambda phase: nullcontext()
    ) -> None:
        self._target = target
        self._clock = target.clock
        self._named = named

    def run(self, batch: Batch[J]) -> BatchReport:
        """Write one batch, exactly once.

        Raises:
            RunSupersededError, BatchRefusedError, RoundAbortedError: see batches/rules.py; nothing was decided.
            NotPreparedError: nothing was decided; a restart of the query writes the batch again.
            NotCommittedError: the batch is decided, and its target failed with an error that is not oncelog's.
            Anything that the job or the target raises: what was decided stays decided, the rest is aborted. After the
                decision it is an OncelogError that says so.
        """
        try:
            return self._run(batch)
        except (NotPreparedError, RoundAbortedError):  # nothing was decided, and there is no newer driver
            if not batch.is_repeatable:
                raise
            return self._run(batch)

    def begin(self, attempt: Attempt, report: BatchReport) -> bool:
        """Plan the batch. False: it was decided before, and is finished now."""
        if attempt.begin():
            return True
        report.is_replay = True
        with after_decision(report.batch_id):
            with self._named("commit"):
                attempt.commit(report)
            attempt.finish()
        return False

    def write(self, attempt: Attempt, report: BatchReport) -> None:
        """Run the job of a batch that was begun."""
        with (
            self.undone_if_it_fails(attempt),
            attempt.kept_alive(),
            self._timed(report, "write_ms"),
            self._named("write"),
        ):
            attempt.write(report)

    def complete(self, attempt: Attempt, report: BatchReport) -> None:
        """Prepare, decide and commit a batch whose job has run."""
        with self.undone_if_it_fails(attempt):
            with attempt.kept_alive(), self._timed(report, "prepare_ms"):
                attempt.prepare(report)
            with self._timed(report, "decide_ms"):
                attempt.decide(report)
            with self._timed(report, "commit_ms"), self._named("commit"), after_decision(report.batch_id):
                attempt.commit(report)
        with after_decision(report.batch_id):
            attempt.finish()
        reach(CrashPoint.SINK_DONE)

    def _run(self, batch: Batch[J]) -> BatchReport:
        attempt, report = self._target.attempt(batch), BatchReport(batch.request.batch_id)
        if self.begin(attempt, report):
            self.write(attempt, report)
            self.complete(attempt, report)
        return report

    @contextmanager
    def undone_if_it_fails(self, attempt: Attempt) -> Iterator[None]:
        try:
            yield
        except BaseException:
            with suppress(OncelogError):
                attempt.abort()
            raise

    @contextmanager
    def _timed(self, report: BatchReport, phase: str) -> Iterator[None]:
        began_ms = self._clock.monotonic_ms()
        yield
        setattr(report, phase, self._clock.monotonic_ms() - began_ms)
