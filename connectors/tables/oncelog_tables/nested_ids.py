"""Field ids of the elements of lists and of the keys and values of maps, by a parquet format in oncelog's jar.

Spark writes the ids that columns and fields of structs have in their metadata. An element, a key or a value is no field
in Spark and has no metadata, so only the jar can write their ids. A session that was started without the jar loads it
when it is first needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

from oncelog.errors import UsageError
from oncelog.spark import packaging

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT: Final = "io.oncelog.spark.tables.FieldIdParquet"
"""The format; its files are Spark's own but for the ids."""

OPTION: Final = "oncelog.nested.field.ids"
"""Its option: the ids, separated by commas, in the order of `FieldIds.nested`."""


@contextmanager
def loaded(spark: SparkSession, ids: Sequence[int]) -> Iterator[None]:
    """Have Spark find the format on this thread, if there are such ids.

    Spark looks for a format with the class loader of the thread. That of a jar that was added later is not the one that
    threads begin with, so it is the thread's own until the files are written.

    Raises:
        UsageError: the jar is not built, or is an old one.
    """
    jvm: Any = spark._jvm
    thread = jvm.java.lang.Thread.currentThread()
    own = thread.getContextClassLoader()
    if not ids or _has(jvm, own):
        yield
        return
    state = spark._jsparkSession
    try:
        later = state.sharedState().jarClassLoader()
        if not _has(jvm, later):
            state.sessionState().resourceLoader().addJar(packaging.jars())
            if not _has(jvm, later):
                raise UsageError(
                    "oncelog's jar is older than this package; reinstall the package, or in a source tree run: make "
                    "shims",
                    jar=packaging.jars(),
                )
        thread.setContextClassLoader(later)
        yield
    finally:
        thread.setContextClassLoader(own)


def _has(jvm: Any, loader: Any) -> bool:
    try:
        jvm.java.lang.Class.forName(FORMAT, False, loader)
    except Py4JJavaError:
        return False
    return True
