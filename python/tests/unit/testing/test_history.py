"""Histories come back from their files as they were written, and survive the death of who writes them."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.testing.checker import judge
from oncelog.testing.history import (
    Event,
    Kind,
    Plan,
    Recorder,
    placed_runs_of,
    read,
    runs_of,
    writing,
)
from tests.unit.testing.model_log import random_history

ENDLESS = """
import sys
from oncelog.testing.history import Plan, Recorder, writing
with writing(sys.argv[1]) as keep:
    recorder = Recorder("endless", keep)
    while True:
        recorder.ok(recorder.invoke(Plan()))
        print(flush=True)
"""


@given(st.integers(0, 2**32))
def test_an_event_comes_back_from_its_line(seed: int) -> None:
    for event in random_history(seed, steps=10):
        again = Event.from_json(event.to_json())
        assert again.to_json() == event.to_json()
        assert (again.process, again.number, again.kind, again.time_ns) == (
            event.process,
            event.number,
            event.kind,
            event.time_ns,
        )
        assert type(again.call) is type(event.call)
        assert type(again.answer) is type(event.answer)


def test_a_history_is_judged_alike_from_its_file_and_from_memory(tmp_path: Path) -> None:
    events = random_history(7)
    with writing(tmp_path / "h.jsonl") as keep:
        for event in events:
            keep(event)

    assert judge(read([tmp_path / "h.jsonl"])) == judge(events)


def test_half_a_line_is_passed_over_and_what_comes_behind_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    with writing(path) as keep:
        Recorder("a", keep).invoke(Plan())
    path.write_bytes(path.read_bytes() + b'{"process":"a","ca')
    with writing(path) as keep:
        Recorder("b", keep).invoke(Plan())

    assert [event.process for event in read([path])] == ["a", "b"]


@pytest.mark.slow
def test_what_was_written_is_there_when_the_process_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    with subprocess.Popen([sys.executable, "-c", ENDLESS, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        calls = sum(1 for _, _ in zip(range(100), process.stdout, strict=False))
        process.send_signal(signal.SIGKILL)
        calls += len(process.stdout.readlines())

    events = list(read([path]))
    assert len([event for event in events if event.kind is Kind.OK]) >= calls
    assert judge(events).is_clean


@given(st.lists(st.integers(0, 50)))
def test_runs_say_the_same_as_the_numbers(numbers: list[int]) -> None:
    runs = runs_of(numbers)

    assert [number for first, count in runs for number in range(first, first + count)] == numbers
    assert all(first + count != after for (first, count), (after, _) in itertools.pairwise(runs))
    placed = placed_runs_of(enumerate(numbers, 7))
    assert [offset + at for offset, _, count in placed for at in range(count)] == list(range(7, 7 + len(numbers)))
    assert [(first, count) for _, first, count in placed] == runs
