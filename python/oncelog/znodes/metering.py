"""Tells whoever measures this process what it asks of znode stores, and how long the answers take.

Reads outside of steps are not measured: they are of those who look, and not of those who work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from oncelog.errors import OutcomeUnknownError
from oncelog.znodes.errors import MultiFailedError, StaleStepError


class Meter(Protocol):
    """Hears of steps and writes, in the thread that makes them. What it takes is a part of their time."""

    def step_ended(self, seconds: float, result: str) -> None:
        """A step was done, or has failed: with its reads, its write, and both again after a conflict."""

    def write_ended(self, seconds: float, result: str) -> None:
        """A write was answered: one round trip to a store on another machine. Or it was not."""


METERS: list[Meter] = []


def step() -> AbstractContextManager[None]:
    """Measure a step, unless nobody measures."""
    return _measured(lambda meter: meter.step_ended, "done", lambda _: "failed")


def write() -> AbstractContextManager[None]:
    """Measure a write, unless nobody measures."""
    return _measured(lambda meter: meter.write_ended, "written", _failure_of_write)


def _failure_of_write(problem: BaseException) -> str:
    if isinstance(problem, MultiFailedError | StaleStepError):
        return "conflict"
    return "unanswered" if isinstance(problem, OutcomeUnknownError) else "failed"


@contextmanager
def _measured(
    hearing: Callable[[Meter], Callable[[float, str], None]], success: str, failure: Callable[[BaseException], str]
) -> Iterator[None]:
    if not METERS:
        yield
        return
    began, result = time.perf_counter(), success
    try:
        yield
    except BaseException as problem:
        result = failure(problem)
        raise
    finally:
        for meter in METERS:
            hearing(meter)(time.perf_counter() - began, result)
