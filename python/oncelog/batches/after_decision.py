"""What every error after a batch's decision must say: the batch is decided, and a restart of the query commits it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from oncelog.crash_points import StoppedHereError
from oncelog.errors import InvariantViolation, NotCommittedError, OncelogError, RunSupersededError

DECIDED: Final = (
    "the batch is decided, so it will be neither lost nor written again: correct this, and restart the query, which "
    "commits the batch"
)
LAST_RESORT: Final = (
    "if it can never be committed, give it up with `oncelog batch complete PREFIX --accept-loss` (for Kafka: `oncelog "
    "kafka batch complete`)"
)

MAX_PROBLEM_CHARS = 500
"""Of an error that is not oncelog's. Java's come with pages of stack traces; the cause is attached in full."""


@contextmanager
def after_decision(batch_id: int, prefix: str | None = None) -> Iterator[None]:
    """Add the advice to whatever a decided batch's commit raises. An error that is not oncelog's becomes one.

    The error of a run that was superseded stays as it is: the newer run commits the batch.

    Args:
        batch_id: of the decided batch.
        prefix: of its ledger, for errors that do not name it; None if the caller does not know it.

    Raises:
        NotCommittedError: in place of an error of Python or of a library.
    """
    named = {} if prefix is None else {"prefix": prefix}
    try:
        yield
    except (StoppedHereError, InvariantViolation, RunSupersededError):
        raise
    except OncelogError as problem:
        if "decided_batch_id" not in problem.fields:
            problem.message = "; ".join([problem.message, *_missing_advice(problem.message)])
            problem.fields |= {**named, **problem.fields, "decided_batch_id": batch_id}
        raise
    except Exception as problem:
        raise NotCommittedError(
            f"a decided batch could not be completed; {DECIDED}; {LAST_RESORT}",
            problem=f"{type(problem).__name__}: {' '.join(str(problem).split())}"[:MAX_PROBLEM_CHARS],
            **named,
            decided_batch_id=batch_id,
        ) from problem


def _missing_advice(message: str) -> list[str]:
    """What a message does not say yet. A target's own advice is more precise."""
    found = [] if "decided" in message else [DECIDED]
    return found if "batch complete" in message else [*found, LAST_RESORT]
