"""How a package brings its jar to Spark: what holds for each package that has one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from types import ModuleType

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from oncelog.errors import UsageError


class PackagingContract(ABC):
    """Subclass it with the package, and the module of it that knows where the jar is."""

    package: ModuleType
    packaging: ModuleType

    @abstractmethod
    def require_jar(self) -> None:
        """Skip the test unless the jar is built."""

    def test_a_jar_that_is_not_built_is_an_error_that_says_how(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setattr(SparkContext, "_gateway", None)
        monkeypatch.setattr(self.packaging, "JAR", tmp_path / "missing.jar")

        for ask in (self.package.jars, lambda: self.package.configure(SparkSession.builder)):
            with pytest.raises(UsageError, match="make shims"):
                ask()

    def test_a_session_that_runs_with_the_jar_may_be_asked_for_again(self, spark: SparkSession) -> None:
        self.require_jar()

        assert self.package.configure(SparkSession.builder).getOrCreate() is spark

    def test_the_jars_that_were_named_before_are_kept(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.require_jar()
        monkeypatch.setattr(SparkContext, "_gateway", None)
        builder = SparkSession.Builder().config("spark.jars", "/a.jar,/b.jar")

        for _ in range(2):
            self.package.configure(builder)

        assert builder._options["spark.jars"] == f"/a.jar,/b.jar,{self.package.jars()}"

    @pytest.mark.parametrize("where", ["builder", "environment"])
    def test_a_session_of_spark_connect_is_told_that_jars_are_on_its_server(
        self, where: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.require_jar()
        builder = SparkSession.Builder()
        if where == "builder":
            builder = builder.remote("sc://localhost")
        else:
            monkeypatch.setenv("SPARK_REMOTE", "sc://localhost")

        with pytest.raises(UsageError, match="uses the jars of its server"):
            self.package.configure(builder)
