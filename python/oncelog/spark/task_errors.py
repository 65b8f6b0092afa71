"""Errors of failed tasks, as one sentence instead of Spark's pages of stack traces."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from oncelog import errors
from oncelog.errors import OncelogError, UsageError

_OURS = re.compile(r"^(oncelog\w*\.errors)\.(\w+): (.+)$", re.MULTILINE)
"""Of the core, or of a connector."""
_OF_THE_JAR = re.compile(r"\[USER_RAISED_EXCEPTION\] (\w+): (.+?)(?: SQLSTATE: \w+)?$", re.MULTILINE)
"""How Spark shows an OncelogError.java, and what SQL raises with `raise_error`."""
_NO_MODULE = re.compile(r"No module named '?([\w.]+)")
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_OTHER_PYTHON = re.compile(r"Python in worker has different version: (\S+) than that in driver: (\S+),")


@contextmanager
def in_one_sentence() -> Iterator[None]:
    """Raise the error of a failed job as the error that its task raised, or as one that says what its Python lacks."""
    try:
        yield
    except Exception as problem:  # PySpark's, or py4j's if a task never started
        found = _of(str(problem))
        if found is None:
            raise
        raise found from None


def _of(text: str) -> OncelogError | None:
    if (ours := _OURS.search(text)) is not None:
        # The executors may have another version, with more classes.
        kind: type[OncelogError] = getattr(sys.modules.get(ours[1]), ours[2], OncelogError)
        return kind(ours[3])
    if (of_jar := _OF_THE_JAR.search(text)) is not None and hasattr(errors, of_jar[1]):
        kind = getattr(errors, of_jar[1])
        return kind(of_jar[2])
    if (lacking := _NO_MODULE.search(text)) is not None:
        return UsageError(
            "the Python of Spark's executors has no such module; install oncelog there, or send the executors an "
            "archive of the environment, as docs/guides/where-jobs-start.md shows",
            module=lacking[1],
        )
    if (program := _NO_PROGRAM.search(text)) is not None:
        return UsageError(
            "Spark's executors have no Python at this path; set PYSPARK_PYTHON to one that they have", path=program[1]
        )
    if (other := _OTHER_PYTHON.search(text)) is not None:
        return UsageError(
            "Spark's executors run another Python than its driver; set PYSPARK_PYTHON to a Python with the driver's "
            "minor version",
            executors=other[1],
            driver=other[2],
        )
    return None
