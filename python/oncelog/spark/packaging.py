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
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession, is_remote

from oncelog.errors import UsageError
from oncelog.signatures import checked

if TYPE_CHECKING:
    from pyspark import SparkConf

JAR = Path(__file__).parent / "jars" / "oncelog-spark.jar"

SPARK_JARS = "spark.jars"


def jars() -> str:
    """What ``spark.jars`` needs: the path of oncelog's jar, for the driver and, by Spark's transfer, executors.

    Raises:
        UsageError: the jar is not there: this is a source tree, or a wheel, for which it was not built.
    """
    return built(JAR, "oncelog's jar for Spark")


@checked
def configure(builder: SparkSession.Builder) -> SparkSession.Builder:
    """Add oncelog's jar to those of the session that `builder` makes; jars named before are kept.

    Args:
        builder: ``SparkSession.builder``, before its ``getOrCreate()``.

    Raises:
        UsageError: the jar is not built, or comes too late: Spark runs already without it (in this process, or as
            spark-submit started it), and neither ``ADD JAR`` nor another ``getOrCreate()`` brings a data source into a
            running one; or the session is one of Spark Connect, whose server has the jars.

    Example:
        spark = oncelog.spark.configure(SparkSession.builder.appName("copy")).getOrCreate()
    """
    return with_jar(builder, JAR, "oncelog's jar for Spark")


# For connectors too ---------------------------------------------------------------------------------------------------


def built(jar: Path, name: str) -> str:
    """The path of a jar that `make shims` builds.

    Raises:
        UsageError: it is not there.
    """
    if not jar.is_file():
        raise UsageError(f"{name} is not built; in a source tree run: make shims", expected=str(jar))
    return str(jar)


@checked
def with_jar(builder: SparkSession.Builder, jar: Path, name: str) -> SparkSession.Builder:
    """Add a jar to those of the session that `builder` makes.

    Raises:
        UsageError: the jar is not there, or comes too late; see `configure`.
    """
    path = built(jar, name)
    options: dict[str, str] = builder._options  # the builder has no public way to read what was set
    _refuse_late(path, name, options)
    named = [jar for jar in options.get(SPARK_JARS, "").split(",") if jar]
    return builder.config(SPARK_JARS, ",".join([*named, path] if path not in named else named))


def _refuse_late(path: str, name: str, options: Mapping[str, str]) -> None:
    """Refuse where Spark runs already without the jar, or elsewhere: a setting would then do nothing, silently."""
    if is_remote() or "spark.remote" in options or "SPARK_REMOTE" in os.environ:
        raise UsageError(
            f"a session of Spark Connect has its jars on the server: start that with {name} (--jars), and leave "
            "`configure` out of this program",
            jar=path,
        )
    running = SparkSession.getActiveSession()
    submitted = running is None and "PYSPARK_GATEWAY_PORT" in os.environ
    if running is None and not submitted:
        return
    # What the context was started with: the session's own setting is that of whoever called getOrCreate() last.
    started_with = running.sparkContext.getConf() if running is not None else _submitted_with()
    loaded = started_with.get(SPARK_JARS) or ""
    if any(Path(jar).name == Path(path).name for jar in loaded.split(",")):
        return
    if submitted:
        raise UsageError(
            f"spark-submit started Spark before this program, without {name}, and takes none later; start it with: "
            'spark-submit --jars "$(oncelog jars)"',
            jar=path,
        )
    raise UsageError(
        f"Spark runs in this process already, without {name}, and takes none later (ADD JAR does not help); call "
        "stop() on the running session first, or start the program with spark.jars set to the jar",
        jar=path,
    )


def _submitted_with() -> SparkConf:
    """What spark-submit was given, before this program makes a session."""
    from pyspark import SparkConf, SparkContext  # not there under Spark Connect

    SparkContext._ensure_initialized()
    return SparkConf()
