"""The simulation itself: it repeats to the byte, meets every fault it knows, and its command says how to replay."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from oncelog.errors import UsageError
from oncelog.log.segment import SegmentWriter
from simulation import __main__ as command
from simulation.faults import Fault
from simulation.runner import Report, run_all, run_seeds, seeds_of
from simulation.swarm import run
from simulation.world import Nature, World

SEEDS = range(60)

HASHES = """
from simulation.swarm import run
for seed in range(4):
    print(run(seed).world.trace_hash())
"""


@pytest.fixture(scope="module")
def report() -> Report:
    return run_seeds(SEEDS)


def test_no_seed_breaks_a_law(report: Report) -> None:
    """conformance: 14, 15, 16, 25, 27, 33, 44."""
    assert report.failures == {}
    assert report.counts["committed"] > 5 * len(SEEDS)


def test_every_kind_of_fault_strikes(report: Report) -> None:
    assert [fault for fault in Fault if not report.counts[f"fault: {fault}"]] == []


def test_a_seed_is_the_same_run_whatever_the_process() -> None:
    """The order of sets, which differs from process to process, decides nothing."""

    def hashes(hash_seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        return subprocess.run(
            [sys.executable, "-c", HASHES], env=environment, check=True, capture_output=True, text=True
        ).stdout

    first = hashes("1")
    assert first == hashes("2")
    assert len(set(first.split())) == 4, "different seeds are different runs"


@pytest.mark.sampled("planted bugs")
def test_slices_over_processes_add_up_and_their_deaths_are_not_told(capfd: pytest.CaptureFixture[str]) -> None:
    heard: list[int] = []
    report = run_all(range(52), 2, lambda so_far: heard.append(so_far.seeds))

    assert report.seeds == heard[-1] == 52
    assert capfd.readouterr().err == ""
    assert report.counts == run_seeds(range(52)).counts


def test_a_failure_says_how_to_run_it_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(SegmentWriter, "_finish_file", lambda self: setattr(self, "_current", None))
    kept = tmp_path / "report.json"

    assert command.main(["--seeds", "3", "--report", str(kept)]) == 1

    printed = capsys.readouterr().out
    assert "make sim SEEDS=3" in printed
    assert "python -m simulation --seeds 3 --trace" in printed
    assert "I12" in json.loads(kept.read_text())["failures"]["3"]


def test_a_trace_ends_with_what_became_of_the_seed(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--seeds", "1", "--trace"]) == 0

    printed = capsys.readouterr().out
    assert "seed 1: no law is broken" in printed
    assert run(1).world.trace_hash() in printed


@pytest.mark.parametrize(
    ("text", "seeds"), [("7", [7]), ("0-3", [0, 1, 2, 3]), ("9, 1-2", [9, 1, 2])], ids=["one", "a range", "several"]
)
def test_seeds_are_numbers_and_ranges(text: str, seeds: list[int]) -> None:
    assert seeds_of(text) == seeds


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1..2"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="numbers and ranges"):
        seeds_of(text)


def test_a_file_that_is_removed_while_its_writer_stands_still_stays_removed() -> None:
    """Seeds 621 and 941 ended in a KeyError of the simulation when such a writer woke up and finished its file."""
    world = World(Random(0), Nature())
    writer, collector = world.process("writer"), world.process("collector")
    file = writer.files.create("data/file")
    file.write(b"some")

    collector.files.delete("data/file")
    file.write(b"more")
    file.finish()

    assert world.disk.contents == {}
    assert world.disk.durable == set()
