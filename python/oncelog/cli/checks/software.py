"""Checks the installation: oncelog, Python and extras; with PySpark also Java, Spark, the jars and the workers' Python.

Spark is not started. Only the code that finds the jars imports PySpark.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import oncelog
from oncelog.cli.checks.findings import Finding, broken, note, ok
from oncelog.cli.jars import BRINGS_JARS
from oncelog.errors import OncelogError
from oncelog.extras import install
from oncelog.version import __version__

LEAST_JAVA = 17
"""The oldest version that Spark 4 runs on."""

WORKERS_PYTHON = "PYSPARK_PYTHON"

_ANSWER_S = 30
"""How long a program may take to print its version."""

_EXTRA = re.compile(r"""([A-Za-z0-9._-]+)[^;]*;.*\bextra == ['"]([a-z]+)['"]""")
_JAVA = re.compile(r'version "(([0-9]+)[^"]*)"')

_TELL = """
import sys
print("%d.%d" % sys.version_info[:2])
try:
    from oncelog.version import __version__
    print(__version__)
except ImportError:
    pass
"""


def check() -> Iterator[Finding]:
    """All checks of the installation."""
    yield ok("oncelog", f"{__version__} in {Path(oncelog.__file__).parent}")
    yield ok("Python", f"{platform.python_version()} at {sys.executable}")
    yield from _extras()
    spark = _version("pyspark")
    if spark is None:
        yield note("Spark", "PySpark is not installed; Java and jars are not needed", install("spark"))
        return
    try:
        from oncelog.spark.versions import check_version
    except ImportError as error:
        yield broken("Spark", f"PySpark {spark} cannot be imported: {error}", "pip install --force-reinstall pyspark")
        return
    yield from _spark(spark, check_version)
    yield _java()
    yield from _jars()
    yield _workers_python()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


# Extras ---------------------------------------------------------------------------------------------------------------


def _extras() -> Iterator[Finding]:
    packages: dict[str, list[str]] = {}
    for requirement in metadata.requires("oncelog") or ():
        if found := _EXTRA.match(requirement):
            packages.setdefault(found[2], []).append(found[1])
    for extra, names in sorted(packages.items()):
        yield _extra(extra, {name: _version(name) for name in names})


def _extra(extra: str, versions: dict[str, str | None]) -> Finding:
    there = ", ".join(f"{name} {version}" for name, version in versions.items() if version is not None)
    missing = ", ".join(name for name, version in versions.items() if version is None)
    if not missing:
        return ok(f"extra {extra}", there)
    return note(
        f"extra {extra}",
        f"{there}; without {missing}" if there else f"not installed ({missing})",
        f"{install(extra)}, if you need it",
    )


# Spark ----------------------------------------------------------------------------------------------------------------


def _spark(version: str, check_version: Callable[[str], None]) -> Iterator[Finding]:
    try:
        check_version(version)
        yield ok("Spark", f"PySpark {version}")
    except OncelogError as error:
        yield broken("Spark", f"PySpark {version}", str(error))
    home = os.environ.get("SPARK_HOME")
    if home is not None:
        yield _spark_home(Path(home), version)


def _spark_home(home: Path, version: str) -> Finding:
    """The Spark in SPARK_HOME, which runs instead of PySpark's own."""
    releases = {jar.stem.rpartition("-")[2] for jar in home.glob("jars/spark-core_*.jar")}
    if releases == {version}:
        return ok("SPARK_HOME", f"{home}: Spark {version}")
    there = f"Spark {', '.join(sorted(releases))}" if releases else "no Spark"
    return broken("SPARK_HOME", f"{home}: {there}", f"unset it, or set it to a Spark {version}, like PySpark")


def _java() -> Finding:
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home, "bin", "java")) if home else "java"
    remedy = f"install Java {LEAST_JAVA} or newer, or set JAVA_HOME to it"
    path = shutil.which(command)
    if path is None:
        return broken("Java", f"there is no {command}" + (", as JAVA_HOME says" if home else " on the PATH"), remedy)
    done = _run(path, "-version")
    found = _JAVA.search(done.stderr) if done else None
    if found is None:
        return broken("Java", f"{path} does not print its version", remedy)
    if int(found[2]) < LEAST_JAVA:
        return broken("Java", f"{found[1]} at {path}: too old for Spark", remedy)
    return ok("Java", f"{found[1]} at {path}")


def _run(*command: str) -> subprocess.CompletedProcess[str] | None:
    """Run a program; None if it fails."""
    try:
        return subprocess.run(command, cwd="/", capture_output=True, text=True, timeout=_ANSWER_S, check=True)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


# Jars -----------------------------------------------------------------------------------------------------------------


def _jars() -> Iterator[Finding]:
    for entry in metadata.entry_points(group=BRINGS_JARS):
        name = f"jar {entry.name}"
        try:
            yield _jar(name, Path(entry.load()()))
        except ImportError as error:
            yield broken(name, "PySpark cannot be used", str(error))
        except OncelogError as error:
            yield note(name, "missing: Spark reads with Python, and the Kafka connector cannot be used", str(error))


def _jar(name: str, path: Path) -> Finding:
    remedy = "reinstall oncelog; in a source tree run: make shims"
    try:
        with zipfile.ZipFile(path) as jar:
            manifest = jar.read("META-INF/MANIFEST.MF").decode()
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        return broken(name, f"{path} cannot be read: {error}", remedy)
    found = re.search(r"^Implementation-Version: *(\S+)", manifest, re.MULTILINE)
    version = found[1] if found else "unknown"
    if version != __version__:
        return broken(name, f"it is of oncelog {version}, but the package is {__version__}: {path}", remedy)
    return ok(name, f"{version} at {path}")


# Workers --------------------------------------------------------------------------------------------------------------


def _workers_python() -> Finding:
    """The interpreter of Spark's workers: PYSPARK_PYTHON, or else the first python3 on the PATH."""
    named = os.environ.get(WORKERS_PYTHON)
    command = named or "python3"
    fault = _fault_of(command)
    if fault is None:
        return ok(WORKERS_PYTHON, command if named else "not set; the first python3 on the PATH can be used")
    remedy = f"export {WORKERS_PYTHON}={sys.executable}"
    if named:
        return broken(WORKERS_PYTHON, f"{command} {fault}", remedy)
    return note(
        WORKERS_PYTHON, f"not set, and {command} {fault}; oncelog.spark.configure sets it in local mode", remedy
    )


def _fault_of(command: str) -> str | None:
    """Why Spark's workers cannot use this interpreter; None if they can."""
    if shutil.which(command) is None:
        return "is not a program"
    done = _run(command, "-c", _TELL)
    if done is None:
        return "fails"
    python, package = [*done.stdout.split(), ""][:2]
    here = ".".join(platform.python_version_tuple()[:2])
    if python != here:
        return f"is Python {python}, but this is Python {here}, and Spark needs the same"
    if not package:
        return "has no oncelog"
    return None if package == __version__ else f"has oncelog {package}, but this is {__version__}"
