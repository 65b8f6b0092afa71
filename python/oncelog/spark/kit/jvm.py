"""What the driver asks of the JVM that Spark's Python API does not offer."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext

_DESCRIPTION = "spark.job.description"


def find_class(jvm: Any, name: str) -> Any | None:
    """A class that Spark has loaded from a jar; None if it has not.

    Args:
        jvm: py4j's view of the JVM.
        name: with its package.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # not there under Spark Connect

    loader = jvm.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(name)
    except Py4JError:
        return None
    return reduce(getattr, name.split("."), jvm)


class JobNames:
    """Adds a line to the description of the jobs that this thread runs, below Spark's own of the query and its batch.

    Args:
        spark: whose jobs they are. It is asked once for its own description, which is the same for a whole batch.
    """

    def __init__(self, spark: SparkContext) -> None:
        self._spark = spark
        self._before = spark.getLocalProperty(_DESCRIPTION)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        self._spark.setLocalProperty(_DESCRIPTION, f"{self._before}<br/>{name}" if self._before else name)
        try:
            yield
        finally:
            self._spark.setLocalProperty(_DESCRIPTION, self._before)  # type: ignore[arg-type]  # None removes it
