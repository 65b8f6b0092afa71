"""Declarative Pipelines of Spark, run by the command line that Spark brings."""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import requires, version
from pathlib import Path

from tests.support.harness.environments import kept_environment
from tests.support.harness.parts import require_java
from tests.support.spark import spark_home
from tests.support.spark.connect import all_jars
from tests.support.spark.processes import Program

SPEC = """
name: tested
storage: file://{folder}/storage
configuration:
  spark.sql.pipelines.maxFlowRetryAttempts: "0"
libraries:
  - glob:
      include: transformations/**
"""


PIPELINES = 'extra == "pipelines"'
GRPC = ("grpcio", "googleapis")
"""How the names of the packages begin that Spark Connect needs as well; the environment of tests has the others."""


class Pipeline:
    """A pipeline in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        require_java()
        self._jars = ",".join(all_jars())
        self._variables = variables()
        self._folder = folder
        self._runs = 0
        (folder / "transformations").mkdir(parents=True)
        (folder / "spark-pipeline.yml").write_text(SPEC.format(folder=folder))

    def define(self, **programs: str) -> None:
        """Write the programs that declare its tables, flows and sinks."""
        for name, program in programs.items():
            (self._folder / "transformations" / f"{name}.py").write_text(program)

    def checkpoint(self, flow: str, number: int) -> Path:
        """The folder of a flow's checkpoint: `flow` is the name of its target, a slash, and its own."""
        return self._folder / "storage" / "_checkpoints" / flow / str(number)

    def query_of(self, flow: str, number: int) -> str:
        """The id of the query that has this checkpoint."""
        found: str = json.loads((self.checkpoint(flow, number) / "metadata").read_text())["id"]
        return found

    def run(self, *arguments: str, on: str | None = None) -> str | None:
        """Run `spark-pipelines run`; returns what it printed if it failed.

        Args:
            arguments: further ones.
            on: the URL of a Connect server; by default Spark starts with the jars.
        """
        self._runs += 1
        home = spark_home.lean_spark_home()
        options = ["--conf", f"spark.driver.extraJavaOptions={spark_home.jvm_options()}"]
        options += ["--remote", on] if on else ["--jars", self._jars, "--conf", "spark.ui.enabled=false"]
        command = [str(home / "bin" / "spark-pipelines"), *options, "run", *arguments]
        with Program(command, self._folder, f"run-{self._runs}", self._variables) as program:
            failed = program.wait()
            return program.output.read_text(errors="replace") if failed else None


def variables() -> dict[str, str]:
    """Those with which this interpreter finds what it lacks for pipelines: the packages of Spark Connect."""
    lacking = [
        text.partition(";")[0] for text in requires("pyspark") or () if PIPELINES in text and text.startswith(GRPC)
    ]
    folder = spark_home.BUILD / f"pipelines-{version('pyspark')}-{sys.version_info.major}.{sys.version_info.minor}"
    python = kept_environment(folder, *lacking)
    [packages] = python.parents[1].glob("lib/python*/site-packages")
    found = {**os.environ, **spark_home.environment(), "JAVA_TOOL_OPTIONS": spark_home.QUICK}
    return {**found, "PYTHONPATH": os.pathsep.join([found["PYTHONPATH"], str(packages)])}
