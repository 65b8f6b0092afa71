"""`oncelog doctor`: what it finds where something is broken, and that it changes nothing."""

from __future__ import annotations

import sqlite3
import sys
import zipfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pyspark
import pytest

import oncelog
from oncelog.cli.checks import place
from oncelog.znodes import host
from oncelog.znodes.schemes import ZNODES_FILE
from tests.support.log.logs import TOPIC, started, write_committed
from tests.support.log.shell import Shell

pytestmark = pytest.mark.slow  # it starts Java and other Pythons

CLOSED_PORT = 1
"""On which no server of this machine listens."""


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's workers are to run this Python, and no other Spark or Java is named."""
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    for name in ("SPARK_HOME", "JAVA_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Where a test puts a program of its own."""
    path = tmp_path / "program"
    path.touch(mode=0o755)
    return path


def findings(shell: Shell, *arguments: str, exit_code: int = 0) -> dict[str, dict[str, Any]]:
    """What the doctor finds, by what it looked at."""
    report = shell.json("doctor", *arguments, exit_code=exit_code)
    assert report.keys() == {"is_sound", "findings"}
    assert report["is_sound"] is (exit_code == 0)
    return {one["check"]: one for one in report["findings"]}


def the_broken(shell: Shell, *arguments: str) -> dict[str, Any]:
    """The one finding of what is broken."""
    (one,) = [one for one in findings(shell, *arguments, exit_code=1).values() if one["verdict"] == "broken"]
    assert one.keys() == {"check", "verdict", "found", "remedy"}
    return one


def bytes_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# What is fine ---------------------------------------------------------------------------------------------------------


def test_a_sound_installation_and_log_are_found_so_and_nothing_is_changed(shell: Shell, tmp_path: Path) -> None:
    with oncelog.open(shell.folder) as log:
        log.create_topic(TOPIC)
        write_committed(started(log), b"a")
    before = bytes_below(tmp_path)

    found = findings(shell)

    assert bytes_below(tmp_path) == before
    assert {name for name, one in found.items() if one["verdict"] == "broken"} == set()
    assert found["oncelog"]["found"].startswith(oncelog.__version__)
    assert found["log"]["found"].startswith(f"{shell.folder}: 1 topic")
    fine = ("Python", "Java", "Spark", "PYSPARK_PYTHON", "SQLite", "file system", "free space", "locks", "log")
    assert {found[name]["verdict"] for name in fine} <= {"ok"}


def test_where_there_is_no_log_it_says_so_and_creates_none(shell: Shell) -> None:
    found = findings(shell)

    assert found["log"]["verdict"] == "note"
    assert "oncelog topic create" in found["log"]["remedy"]
    assert not shell.folder.exists()
    assert list(shell.folder.parent.iterdir()) == []


def test_people_get_a_table_and_below_it_what_to_do(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")

    lines = shell.lines("doctor", exit_code=1)

    assert lines[0].split() == ["check", "found"]
    assert any(line.split()[:2] == ["broken", "Java"] for line in lines)
    assert "Java: install Java 17 or newer, or set JAVA_HOME to it" in lines


# The installation -----------------------------------------------------------------------------------------------------


def test_a_java_home_without_java_is_broken(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")

    assert the_broken(shell)["found"] == "there is no /nowhere/bin/java, as JAVA_HOME says"


def test_a_java_that_is_too_old_for_spark_is_broken(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))

    assert the_broken(shell)["found"] == f"1.8.0_402 at {java}: too old for Spark"


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ("echo 2.7", "is Python 2.7, but this is "),
        (f"echo {sys.version_info.major}.{sys.version_info.minor}", "has no oncelog"),
        (f"echo {sys.version_info.major}.{sys.version_info.minor}; echo 0.0.9", "has oncelog 0.0.9, but this is "),
        ("exit 1", "fails"),
    ],
)
def test_a_python_of_workers_that_cannot_run_tasks_is_broken(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, program: Path, script: str, fault: str
) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n")
    monkeypatch.setenv("PYSPARK_PYTHON", str(program))

    found = the_broken(shell)

    assert found["found"].startswith(f"{program} {fault}")
    assert found["remedy"] == f"export PYSPARK_PYTHON={sys.executable}"


