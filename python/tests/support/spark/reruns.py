"""A sink on a cluster, where Spark runs a part of its stage again: what holds for every sink of foreachBatch."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.harness.parts import require_java
from tests.support.harness.waiting import until
from tests.support.spark.faults import check_stage_ran_again
from tests.support.spark.processes import Program, start_job
from tests.support.spark.releases import since_4_2
from tests.support.spark.standalone import LOCAL_CLUSTER, awaited_executors

CANNOT_TAKE_BACK = "with indeterminate output"
"""What Spark says of map tasks that gave other rows than before, if tasks that got some of these have succeeded."""


class Rerun(ABC):
    """A query of one batch into a sink, with four tasks in the sink's stage; one kills its executor at its first try.

    Args:
        folder: of its files.
        into: the function that makes the sink, as in `oncelog_files:sink`.
        sink: its options.
        select: what it gets of the columns `id` and `value`.
        spark: further settings of the session.

    Attributes:
        rows: of the batch.
    """

    def __init__(
        self,
        folder: Path,
        into: str,
        sink: Mapping[str, Any],
        *,
        select: Sequence[str] = ("*",),
        spark: Mapping[str, str] | None = None,
    ) -> None:
        require_java()
        self.rows = [(number, f"value {number}") for number in range(40)]
        self._folder = folder
        self._own = {"into": into, "sink": sink, "select": select, "spark": awaited_executors() | dict(spark or {})}
        (folder / "in").mkdir()
        for at in (0, 1):  # for a map task on each executor
            lines = [json.dumps({"id": number, "value": value}) for number, value in self.rows[at::2]]
            (folder / "in" / f"{at}.json").write_text("\n".join(lines))

    @abstractmethod
    def found(self) -> Sequence[tuple[Any, ...]]:
        """The rows that readers see, sorted."""

    @abstractmethod
    def left(self) -> Sequence[object]:
        """What is staged."""

    def run(self, name: str, *, drawn: bool = False) -> Program:
        """Start the query; the fault occurs in its first run only.

        Args:
            name: of the run.
            drawn: whether map tasks that run again give other rows to each task.
        """
        settings = {
            "master": LOCAL_CLUSTER,
            "source": str(self._folder / "in"),
            "read": {},
            "tasks": 4,
            "drawn": drawn,
            "fault": "killed late",
            "folder": str(self._folder),
            "checkpoint": str(self._folder / "checkpoint"),
            "trigger": {"availableNow": True},
        }
        return start_job("rows_copier", {**settings, **self._own}, self._folder, name)

    def check_one_copy(self, driver: Program) -> None:
        assert driver.wait() == 0, driver.last_lines()
        assert f"rows={len(self.rows)}" in driver.last_lines()
        assert self.found() == self.rows
        until(lambda: not self.left())


class RerunContract:
    """The tests; a subclass has the fixture `world`."""

    @pytest.fixture
    def world(self) -> Rerun:
        raise NotImplementedError

    def test_a_stage_that_runs_again_after_some_of_its_tasks_succeeded_leaves_one_copy(
        self, world: Rerun, tmp_path: Path
    ) -> None:
        with world.run("driver") as driver:
            world.check_one_copy(driver)
        check_stage_ran_again(tmp_path)

    @since_4_2
    def test_map_tasks_that_give_other_rows_when_they_run_again_fail_the_query_and_a_restart_leaves_one_copy(
        self, world: Rerun
    ) -> None:
        with world.run("driver", drawn=True) as driver:
            assert driver.wait() != 0, driver.last_lines()
            assert CANNOT_TAKE_BACK in driver.output.read_text(errors="replace"), driver.last_lines()
        assert world.found() == []

        with world.run("restarted", drawn=True) as driver:
            world.check_one_copy(driver)
