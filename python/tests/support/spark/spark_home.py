"""A home of Spark from which programs that live for seconds start in half the time.

It is made once, in the folder `build` of the repository. It has links to what PySpark's wheel has, but for one folder,
and one file of its own:

- PySpark's sources come twice: as an installed package, and in ``python/lib/pyspark.zip``, which Spark puts first into
  the path of each Python process it starts. What is imported from a zip is compiled anew by every process: half a
  second of work, and a test starts a dozen. Without that folder they find the installed package.
- A JVM loads and checks more than ten thousand classes before Spark runs: seconds of work, and a test kills a JVM at
  every crash point. Out of an archive of classes (JEP 350) they come as they lay in memory. The archive fits one JVM
  and one list of jars; where it does not fit, a JVM goes on without it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from tests.support.harness.java import java
from tests.support.harness.locks import locked

PYTHON_SOURCES = Path(__file__).parents[3]
BUILD = PYTHON_SOURCES.parent / "build"
COPIES_OF_SOURCES = "python"

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Without the optimising compiler and a parallel collector, such a JVM starts in half the time."""


def jvm_options() -> str:
    """For every JVM of Spark in tests: drivers, executors, and the daemons of clusters."""
    return f'{QUICK} "-XX:SharedArchiveFile={_archive(lean_spark_home())}"'


def environment() -> dict[str, str]:
    """Variables with which a program finds this home, these sources, and this interpreter for its workers."""
    return {**_variables(lean_spark_home()), "SPARK_DAEMON_JAVA_OPTS": jvm_options()}


def elsewhere(python: Path | str) -> dict[str, str]:
    """Variables with which a program finds PySpark's own home, and another interpreter for its workers."""
    return {"PYSPARK_PYTHON": str(python), "SPARK_HOME": str(pyspark_home()), "SPARK_LOCAL_IP": "127.0.0.1"}


@cache
def lean_spark_home() -> Path:
    """The folder. The first caller builds it in half a minute; others wait. `make test` calls this first."""
    home = BUILD / f"spark-home-{version('pyspark')}-{_marks_of_origin()}"
    if not _archive(home).exists():
        home.mkdir(parents=True, exist_ok=True)
        with locked(home / "lock"):
            if not _archive(home).exists():
                _link_parts(home)
                _make_archive(home)
    return home


def _archive(home: Path) -> Path:
    return home / "classes.jsa"


def _variables(home: Path) -> dict[str, str]:
    path = os.pathsep.join([str(PYTHON_SOURCES), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {
        "PYTHONPATH": path,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def _marks_of_origin() -> str:
    """Tell this PySpark and this Java from others of the same version."""
    origin = f"{pyspark_home()} {Path(java() or '').resolve()}"
    return hashlib.sha256(origin.encode()).hexdigest()[:8]


def pyspark_home() -> Path:
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def _link_parts(home: Path) -> None:
    for part in pyspark_home().iterdir():
        link = home / part.name
        if part.name != COPIES_OF_SOURCES and not link.is_symlink():
            link.symlink_to(part)


def _make_archive(home: Path) -> None:
    """Have a program use Spark as tests do; its JVM leaves the classes behind."""
    with tempfile.TemporaryDirectory(dir=home) as folder:
        new = Path(folder, "new.jsa")
        options = f'{QUICK} -Xlog:cds*=error "-XX:ArchiveClassesAtExit={new}"'
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.spark.jobs.class_archive", options],
            cwd=folder,
            env={**os.environ, **_variables(home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode or not new.exists():
            raise RuntimeError(f"no archive of classes was made:\n{done.stdout[-4000:]}")
        new.rename(_archive(home))


if __name__ == "__main__":
    lean_spark_home()
