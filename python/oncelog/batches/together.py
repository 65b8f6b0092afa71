"""Several targets under one decision: a batch becomes visible in all of them, or in none.

The ledgers of all are in one store. One step of it begins the rounds of all, and one step decides them. So whoever
finds a round decided knows that the others are, too, and each target completes its own as if it were alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from oncelog.batches.after_decision import after_decision
from oncelog.batches.attempt import Attempt, Batch, BatchReport, Target
from oncelog.batches.joined import JoinedSteps
from oncelog.errors import OncelogError
from oncelog.ports import ZnodeStore


class TogetherTarget:
    """Targets whose ledgers are in one store; see `Target`. A job is the batch of each.

    Attributes:
        targets: in the order in which they write.
        reports: what each did with the last batch.
    """

    def __init__(self, targets: Sequence[Target[Any]]) -> None:
        self.targets = tuple(targets)
        self.clock = targets[0].clock
        self.reports: list[BatchReport] = []

    @property
    def store(self) -> ZnodeStore:
        return self.targets[0].store

    def attempt(self, batch: Batch[Sequence[Batch[Any]]]) -> TogetherAttempt:
        attempt = TogetherAttempt(self, batch.job)
        self.reports = [part.report for part in attempt.parts]
        return attempt


@dataclass(slots=True)
class Part:
    """What an attempt does with one target.

    Attributes:
        is_open: whether the target lacks the batch. It has it before the others if its sink was alone when it was
            written.
    """

    attempt: Attempt
    report: BatchReport
    is_open: bool = False

    def begin(self) -> None:
        self.is_open = self.attempt.begin()
        self.report.is_replay = not self.is_open


class TogetherAttempt:
    """One round of each target; see `Attempt`.

    Attributes:
        parts: one for each target, in their order.
    """

    def __init__(self, target: TogetherTarget, batches: Sequence[Batch[Any]]) -> None:
        self._joined = JoinedSteps(target.store)
        shared: dict[Any, Any] = {}
        self.parts = []
        for number, (one, batch) in enumerate(zip(target.targets, batches, strict=True)):
            part = replace(batch, joined=self._joined.runner(number), shared=shared)
            self.parts.append(Part(one.attempt(part), BatchReport(batch.request.batch_id)))

    @property
    def _open(self) -> list[Part]:
        return [part for part in self.parts if part.is_open]

    def begin(self) -> bool:
        self._joined.run({number: part.begin for number, part in enumerate(self.parts)})
        return bool(self._open)

    @contextmanager
    def kept_alive(self) -> Iterator[None]:
        with ExitStack() as stack:
            for part in self._open:
                stack.enter_context(part.attempt.kept_alive())
            yield

    def write(self, report: BatchReport) -> None:
        for part in self.parts:
            if not part.is_open:
                with after_decision(part.report.batch_id):
                    part.attempt.commit(part.report)
        for part in self._open:
            part.attempt.write(part.report)

    def prepare(self, report: BatchReport) -> None:
        for part in self._open:
            part.attempt.prepare(part.report)

    def decide(self, report: BatchReport) -> None:
        open_parts = ((number, part) for number, part in enumerate(self.parts) if part.is_open)
        self._joined.run({number: partial(part.attempt.decide, part.report) for number, part in open_parts})

    def commit(self, report: BatchReport) -> None:
        """Commit in all targets, also behind one that fails: a store that is away holds up no other."""
        problem: Exception | None = None
        for part in self.parts:
            try:
                with after_decision(part.report.batch_id):
                    part.attempt.commit(part.report)
            except Exception as found:  # noqa: BLE001 - raised below
                if problem is None:
                    problem = found
                else:
                    problem.add_note(f"And another sink of the batch: {found}")
        if problem is not None:
            raise problem
        self._add_up(report)

    def abort(self) -> None:
        for part in self._open:
            with suppress(OncelogError):
                part.attempt.abort()

    def finish(self) -> None:
        for part in self.parts:
            part.attempt.finish()

    def _add_up(self, report: BatchReport) -> None:
        """The counts of all targets."""
        found = [part.report for part in self.parts]
        sizes = [one.size_bytes for one in found if one.size_bytes is not None]
        report.size_bytes = sum(sizes) if sizes else None
        for count in ("rows", "participants", "rewritten", "aborted"):
            setattr(report, count, sum(getattr(one, count) for one in found))
