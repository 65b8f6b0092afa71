"""Gives Spark oncelog's jar, which reads and writes the log in the JVM.

Streams on Spark 4.0 and 4.1 need the jar. Otherwise it is optional: with it, ``format("oncelog")`` reads local logs in
Spark's own processes, at least twice as fast, and the sinks write them there, which takes a fraction of the time where
batches are small. Without it, and always for logs in an object store, tasks run in Python. Offsets, plans, rows and
files are the same, so a query may change from one to the other at any restart. ``spark.oncelog.jvmReader=false`` turns
the jar's reads off, and ``spark.oncelog.jvmWriter=false`` its writes.

Spark loads jars only when it starts, so all of this comes before `getOrCreate()`. `spark-submit` starts Spark before
the program: there the user names the jar by ``--jars "$(oncelog jars)"``, and `configure` only checks that it is there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from oncelog.extras import extras

with extras("spark", part="oncelog.spark"):
    from pyspark.sql import SparkSession, is_remote

from oncelog.errors import UsageError
from oncelog.signatures import checked
from oncelog.version import __version__

Builder = Annotated[SparkSession.Builder, "pass SparkSession.builder, before getOrCreate()"]

JAR = Path(__file__).parent / "jars" / "oncelog-spark.jar"
_NAME = "oncelog's jar for Spark"

SPARK_JARS = "spark.jars"
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""An environment variable that spark-submit sets for the program that it starts."""
_INTERPRETERS = {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"}
"""Environment variables that name the Python interpreter of Spark's workers."""


@checked
def jars() -> str:
    """The path of oncelog's jar, for ``spark.jars``; Spark sends it to the executors.

    Raises:
        UsageError: the jar was not built for this source tree or wheel.
    """
    return built(JAR, _NAME)


@checked
def configure(builder: Builder) -> SparkSession.Builder:
    """Add oncelog's jar to ``spark.jars`` of the session that `builder` creates; other jars stay.

    Set ``spark.jars`` of your own before, since a later ``.config("spark.jars", ...)`` replaces what is there.

    Spark's workers run ``PYSPARK_PYTHON``, or else the first ``python3`` on the PATH. If a program or notebook was
    started without activating its environment, that ``python3`` has no oncelog. So if neither ``PYSPARK_PYTHON`` nor
    ``PYSPARK_DRIVER_PYTHON`` is set, and the master is on this machine, this sets ``PYSPARK_PYTHON`` to the current
    interpreter.

    Args:
        builder: ``SparkSession.builder``, before its ``getOrCreate()``.

    Raises:
        UsageError: the jar is not built; or Spark has already started without it or with another version's jar (neither
            ``ADD JAR`` nor ``stop()`` and another ``getOrCreate()`` can change that); or this is a Spark Connect
            session, which uses the jars of its server.

    Example:
        spark = oncelog.spark.configure(SparkSession.builder.appName("copy")).getOrCreate()
    """
    return with_jar(builder, Jar(JAR, _NAME, "io.oncelog.spark.OncelogProvider"))


# For connectors too ---------------------------------------------------------------------------------------------------


def built(jar: Path, name: str) -> str:
    """The path of a jar that `make shims` builds.

    Raises:
        UsageError: it is not built.
    """
    if not jar.is_file():
        raise UsageError(f"{name} is not built; in a source tree run: make shims", expected=str(jar))
    return str(jar)


@dataclass(frozen=True)
class Jar:
    """A jar that a Python package contains.

    Attributes:
        path: its place in the package.
        name: what messages call it.
        entry: the class through which Spark finds the data source.
    """

    path: Path
    name: str
    entry: str


@checked
def with_jar(builder: Builder, jar: Jar) -> SparkSession.Builder:
    """Add a jar to the session that `builder` creates; see `configure`."""
    options: dict[str, str] = builder._options  # the builder has no public way to read what was set
    if is_remote() or "spark.remote" in options or "SPARK_REMOTE" in os.environ:
        raise UsageError(
            f"a Spark Connect session uses the jars of its server: start the server with {jar.name} (--jars), and do "
            "not call `configure` in this program",
            jar=str(jar.path),
        )
    if _is_started():
        _refuse_late(jar)
        return builder
    path = built(jar.path, jar.name)
    _name_interpreter(options)
    named = [other for other in options.get(SPARK_JARS, "").split(",") if other]
    return builder.config(SPARK_JARS, ",".join([*named, path] if path not in named else named))


def _is_started() -> bool:
    """Whether Spark's JVM has started, here or by spark-submit, and loaded its jars; `stop()` does not end it."""
    from pyspark import SparkContext  # not there under Spark Connect

    return SparkContext._gateway is not None or _SUBMITTED in os.environ


def _refuse_late(jar: Jar) -> None:
    """Refuse a Spark that started without the jar or with another version's: the setting would silently do nothing."""
    found = _loaded(jar.entry)
    if found == __version__:
        return
    if found is not None:
        raise UsageError(
            f"Spark has started with {jar.name} of oncelog {found}, but this Python package is oncelog {__version__}; "
            "start Spark with the package's own jar",
            jar=str(jar.path),
        )
    if _SUBMITTED in os.environ:
        raise UsageError(
            f"spark-submit started Spark without {jar.name}, which cannot be added later; start it with: "
            'spark-submit --jars "$(oncelog jars)"',
            jar=str(jar.path),
        )
    raise UsageError(
        f"Spark has already started in this process without {jar.name}, which cannot be added later (neither ADD JAR "
        "nor stop() helps); restart the program or notebook kernel, and call configure() before its first session; "
        'in a shell, start: pyspark --jars "$(oncelog jars)"',
        jar=str(jar.path),
    )


def _loaded(entry: str) -> str | None:
    """The version of the jar that Spark has loaded; None if there is none."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark import SparkContext

    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        version: str | None = jvm.java.lang.Class.forName(entry, False, loader).getPackage().getImplementationVersion()
    except Py4JJavaError:
        return None
    return version or "unknown"


def _name_interpreter(options: Mapping[str, str]) -> None:
    """Let Spark's workers on this machine run this interpreter, unless the environment names another one."""
    if options.get("spark.master", "local").startswith("local") and not os.environ.keys() & _INTERPRETERS:
        os.environ["PYSPARK_PYTHON"] = sys.executable
