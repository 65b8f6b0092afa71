"""A home of Spark from which Python's processes start in half the time.

PySpark's wheel has its sources twice: as an installed package, and in `python/lib/pyspark.zip`, which Spark puts first
into the path of each Python process it starts. What is imported from an archive is compiled anew by every process: half
a second of work, and a test starts a dozen. In a home without that folder they find the installed package.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

COPIES_OF_SOURCES = "python"


@cache
def lean_spark_home() -> str:
    """A folder of links to what PySpark's wheel has beside its sources. It is gone with this process."""
    import pyspark

    home = Path(tempfile.mkdtemp(prefix="oncelog-spark-home-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name != COPIES_OF_SOURCES:
            (home / part.name).symlink_to(part)
    return str(home)
