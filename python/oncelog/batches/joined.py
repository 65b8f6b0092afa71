"""Runs the steps of several batches as one: all of them happen, or none.

Each batch derives its step as if it were alone, and runs it with its `runner`. The runner keeps the step, lets the next
batch derive its own, and returns when the last one has, and all were run. So what a batch checks right before its step,
and what it does when the step fails, is the same as alone; only the write is common.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from oncelog.batches.steps import StepRunner
from oncelog.errors import ensure
from oncelog.ports import ZnodeStore, ZnodeView
from oncelog.znodes.transact import resolving

T = TypeVar("T")


class JoinedSteps:
    """Steps in one store."""

    def __init__(self, store: ZnodeStore) -> None:
        self._store = store
        self._askers: Mapping[int, Callable[[], object]] = {}
        self._steps: dict[int, Callable[[ZnodeView], Any]] = {}
        self._results: dict[int, Any] = {}

    def runner(self, number: int) -> StepRunner:
        """What the batch of this number runs its step with. It may do so again after an error."""

        def run(step: Callable[[ZnodeView], T]) -> T:
            self._steps[number] = step
            self._go_on_after(number)
            result: T = self._results[number]
            return result

        return run

    def run(self, askers: Mapping[int, Callable[[], object]]) -> None:
        """Run the steps of some batches as one.

        Args:
            askers: by number; each runs one step with the runner of its number.

        Raises:
            whatever a batch or its step raises: nothing was written.
        """
        self._askers, self._steps, self._results = askers, {}, {}
        self._go_on_after(-1)
        ensure(self._results.keys() == askers.keys(), "each batch has run its step")

    def _go_on_after(self, number: int) -> None:
        following = min((other for other in self._askers if other > number), default=None)
        if following is not None:
            self._askers[following]()
        else:
            self._results = resolving(lambda: self._store.transact(self._run_all))

    def _run_all(self, view: ZnodeView) -> dict[int, Any]:
        return {number: step(view) for number, step in self._steps.items()}
