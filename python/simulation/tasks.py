"""A task of a batch as Spark runs it: it is retried, run twice at a time, and may go on after its job has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from oncelog.errors import AbortableError, OncelogError
from simulation.processes import Process

R = TypeVar("R")
"""What an attempt of a task returns."""

TASK_ATTEMPTS = 3
"""How often a task is tried before its job fails (four times in Spark)."""

SPECULATIVE = 0.02
"""The probability, at each look, of a second attempt of a task while the first one runs."""

LOOK_MS = 20
"""How often a driver checks its tasks."""


class Task(Generic[R]):
    """One task, in one or more attempts, each in its own process.

    Args:
        driver: the process that waits for it.
        name: of its processes.
        work: one attempt, in its process.
        speculative: see `SPECULATIVE`.
    """

    def __init__(
        self, driver: Process, name: str, work: Callable[[Process], R], *, speculative: float = SPECULATIVE
    ) -> None:
        self._world = driver.world
        self._driver = driver
        self._name = name
        self._work = work
        self._speculative = speculative
        self._running: list[Process] = []
        self._results: list[R] = []

    def run(self) -> R:
        """What the first successful attempt returned.

        Raises:
            AbortableError: all attempts failed, so the job fails.
        """
        attempts = 0
        while not self._results:
            self._running = [process for process in self._running if not process.is_dead]
            if not self._running:
                if attempts == TASK_ATTEMPTS:
                    raise AbortableError("a task of the batch failed every time")
                attempts += 1
                self._start()
            if len(self._running) == 1 and self._world.chance.random() < self._speculative:
                self._world.counts["speculative tasks"] += 1
                self._start()
            self._driver.sleep_ms(LOOK_MS)
        return self._results[0]

    def _start(self) -> None:
        process = self._world.process(self._name)
        self._running.append(process)

        def body() -> None:
            try:
                self._results.append(self._work(process))
            except OncelogError:
                self._running.remove(process)

        process.start(body, self._world.latency_ms())
