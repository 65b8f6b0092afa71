"""The versions of Spark that oncelog runs on."""

from __future__ import annotations

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
