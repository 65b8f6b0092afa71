"""What a test may leave running or open: child processes, threads and files.

Reads ``/proc``; where there is none (macOS), processes and files go unchecked.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

Held = dict[tuple[str, object], str]
"""What is held, by kind and identity, with a description for the reader of a failure."""

GRACE_S = 5.0
"""What is closing already may finish; checked again and again, so that a clean test does not wait at all."""

PROC = Path("/proc/self")
MULTIPROCESSING_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
"""Started by the standard library at the first need and kept for the life of the interpreter."""


def held(folder: Path) -> Held:
    """What this process holds now; of open files, those below `folder`."""
    return dict([*_processes(), *_threads(), *_files(folder)])


def left_over(before: Held, folder: Path) -> list[str]:
    """Describe what is held and was not `before`, after a time of grace."""
    deadline = time.monotonic() + GRACE_S
    while True:
        found = held(folder)
        leaks = sorted(found[key] for key in found.keys() - before.keys())
        if not leaks or time.monotonic() > deadline:
            return leaks
        time.sleep(0.02)


def _processes() -> Iterator[tuple[tuple[str, object], str]]:
    for task in _listed("task"):
        with suppress(OSError):  # the thread has ended
            for pid in (PROC / "task" / task / "children").read_text().split():
                command = _command(pid)
                if not any(helper in command for helper in MULTIPROCESSING_HELPERS):
                    yield ("process", pid), f"process {pid}: {command or 'ended, never waited for'}"


def _command(pid: str) -> str:
    with suppress(OSError):
        return Path("/proc", pid, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def _threads() -> Iterator[tuple[tuple[str, object], str]]:
    for thread in threading.enumerate():
        if not thread.daemon:
            yield ("thread", thread.ident), f"thread {thread.name}"


def _files(folder: Path) -> Iterator[tuple[tuple[str, object], str]]:
    for descriptor in _listed("fd"):
        with suppress(OSError):  # the descriptor of this very listing
            path = os.readlink(f"{PROC}/fd/{descriptor}").removesuffix(" (deleted)")  # noqa: PTH115 - `Path` would hide the suffix
            if path.startswith(f"{folder}{os.sep}"):
                yield ("file", path), f"open file {path}"


def _listed(folder: str) -> list[str]:
    with suppress(FileNotFoundError):  # there is no /proc
        return os.listdir(PROC / folder)  # noqa: PTH208 - `Path` takes twice as long, before and after every test
    return []
