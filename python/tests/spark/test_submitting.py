"""`spark-submit` to clusters whose hosts have no oncelog: it is sent along (docs/guides/where-jobs-start.md)."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import oncelog
import oncelog.spark
from tests.support.harness.environments import kept_environment, plain_variables
from tests.support.log.logs import values
from tests.support.servers.yarn import running_yarn
from tests.support.spark import spark_home
from tests.support.spark.jobs import shipped
from tests.support.spark.processes import Program
from tests.support.spark.readers import require_jar
from tests.support.spark.standalone import standalone_cluster

pytestmark = pytest.mark.walk("executors of a real cluster")

HERE = str(spark_home.BUILD.parent)
PACKED = "./environment/bin/python"
SMALL = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.instances": "1",
    "spark.driver.extraJavaOptions": spark_home.QUICK,
    "spark.executor.extraJavaOptions": spark_home.QUICK,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with oncelog and without PySpark, packed as the documentation says."""
    folder = tmp_path_factory.mktemp("packed")
    python = kept_environment(folder / "environment", HERE, "pandas", "venv-pack")
    packed = folder / "environment.tar.gz"
    command = [str(python.with_name("venv-pack")), "--quiet", "--compress-level", "1", "--output", str(packed)]
    subprocess.run([*command, "--prefix", str(folder / "environment")], check=True)
    return packed


def unpack(archive: Path, folder: Path) -> None:
    """Where the driver of client mode finds it, by the path by which the executors do."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder / "environment", filter="tar")


def without_sources(python: str) -> dict[str, str]:
    """Variables of processes that find Spark and an interpreter, and no sources of oncelog."""
    return {**plain_variables(), **spark_home.elsewhere(python)}


def run_shipped(
    folder: Path, options: Sequence[str], variables: Mapping[str, str], settings: Mapping[str, str] | None = None
) -> str:
    """Submit the program; returns the interpreter that ran in an executor, once both copies are found to be exact."""
    require_jar()
    command = [str(spark_home.pyspark_home() / "bin" / "spark-submit"), *options, "--jars", oncelog.spark.jars()]
    for name, value in {**SMALL, **(settings or {})}.items():
        command += ["--conf", f"{name}={value}"]
    with Program([*command, shipped.__file__ or "", str(folder)], folder, "submit", variables) as submitted:
        assert submitted.wait() == 0, submitted.last_lines()
    everything = sorted(b"%d" % number for number in range(shipped.SIZE))
    with oncelog.open(str(folder / "log")) as log:
        for door in ("foreachBatch", "oncelog"):
            assert sorted(value or b"" for number in (0, 1) for value in values(log, number, door)) == everything
    found: dict[str, str] = json.loads((folder / "found.json").read_text())
    return found["executor"]


@pytest.mark.parametrize("mode", ["cluster", "client"])
def test_yarn_runs_a_program_out_of_an_archive_of_its_environment(tmp_path: Path, archive: Path, mode: str) -> None:
    unpack(archive, tmp_path)
    settings = {f"spark.{place}.PYSPARK_PYTHON": PACKED for place in ("yarn.appMasterEnv", "executorEnv")}
    settings["spark.yarn.jars"] = f"local:{spark_home.pyspark_home()}/jars/*"  # else Spark sends all of its own
    options = ["--master", "yarn", "--deploy-mode", mode, "--archives", f"{archive}#environment"]

    with running_yarn(tmp_path) as clients:
        variables = {**without_sources(PACKED), "HADOOP_CONF_DIR": str(clients)}
        assert run_shipped(tmp_path, options, variables, settings).endswith("/environment/bin/python")


def test_executors_of_a_standalone_cluster_unpack_the_archive(tmp_path: Path, archive: Path) -> None:
    unpack(archive, tmp_path)
    variables = without_sources(PACKED)

    with standalone_cluster(tmp_path, variables) as url:
        options = ["--master", url, "--archives", f"{archive}#environment"]
        assert run_shipped(tmp_path, options, variables).endswith("/environment/bin/python")


def test_oncelog_comes_to_executors_as_a_wheel(tmp_path: Path) -> None:
    """It is called a zip, since Spark leaves out files of other names. Spark looks for ``format("oncelog")`` in Python
    without ``--py-files``: there the driver's PYTHONPATH leads to it."""
    bare = spark_home.BUILD / f"without-oncelog-{sys.version_info.major}.{sys.version_info.minor}"
    python = kept_environment(bare, "pandas", "pyarrow", "fastavro", "click", "rich")
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), HERE]
    subprocess.run(command, env=plain_variables(), check=True)
    wheel = next(tmp_path.glob("*.whl")).rename(tmp_path / "oncelog.zip")

    variables = without_sources(str(python))

    with standalone_cluster(tmp_path, variables) as url:
        options = ["--master", url, "--py-files", str(wheel)]
        assert run_shipped(tmp_path, options, {**variables, "PYTHONPATH": str(wheel)}) == str(python)
