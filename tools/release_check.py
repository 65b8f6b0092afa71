"""Checks that the files in dist/ are ready for a release. Usage: tools/release_check.py [PYTHON ...].

`make wheel` has put a wheel and an sdist there. This checks their contents and metadata, builds both again, and
compares the bytes. For each supported Python on this machine it installs the wheel, with its required dependencies
only, into an empty environment outside the checkout. There the wheel must name the missing extra of each part, and read
back a transaction. Then it installs the extras: every module must load, and the quick start must run on Spark.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from datetime import date
from email import message_from_bytes
from email.message import Message
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOOLS, DIST = ROOT / "tools", ROOT / "dist"
MINORS = range(11, 15)
"""The supported minor versions of Python 3."""

EXTRAS = "spark,zookeeper,s3,postgres,delta,iceberg,search,kafka,metrics,ui,testing"
JARS = ("oncelog/spark/jars/oncelog-spark.jar", "oncelog_kafka/jars/oncelog-kafka.jar")
NEEDED = ("Summary", "Keywords", "License-Expression", "License-File", "Requires-Python", "Classifier")
MOVED = {"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "SPARK_HOME", "PYSPARK_PYTHON"}
"""Environment variables that may lead an interpreter to the checkout."""


class FaultError(Exception):
    """Something that must not be released."""


def main(pythons: Sequence[str]) -> int:
    try:
        wheel, sdist = _built("*.whl"), _built("*.tar.gz")
        check_contents(wheel)
        metadata = metadata_of(wheel)
        check_metadata(metadata)
        _run(sys.executable, "-m", "twine", "check", "--strict", wheel, sdist)
        _say("ok", "contents, metadata, and the README as an index shows it")
        check_same_bytes(wheel, sdist)
        _say("ok", "built again, and the wheel out of the sdist: the same bytes")
        check_pythons(wheel, sdist, pythons, metadata)
        _say("date", _dated(str(metadata["Version"]), (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")))
    except FaultError as fault:
        _say("fault", str(fault))
        return 1
    return 0


def _say(what: str, text: str) -> None:
    sys.stdout.write(f"{what:12} {text}\n")
    sys.stdout.flush()


def _built(pattern: str) -> Path:
    found = list(DIST.glob(pattern))
    if len(found) != 1:
        raise FaultError(f"dist/ has {len(found)} files {pattern}, and one is needed: make wheel")
    return found[0]


def _run(*command: str | Path, cwd: Path | None = None) -> str:
    variables = {name: value for name, value in os.environ.items() if name not in MOVED}
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise FaultError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


# What is in them ------------------------------------------------------------------------------------------------------


def metadata_of(wheel: Path) -> Message:
    """The wheel's metadata, as a package index reads it."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


def check_contents(wheel: Path) -> None:
    """Refuse a wheel without a jar, or with a jar of another version."""
    version = metadata_of(wheel)["Version"]
    with zipfile.ZipFile(wheel) as archive:
        for jar in JARS:
            if jar not in archive.namelist():
                raise FaultError(f"the wheel has no {jar}; run: make shims")
            with archive.open(jar) as packed, zipfile.ZipFile(packed) as classes:
                manifest = classes.read("META-INF/MANIFEST.MF").decode()
            if f"Implementation-Version: {version}\r\n" not in manifest:
                raise FaultError(f"{jar} is not of version {version}; run: make shims")


def check_metadata(metadata: Message) -> None:
    """Refuse a wheel whose metadata lacks a field that a package index shows."""
    if not metadata.get("Project-URL"):
        raise FaultError("the repository has no address: write it into python/oncelog/version.py")
    missing = [name for name in NEEDED if not metadata.get(name)]
    if missing:
        raise FaultError(f"the metadata has no {', '.join(missing)}; add it to [project] in pyproject.toml")


def check_same_bytes(wheel: Path, sdist: Path) -> None:
    """Build both again from the tree, and the wheel from the sdist too, and refuse any difference."""
    with tempfile.TemporaryDirectory() as folder:
        _run(sys.executable, "-m", "build", "--outdir", folder, ROOT)  # builds the wheel from the sdist
        _run(sys.executable, "-m", "build", "--wheel", "--outdir", Path(folder, "tree"), ROOT)
        for first, again in (
            (sdist, Path(folder, sdist.name)),
            (wheel, Path(folder, wheel.name)),
            (wheel, Path(folder, "tree", wheel.name)),
        ):
            if first.read_bytes() != again.read_bytes():
                raise FaultError(f"{first.name} has other bytes when it is built again")


