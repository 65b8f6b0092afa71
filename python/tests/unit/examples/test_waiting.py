"""Whoever waits for a program learns when it ended, and what it printed."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flights import waiting
from flights.processes import Program, ProgramFailedError, Programs

SLEEPING = "import time; print('the port is 4711', flush=True); time.sleep(600)"


@pytest.fixture
def programs(tmp_path: Path) -> Iterator[Programs]:
    with Programs(tmp_path) as found:
        yield found


def start(programs: Programs, folder: Path, source: str) -> Program:
    return programs.start("program", [sys.executable, "-c", source, "its-name"], os.environ, folder / "log.txt")


def test_waiting_ends_when_it_is_done_and_looks_around_meanwhile(programs: Programs, tmp_path: Path) -> None:
    program, looks = start(programs, tmp_path, SLEEPING), []

    asyncio.run(waiting.until(lambda: len(looks) == 3, "be looked at", program, meanwhile=lambda: looks.append(1)))

    assert len(looks) == 3


def test_a_program_that_ends_before_it_is_done_is_an_error_with_its_last_words(
    programs: Programs, tmp_path: Path
) -> None:
    program = start(programs, tmp_path, "raise SystemExit('the reason')")

    with pytest.raises(ProgramFailedError, match=r"(?s)ended before it could serve.*the reason"):
        asyncio.run(waiting.until(lambda: False, "serve", program))


def test_patience_ends(programs: Programs, tmp_path: Path) -> None:
    program = start(programs, tmp_path, SLEEPING)

    with pytest.raises(ProgramFailedError, match="did not serve within"):
        asyncio.run(waiting.until(lambda: False, "serve", program, patience_s=0))
    with pytest.raises(ProgramFailedError, match="the run did not end within"):
        asyncio.run(waiting.until(lambda: False, "end", patience_s=0))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes in /proc")
def test_a_program_is_known_by_what_it_printed_and_by_its_processes(programs: Programs, tmp_path: Path) -> None:
    program = start(programs, tmp_path, SLEEPING)

    asyncio.run(waiting.until(lambda: program.printed(r"port is (\d+)") == "4711", "print", program))

    assert program.printed("no (such) thing") is None
    assert len(program.processes("its-name")) == 1
    assert program.processes("another-name") == []
    program.end_session()
    assert program.processes("its-name") == []
