"""The versions and kinds of Spark that oncelog runs on."""

from __future__ import annotations

from oncelog.extras import extras

with extras("spark", part="oncelog.spark"):
    import pyspark

from oncelog.errors import UsageError

SUPPORTED = "4.0 to 4.3"
"""What the tests run on. Later versions of Spark 4 are allowed; an error says so if their internals differ."""


def check_version(found: str | None = None) -> None:
    """Refuse a Spark that oncelog cannot run on.

    Args:
        found: a version of PySpark; the installed one by default.

    Raises:
        UsageError: it is not Spark 4.
    """
    version = found or pyspark.__version__
    if not version.startswith("4."):
        age = "too old" if int(version.partition(".")[0]) < 4 else "too new"
        raise UsageError(f"PySpark {version} is {age}: oncelog runs on Spark {SUPPORTED}; install a supported PySpark")


def require_classic(format_name: str | None = None) -> None:
    """Refuse a Spark, or a session, in which no sink of foreachBatch works.

    Args:
        format_name: the ``writeStream.format`` that writes the same rows, if there is one.

    Raises:
        UsageError: it is not Spark 4, or this is a Spark Connect session.
    """
    check_version()
    from pyspark.sql import is_remote  # here, because the look-up of data sources needs none of it

    refuse_connect(format_name, is_connect=is_remote())


def refuse_connect(format_name: str | None, *, is_connect: bool) -> None:
    """Refuse a foreachBatch sink under Spark Connect, which does not let such a function see its query.

    Args:
        format_name: the ``writeStream.format`` that writes the same rows, if there is one.
        is_connect: whether this is Spark Connect; if so, UsageError is raised.
    """
    if is_connect:
        by_name = (
            f'; use writeStream.format("{format_name}") with the same options: paths and `znodes` then refer to the '
            "server"
        )
        raise UsageError("Spark Connect hides the query from a sink of foreachBatch" + (by_name if format_name else ""))
