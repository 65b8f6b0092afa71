"""Further jars that tests and benchmarks need; Maven downloads them once, and they are kept."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from xml.sax.saxutils import escape

from oncelog.errors import UsageError
from oncelog.testing.server_process import ServerFailedError

Artifact = tuple[str, str, str]
"""Group, name and version."""

_LAST_CHARACTERS = 3000


def kept_jars(name: str, version: str) -> Path:
    """The folder of the jars, even if they are missing."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache, "oncelog", name, version)


def jars(name: str, version: str, artifacts: Iterable[Artifact], *, with_dependencies: bool = True) -> Path:
    """The folder with the jars; Maven downloads them on the first call.

    Args:
        name, version: of the folder.
        artifacts: the jars.
        with_dependencies: whether to include their dependencies.

    Raises:
        UsageError: the jars are missing and there is no Maven.
        ServerFailedError: Maven could not download them.
    """
    kept = kept_jars(name, version)
    if kept.is_dir():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    with (kept.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test workers that start together download them once
        if not kept.is_dir():
            coming = kept.with_name(f"{version}.coming")
            _bring(coming, f"{name} {version}", artifacts, with_dependencies=with_dependencies)
            coming.rename(kept)  # all of them or none
    return kept


def _bring(folder: Path, what: str, artifacts: Iterable[Artifact], *, with_dependencies: bool) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise UsageError("these jars come from Maven: install it (Debian: apt-get install maven)", jars=what)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / "pom.xml").write_text(_project(artifacts))
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
    goal += [] if with_dependencies else ["-DexcludeTransitive=true"]
    done = subprocess.run(
        [maven, "-B", "-ntp", "-q", "-f", str(folder / "pom.xml"), *goal],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise ServerFailedError(f"Maven cannot download {what}:\n{done.stdout[-_LAST_CHARACTERS:]}{done.stderr}")


def _project(artifacts: Iterable[Artifact]) -> str:
    """A Maven project that only has dependencies."""
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
        f"<version>{escape(number)}</version></dependency>"
        for group, name, number in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>io.oncelog</groupId><artifactId>server</artifactId><version>0</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
