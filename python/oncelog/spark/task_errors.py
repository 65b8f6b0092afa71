"""Errors of failed tasks, as one sentence instead of Spark's pages of stack traces."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager

from oncelog import errors
from oncelog.errors import InvariantViolation, OncelogError, UsageError

_OURS = re.compile(r"^(oncelog\w*(?:\.\w+)+)\.(\w+): (.+)$", re.MULTILINE)
"""Of any module of the core, or of a connector."""
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


def _of(text: str) -> Exception | None:
    if (ours := _OURS.search(text)) is not None and (kind := _class(ours[1], ours[2])) is not None:
        return _made(kind, ours[3])
    if (of_jar := _OF_THE_JAR.search(text)) is not None and hasattr(errors, of_jar[1]):
        return _made(getattr(errors, of_jar[1]), of_jar[2])
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


def _class(module: str, name: str) -> type[Exception] | None:
    """A class of errors by its name; OncelogError if there is none: the executors may have a version with more classes.

    None: the class is there, and is no error for users.
    """
    try:
        kind = getattr(importlib.import_module(module), name, OncelogError)
    except ImportError:
        kind = OncelogError
    return kind if isinstance(kind, type) and issubclass(kind, OncelogError | InvariantViolation) else None


def _made(kind: type[Exception], text: str) -> Exception:
    """An error with this text, whatever further arguments its class takes."""
    problem = kind.__new__(kind, text)
    if isinstance(problem, OncelogError):
        OncelogError.__init__(problem, text)
    return problem