def test_a_python_of_workers_that_nobody_named_is_only_noted(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A session that `configure` makes on one machine names it itself."""
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho 2.7\n")
    other.chmod(0o755)
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setenv("PATH", f"{other.parent}:/usr/bin:/bin")

    found = findings(shell)["PYSPARK_PYTHON"]

    assert (found["verdict"], found["remedy"]) == ("note", f"export PYSPARK_PYTHON={sys.executable}")


def test_a_jar_of_another_release_is_broken(shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    jar = tmp_path / "oncelog-spark.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\nImplementation-Version: 0.0.9\n")
    monkeypatch.setattr("oncelog.spark.packaging.JAR", jar)

    assert the_broken(shell)["found"].startswith("it is of oncelog 0.0.9, but the package is ")

    jar.write_bytes(b"no archive")
    assert "cannot be read" in the_broken(shell)["found"]

    jar.unlink()
    assert "make shims" in findings(shell)["jar spark"]["remedy"]


def test_a_spark_home_of_another_release_is_broken(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert the_broken(shell)["found"] == f"{tmp_path}: no Spark"

    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-3.5.1.jar").touch()
    assert the_broken(shell)["found"] == f"{tmp_path}: Spark 3.5.1"

    home = Path(pyspark.__file__).parent
    monkeypatch.setenv("SPARK_HOME", str(home))
    assert findings(shell)["SPARK_HOME"]["found"] == f"{home}: Spark {pyspark.__version__}"


def test_a_pyspark_that_cannot_be_imported_is_broken(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "oncelog.spark.versions", None)

    assert "cannot be imported" in the_broken(shell)["found"]


# The log and its place ------------------------------------------------------------------------------------------------


def test_a_network_file_system_under_the_embedded_store_is_broken(
    shell: Shell, log: oncelog.Log, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 0 0:1 / / rw - ext4 /dev/sda rw\n2 1 0:2 / {tmp_path} rw - nfs4 server:/ rw\n")
    monkeypatch.setattr(host, "MOUNTS", mounts)

    found = findings(shell, exit_code=1)

    assert found["file system"]["found"] == f"{tmp_path} (nfs4), shared by hosts"
    assert "SQLite loses data on network file systems" in found["log"]["remedy"]


def test_a_store_of_another_host_is_broken_and_the_command_that_adopts_it_is_named(shell: Shell) -> None:
    shell("topic", "create", TOPIC)
    change(shell, "UPDATE meta SET host_id = 'elsewhere', boot_id = 'another'")

    assert "oncelog meta adopt-host" in the_broken(shell)["remedy"]


def test_a_log_that_was_written_ahead_of_the_clock_is_broken(shell: Shell) -> None:
    shell("topic", "create", TOPIC)
    change(shell, "UPDATE znodes SET mtime_ms = mtime_ms + 86400000 WHERE name = 'format'")

    found = the_broken(shell)

    assert (found["check"], "ahead of this host's clock" in found["found"]) == ("clock of the log", True)


def change(shell: Shell, statement: str) -> None:
    """Change the rows of a store that nobody has open."""
    with closing(sqlite3.connect(shell.folder / ZNODES_FILE)) as connection, connection:
        assert connection.execute(statement).rowcount == 1


def test_a_zookeeper_that_cannot_be_reached_is_broken_and_not_waited_for(shell: Shell) -> None:
    found = the_broken(shell, "--znodes", f"zk://127.0.0.1:{CLOSED_PORT}/oncelog")

    assert found["check"] == f"ZooKeeper 127.0.0.1:{CLOSED_PORT}"
    assert "Connection refused" in found["found"]


@pytest.mark.parametrize(("bound", "verdict", "code"), [("LITTLE_BYTES", "note", 0), ("NO_BYTES", "broken", 1)])
def test_little_free_space_is_noted_and_no_free_space_is_broken(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, bound: str, verdict: str, code: int
) -> None:
    monkeypatch.setattr(place, bound, 2**60)

    found = findings(shell, exit_code=code)["free space"]

    assert (found["verdict"], "make space on" in found["remedy"]) == (verdict, True)


def test_a_place_that_is_none_is_broken(shell: Shell) -> None:
    found = the_broken(shell, "--path", "ftp://host/log")

    assert (found["check"], "a local path" in found["remedy"]) == ("log", True)


def test_slow_syncs_are_noted(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "SLOW_SYNC_MS", -1)

    assert findings(shell)["fsync"]["verdict"] == "note"
