"""Tells whoever measures this process what it asks of znode stores, and how long the answers take.

Reads outside of steps are not measured: they are of those who look, and not of those who work.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
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

STEP_RESULTS = ("done", "failed")
WRITE_RESULTS = ("written", "conflict", "unanswered", "failed")


@contextmanager
def step() -> Iterator[None]:
    """Measure a step, unless nobody measures."""
    if not METERS:
        yield
        return
    began, result = time.perf_counter(), "failed"
    try:
        yield
        result = "done"
    finally:
        for meter in METERS:
            meter.step_ended(time.perf_counter() - began, result)


@contextmanager
def write() -> Iterator[None]:
    """Measure a write, unless nobody measures."""
    if not METERS:
        yield
        return
    began, result = time.perf_counter(), "failed"
    try:
        yield
        result = "written"
    except (MultiFailedError, StaleStepError):
        result = "conflict"
        raise
    except OutcomeUnknownError:
        result = "unanswered"
        raise
    finally:
        for meter in METERS:
            meter.write_ended(time.perf_counter() - began, result)
