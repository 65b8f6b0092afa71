"""The command `oncelog batch` on the ledgers of tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from lakes import DeltaWorld
from oncelog.cli import main
from oncelog.crash_points import CrashPoint
from oncelog.testing.target_contract import FIRST, SECOND, StoppedOnPurposeError, at, stop


@pytest.mark.usefixtures("spark")
def test_what_a_restart_does_is_told_beforehand(tmp_path: Path) -> None:
    world = DeltaWorld(tmp_path)
    world.run(0, FIRST)
    with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
        world.run(1, SECOND)

    place = str(tmp_path / "ledger")
    done = CliRunner().invoke(main, ["--znodes", place, "--json", "batch", "show", world.prefix])

    assert (done.exit_code, done.stderr) == (0, "")
    (found,) = json.loads(done.stdout)["ledgers"]
    assert (found["target"], found["outcome"], found["last_batch_id"]) == ("delta", "commit", 1)
    assert found["recovery"] == "completes the batch, and writes the next one"
    assert f"table={world.table}" in found["parts"][0]
    world.run(1, SECOND, run="run-2")
    assert world.holds(FIRST, SECOND)
    world.close()


@pytest.mark.usefixtures("spark")
def test_a_batch_is_completed_without_its_query(tmp_path: Path) -> None:
    world = DeltaWorld(tmp_path)
    world.run(0, FIRST)
    with at(CrashPoint.ROUND_DECIDED, stop), pytest.raises(StoppedOnPurposeError):
        world.run(1, SECOND)
    words = ["batch", "complete", world.prefix, "--option", f"path={world.table}"]

    told = [CliRunner().invoke(main, ["--znodes", str(tmp_path / "ledger"), *words]).output for _ in range(2)]

    assert told == [f"batch 1 of {world.prefix} is visible now\n", f"{world.prefix} has nothing to complete\n"]
    assert world.holds(FIRST, SECOND)
    world.close()
