"""oncelog's jar, which lets Spark read the log in the JVM, and how it reaches Spark.

Streams on Spark 4.0 and 4.1 need the jar. Else it is a switch: with it ``format("oncelog")`` reads local logs in the
processes of Spark, at least twice as fast; without it, and always for logs in an object store, tasks read in Python.
Offsets, plans and rows are the same, so a query may change from one to the other at any restart.
``spark.oncelog.jvmReader=false`` turns the jar's reads off.

Spark takes jars when it starts, so all of this comes before `getOrCreate()`. A program that `spark-submit` starts finds
Spark running: there the jar is named by ``--jars "$(oncelog jars)"``, and `configure` only sees that it was.
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
"""A variable that is there where spark-submit started Spark, and then this program."""
_INTERPRETERS = {"PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"}
"""Variables that name the interpreter of Spark's workers."""


@checked
def jars() -> str:
    """What ``spark.jars`` needs: the path of oncelog's jar, for the driver and, by Spark's transfer, executors.

    Raises:
        UsageError: the jar is not there: this is a source tree, or a wheel, for which it was not built.
    """
    return built(JAR, _NAME)


@checked
def configure(builder: Builder) -> SparkSession.Builder:
    """Add oncelog's jar to those of the session that `builder` makes; jars named before are kept.

    Spark's workers run ``PYSPARK_PYTHON``, or else the first ``python3`` of the PATH, which has no oncelog where a
    program or a notebook is started by the path of its environment. So where neither that variable nor
    ``PYSPARK_DRIVER_PYTHON`` is set, and `builder` names no master beyond this machine, the variable is set to this
    interpreter.

    Args:
        builder: ``SparkSession.builder``, before its ``getOrCreate()``.

    Raises:
        UsageError: the jar is not built, or comes too late: Spark has started already without it (in this process, or
            by spark-submit), and neither ``ADD JAR`` nor ``stop()`` and another ``getOrCreate()`` bring a data source
            into its JVM; or it has the jar of another oncelog; or the session is one of Spark Connect, whose server
            has the jars.

    Example:
        spark = oncelog.spark.configure(SparkSession.builder.appName("copy")).getOrCreate()
    """
    return with_jar(builder, Jar(JAR, _NAME, "io.oncelog.spark.OncelogProvider"))


# For connectors too ---------------------------------------------------------------------------------------------------


def built(jar: Path, name: str) -> str:
    """The path of a jar that `make shims` builds.

    Raises:
        UsageError: it is not there.
    """
    if not jar.is_file():
        raise UsageError(f"{name} is not built; in a source tree run: make shims", expected=str(jar))
    return str(jar)


@dataclass(frozen=True)
class Jar:
    """A jar that a package brings to Spark.

    Attributes:
        path: where the package has it.
        name: as messages call it.
        entry: the class by which Spark finds its data source.
    """

    path: Path
    name: str
    entry: str


@checked
def with_jar(builder: Builder, jar: Jar) -> SparkSession.Builder:
    """Add a jar to those of the session that `builder` makes.

    Raises:
        UsageError: the jar is not there, or comes too late; see `configure`.
    """
    options: dict[str, str] = builder._options  # the builder has no public way to read what was set
    if is_remote() or "spark.remote" in options or "SPARK_REMOTE" in os.environ:
        raise UsageError(
            f"a session of Spark Connect has its jars on the server: start that with {jar.name} (--jars), and leave "
            "`configure` out of this program",
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
    """Whether Spark's JVM runs, and so has its jars: started here, and maybe stopped again, or by spark-submit."""
    from pyspark import SparkContext  # not there under Spark Connect

    return SparkContext._gateway is not None or _SUBMITTED in os.environ


def _refuse_late(jar: Jar) -> None:
    """Refuse where Spark has started without the jar, or with another one: a setting would do nothing, silently."""
    found = _loaded(jar.entry)
    if found == __version__:
        return
    if found is not None:
        raise UsageError(
            f"Spark has started with {jar.name} of oncelog {found}, and this Python package is oncelog {__version__}; "
            "start it with the jar of the package",
            jar=str(jar.path),
        )
    if _SUBMITTED in os.environ:
        raise UsageError(
            f"spark-submit started Spark before this program, without {jar.name}, and takes none later; start it with: "
            'spark-submit --jars "$(oncelog jars)"',
            jar=str(jar.path),
        )
    raise UsageError(
        f"Spark has started in this process already, without {jar.name}, and takes none later (neither ADD JAR nor "
        "stop() helps); restart the program, or the notebook's kernel, and call configure() before its first session; "
        'of a shell: pyspark --jars "$(oncelog jars)"',
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
    """Have Spark's workers on this machine run this interpreter, unless the environment names one."""
    if options.get("spark.master", "local").startswith("local") and not os.environ.keys() & _INTERPRETERS:
        os.environ["PYSPARK_PYTHON"] = sys.executable
