"""The versions and kinds of Spark that oncelog runs on."""

from __future__ import annotations

from oncelog.extras import extras

with extras("spark", part="oncelog.spark"):
    import pyspark

from oncelog.errors import UsageError

SUPPORTED = "4.0 to 4.3"
"""What the tests run on. Later ones of Spark 4 are let in: where an internal of theirs is another, an error says so."""


def check_version(found: str | None = None) -> None:
    """Refuse a Spark that oncelog cannot run on.

    Args:
        found: of PySpark; by default of the one that is installed.

    Raises:
        UsageError: it is none of Spark 4.
    """
    version = found or pyspark.__version__
    if not version.startswith("4."):
        raise UsageError(f"oncelog runs on Spark {SUPPORTED}, and this is {version}; install another PySpark")


def refuse_connect(format_name: str | None, *, is_connect: bool) -> None:
    """Refuse a sink of foreachBatch under Spark Connect, which shows such a function no query.

    Args:
        format_name: by which the same rows are written without a function, if there is one.
        is_connect: whether this is Spark Connect.

    Raises:
        UsageError: it is.
    """
    if is_connect:
        by_name = (
            f'; write by name, writeStream.format("{format_name}"), with the same options: paths and `znodes` are then '
            "those of the server"
        )
        raise UsageError("Spark Connect hides the query from a sink of foreachBatch" + (by_name if format_name else ""))