def _dated(version: str, changelog: str) -> str:
    """What is left to do in the changelog before the tag.

    Raises:
        FaultError: its top section is not for this version, or has no valid date.
    """
    top = re.search(r"^## \[([^]]+)\] - (.+)$", changelog, re.MULTILINE)
    if top is None or top[1] != version:
        raise FaultError(f"the top section of CHANGELOG.md must be: ## [{version}] - unreleased, or the day of release")
    if top[2] == "unreleased":
        return f'{version} is "unreleased" in CHANGELOG.md: on its day write the date there, commit, and tag v{version}'
    try:
        return f"{version} is released on {date.fromisoformat(top[2])}"
    except ValueError:
        raise FaultError(f"{top[2]!r} in CHANGELOG.md is not a date: write it as 2026-12-31") from None


# On each Python -------------------------------------------------------------------------------------------------------


def check_pythons(wheel: Path, sdist: Path, named: Sequence[str], metadata: Message) -> None:
    """Install and try it on each supported Python, and print which of them this machine lacks.

    Raises:
        FaultError: it fails on one of them, or there is none.
    """
    checked = 0
    for minor in MINORS:
        python = next(_interpreters(minor, named), None)
        if python is None:
            claimed = f"Programming Language :: Python :: 3.{minor}" in metadata.get_all("Classifier", [])
            _say(
                "not checked",
                f"Python 3.{minor}: not on this machine{', and the metadata names it' if claimed else ''}",
            )
            continue
        with tempfile.TemporaryDirectory() as folder:
            seconds = try_on(python, wheel, sdist, Path(folder))
        checked += 1
        _say(
            "ok",
            f"Python 3.{minor}: the first transaction read back {seconds:.1f} s after `pip install` began, downloads "
            "apart; with the extras every module loads, and the quick start runs on Spark",
        )
    if not checked:
        raise FaultError("none of the supported Pythons is on this machine; name one: make wheel CHECK=1 PYTHONS=...")


def _interpreters(minor: int, named: Sequence[str]) -> Iterator[str]:
    """The working interpreters of this version that can create environments: named ones, or from the PATH and pyenv."""
    kept = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions").glob(f"3.{minor}.*/bin/python")
    on_path = (str(Path(folder, f"python3.{minor}")) for folder in os.environ.get("PATH", "").split(os.pathsep))
    for python in named or (*map(str, kept), *on_path):
        asked = "import sys, ensurepip, venv; print(sys.version_info.minor)"
        if shutil.which(python) is None:
            continue
        answer = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=False)
        if answer.stdout.strip() == str(minor):
            yield python


def try_on(python: str, wheel: Path, sdist: Path, folder: Path) -> float:
    """Install and try both in an environment in `folder`.

    Returns:
        Seconds from an empty environment, with all packages downloaded, to the first transaction read back.
    """
    house, home = folder / "packages", folder / "environment" / "bin" / "python"
    _run(python, "-m", "pip", "wheel", "--quiet", "--wheel-dir", house, wheel, cwd=folder)
    _run(python, "-m", "venv", folder / "environment")
    began = time.monotonic()
    _run(home, "-m", "pip", "install", "--quiet", "--no-deps", *house.glob("*.whl"), cwd=folder)
    output = _run(home, TOOLS / "first_transaction.py", folder / "log", cwd=folder)
    seconds = time.monotonic() - began
    if output != "[b'hello']\n":
        raise FaultError(f"the first transaction read back {output!r}")
    _run(home, "-m", "pip", "check", cwd=folder)
    _run(home, TOOLS / "doors.py", cwd=folder)
    version = _run(home.with_name("oncelog"), "--version", cwd=folder)
    _run(home, "-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall", sdist, cwd=folder)
    if _run(home.with_name("oncelog"), "--version", cwd=folder) != version:
        raise FaultError(f"{sdist.name} installs another version than the wheel, which says {version}")
    try_extras(home, wheel, folder)
    return seconds


def try_extras(home: Path, wheel: Path, folder: Path) -> None:
    """Install the wheel with its extras beside an interpreter, load all of it, and copy a topic with Spark."""
    _run(home, "-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps", wheel, cwd=folder)
    _run(home, "-m", "pip", "install", "--quiet", f"{wheel}[{EXTRAS}]", cwd=folder)
    _run(home, TOOLS / "every_module.py", cwd=folder)
    program = shutil.copy(ROOT / "examples" / "quick_start.py", folder)
    output = _run(home, program, folder / "quick start", cwd=folder)
    if "UA was 42 minutes late" not in output:
        raise FaultError(f"the quick start read back {output!r}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
