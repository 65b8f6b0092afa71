"""The examples on Spark and a log run as they stand: the quick start as a user runs it, the others on one session."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.docs.blocks import ROOT
from tests.support.docs.examples import run_beside, run_here
from tests.support.spark.spark_home import environment

pytestmark = pytest.mark.sampled("example programs")

PRINTED = {
    "good_and_bad_rows": [
        """good: ['{"flight": 1, "late": 15}', '{"flight": 3, "late": 0}']""",
        """bad: ['{"flight": 2, "late": "no']""",
    ],
    "windowed_aggregation": ["12:00: 3 clicks", "12:01: 2 clicks"],
    "lost_checkpoint": ["Copied: ['three apples', 'one pear']"],
}


@pytest.mark.slow
def test_the_quick_start_reads_back_the_late_flights(tmp_path: Path) -> None:
    *flights, where = run_beside("quick_start", tmp_path).splitlines()

    assert sorted(flights) == ["DL was 90 minutes late", "UA was 42 minutes late"]
    assert where == f"The log is in {tmp_path}/log"


@pytest.mark.slow
def test_the_cells_of_the_notebook_print_what_stands_below_them() -> None:
    command = [sys.executable, str(ROOT / "tools" / "notebook.py"), "--check"]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{ended.stdout}{ended.stderr}\nIf this is as it should be: make demo WHAT=notebook"


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_promises(
    name: str, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The examples print in the zone of the session.
    spark.conf.set("spark.sql.session.timeZone", "UTC")

    run_here(name, tmp_path, monkeypatch=monkeypatch)

    assert capsys.readouterr().out.splitlines() == PRINTED[name]
