"""The wheel as a stranger meets it: built from the sources, installed into an empty environment, and used there."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from oncelog.version import __version__
from tests.parts import missing_part
from tests.style.tree import ROOT

pytestmark = pytest.mark.packaging

UNREACHABLE = ("Connection", "Temporary failure in name resolution", "No matching distribution found", "timed out")
"""What pip says where it reaches no package index. A dependency that does not exist looks the same, and fails in CI."""

ROUND_TRIP = """
import sys
import oncelog

log = oncelog.open(sys.argv[1])
log.create_topic("greetings", partitions=1)
with log.producer(transactional_id="greeter-0") as producer:
    producer.init_transactions()
    with producer.transaction():
        producer.send("greetings", key=b"en", value=b"hello")
with log.consumer(isolation_level="read_committed") as consumer:
    partition = oncelog.TopicPartition("greetings", 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    print([record.value for record in consumer.poll(max_records=10)])
log.close()
"""


def run(*command: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # it may lead to sources
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    output = done.stdout + done.stderr
    if done.returncode != 0 and "pip" in command and any(sign in output for sign in UNREACHABLE):
        missing_part("a package index", "connect to one, or configure pip to find one")
    assert done.returncode == 0, output
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``bin`` folder of an environment with the wheel and what it depends on, and nothing else."""
    environment = tmp_path_factory.mktemp("environment")
    venv.create(environment, with_pip=True)
    programs = environment / "bin"
    run(programs / "python", "-m", "pip", "install", wheel, cwd=environment)
    return programs


def test_the_wheel_holds_both_packages_and_the_type_marker_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()

    assert {name.split("/")[0] for name in names} == {
        "oncelog", "pyspark_oncelog", f"oncelog-{__version__}.dist-info"
    }  # fmt: skip
    assert "oncelog/py.typed" in names
    assert "pyspark_oncelog/__init__.py" in names


def test_the_installed_command_states_the_version_of_the_wheel(programs: Path, tmp_path: Path) -> None:
    assert __version__ in run(programs / "oncelog", "--version", cwd=tmp_path)


def test_a_transaction_makes_its_way_through_an_installed_log(programs: Path, tmp_path: Path) -> None:
    output = run(programs / "python", "-c", ROUND_TRIP, tmp_path / "log", cwd=tmp_path)

    assert output == "[b'hello']\n"


def test_the_installed_packages_agree_with_each_other(programs: Path, tmp_path: Path) -> None:
    run(programs / "python", "-m", "pip", "check", cwd=tmp_path)
