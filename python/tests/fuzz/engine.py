"""Runs the inputs of targets in processes of their own, and takes their hangs and deaths for findings.

Input `i` of seed `s` of a target is always the same, whichever process runs it. A process works through slices of
inputs and notes in shared memory which one it is at; whoever stays at one input too long is killed, and another process
goes on behind it. An address-space limit makes a finding of what would take all memory.
"""

from __future__ import annotations

import base64
import hashlib
import json
import multiprocessing
import os
import resource
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from random import Random
from typing import Any

from oncelog.errors import OncelogError
from tests.fuzz import targets
from tests.fuzz.target import Target, Verdict, WrongAnswerError

SLICE_INPUTS = 250
MEMORY_BYTES = 1024**3
"""What an input may take beyond what the process has at its start."""
MINIMISING_S = 2.0
HANG_S = 20.0
"""Far beyond the slowest input, also on a machine that has other things to do."""
SPAWN = multiprocessing.get_context("spawn")


@dataclass(frozen=True)
class Finding:
    """An input that was answered wrongly.

    Attributes:
        kind: wrong answer, foreign exception, memory, hang or crash.
        what: the error and where it came from; equal for inputs that find the same.
        data: the input, made smaller where that was possible.
    """

    target: str
    seed: int
    number: int
    kind: str
    what: str
    data: bytes

    @property
    def key(self) -> str:
        return f"{self.target}: {self.kind}: {self.what}"

    def command(self) -> str:
        return f"python -m tests.fuzz --targets {self.target} --seed {self.seed} --input {self.number}"

    def write(self, folder: Path) -> Path:
        """Keep it as a file, of a name that the same finding has again."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.target}-{hashlib.sha256(self.key.encode()).hexdigest()[:10]}.json"
        fields = asdict(self) | {"data": base64.b64encode(self.data).decode()}
        path.write_text(json.dumps(fields, indent=1) + "\n", encoding="utf-8")
        return path

    @staticmethod
    def read(path: Path) -> Finding:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return Finding(**fields | {"data": base64.b64decode(fields["data"])})


@dataclass(frozen=True)
class Slice:
    """Inputs ``[start, end)`` of a target."""

    target: str
    seed: int
    start: int
    end: int


@dataclass(frozen=True)
class Done:
    """What became of the inputs of a slice, but for the findings."""

    target: str
    refused: int
    correct: int
    seconds: float


@dataclass
class Report:
    """What became of all inputs, by target; of equal findings the first is kept."""

    refused: Counter[str] = field(default_factory=Counter)
    correct: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    findings: dict[str, Finding] = field(default_factory=dict)

    @property
    def inputs(self) -> Counter[str]:
        return self.refused + self.correct + self.found

    def add(self, event: Finding | Done) -> Finding | None:
        """Count; returns a finding that is new."""
        if isinstance(event, Done):
            self.refused[event.target] += event.refused
            self.correct[event.target] += event.correct
            self.seconds[event.target] += event.seconds  # type: ignore[assignment]
            return None
        self.found[event.target] += 1
        is_new = event.key not in self.findings
        self.findings.setdefault(event.key, event)
        return event if is_new else None


# One input ------------------------------------------------------------------------------------------------------------


def make_input(target: Target, seed: int, number: int) -> bytes:
    """Input `number` of a seed."""
    return target.make(Random(f"{target.name}/{seed}/{number}"))


def judge(target: Target, data: bytes) -> Verdict | tuple[str, str]:
    """The verdict, or the kind of a finding and what was found."""
    try:
        return target.check(data)
    except WrongAnswerError as error:
        return "wrong answer", str(error).partition(" [")[0]
    except OncelogError as error:
        return "foreign exception", f"{type(error).__name__} that its oracle does not expect, {_place(error)}"
    except MemoryError as error:
        return "memory", f"{type(error).__name__} {_place(error)}"
    except Exception as error:  # noqa: BLE001 - whatever gets out is what is looked for
        return "foreign exception", f"{type(error).__name__} {_place(error)}"


def _place(error: BaseException) -> str:
    """The last line of the product that an error went through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/oncelog" in frame.filename]
    if not frames:
        return "outside of the product"
    return f"in {Path(frames[-1].filename).name} {frames[-1].name}"


def attempt(target: Target, seed: int, number: int, known: set[object]) -> Verdict | Finding:
    """Make an input and judge it.

    Args:
        known: answers found before; an input with a new one is made smaller.
    """
    data = make_input(target, seed, number)
    answer = judge(target, data)
    if isinstance(answer, Verdict):
        return answer
    if answer not in known:
        known.add(answer)
        data = minimised(data, lambda other: judge(target, other) == answer)
    return Finding(target.name, seed, number, *answer, data)


def minimised(data: bytes, still_found: Callable[[bytes], bool]) -> bytes:
    """Leave out what is not needed for the same finding, part by part, for a moment."""
    deadline = time.monotonic() + MINIMISING_S
    size = len(data) // 2
    while size:
        at = 0
        while at < len(data):
            if time.monotonic() > deadline:
                return data
            shorter = data[:at] + data[at + size :]
            if still_found(shorter):
                data = shorter
            else:
                at += size
        size //= 2
    return data


# Processes ------------------------------------------------------------------------------------------------------------


def worker(pipe: Connection, at: Any, memory_bytes: int) -> None:
    """Work through slices until there are no more; what a process runs.

    Args:
        at: shared: the input that is being run, since when, and how many were refused and answered in this slice.
        memory_bytes: see `MEMORY_BYTES`.
    """
    size = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + memory_bytes, resource.RLIM_INFINITY))
    prepared: dict[str, Target] = {}
    try:
        while (slice_ := pipe.recv()) is not None:
            if slice_.target not in prepared:
                prepared[slice_.target] = targets.by_name(slice_.target)
                prepared[slice_.target].prepare()
            _run_slice(prepared[slice_.target], slice_, pipe, at)
    finally:
        for target in prepared.values():
            target.close()


def _run_slice(target: Target, slice_: Slice, pipe: Connection, at: Any) -> None:
    began_s = time.monotonic()
    known: set[object] = set()
    at[2], at[3] = 0, 0
    for number in range(slice_.start, slice_.end):
        at[0], at[1] = number, time.monotonic()
        answer = attempt(target, slice_.seed, number, known)
        if isinstance(answer, Finding):
            pipe.send(answer)
        else:
            at[2 if answer is Verdict.REFUSED else 3] += 1
    at[0] = -1
    pipe.send(time.monotonic() - began_s)


class Worker:
    """A process, and another one after each death."""

    def __init__(self, hang_s: float, memory_bytes: int) -> None:
        self._hang_s = hang_s
        self._memory_bytes = memory_bytes
        self._at = SPAWN.RawArray("d", [-1.0, 0.0, 0.0, 0.0])
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None

    def run(self, slice_: Slice, report: Callable[[Finding | Done], None]) -> None:
        """Run a slice, also where inputs of it kill or stop the process."""
        rest: Slice | None = slice_
        while rest is not None:
            rest = self._run_until_death(rest, report)

    def close(self) -> None:
        if self._process is None or self._pipe is None:
            return
        if self._process.is_alive():
            self._pipe.send(None)
            self._process.join(10)
        self._end()

    def _run_until_death(self, slice_: Slice, report: Callable[[Finding | Done], None]) -> Slice | None:
        """Returns what is left of the slice when its process died; None when it is done."""
        pipe = self._pipe or self._start()
        pipe.send(slice_)
        while True:
            if pipe.poll(0.05):
                try:
                    message = pipe.recv()
                except (EOFError, ConnectionResetError):
                    return self._lost(slice_, "crash", report)
                if not isinstance(message, Finding):
                    report(self._done(slice_.target, message))
                    return None
                report(message)
            elif self._at[0] >= 0 and time.monotonic() - self._at[1] > self._hang_s:
                return self._lost(slice_, "hang", report)

    def _done(self, target: str, seconds: float) -> Done:
        return Done(target, int(self._at[2]), int(self._at[3]), seconds)

    def _lost(self, slice_: Slice, kind: str, report: Callable[[Finding | Done], None]) -> Slice | None:
        """Report the input that the process was at."""
        number = int(self._at[0])
        status = self._end()
        if number < 0:
            raise RuntimeError(f"a process ended by itself, with {status}, outside of any input")
        report(self._done(slice_.target, 0.0))
        what = f"the process ended with {status}" if kind == "crash" else f"no answer for {self._hang_s:g} s"
        target = targets.by_name(slice_.target)
        target.prepare()
        try:
            report(Finding(slice_.target, slice_.seed, number, kind, what, make_input(target, slice_.seed, number)))
        finally:
            target.close()
        return replace(slice_, start=number + 1) if number + 1 < slice_.end else None

    def _start(self) -> Connection:
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")  # others reserve room far beyond what they use
        self._at[0] = -1.0
        self._pipe, theirs = SPAWN.Pipe()
        self._process = SPAWN.Process(target=worker, args=(theirs, self._at, self._memory_bytes), daemon=True)
        self._process.start()
        theirs.close()
        return self._pipe

    def _end(self) -> int | None:
        if self._process is None or self._pipe is None:
            return None
        if self._process.is_alive():
            self._process.kill()
        self._process.join()
        status = self._process.exitcode
        self._process.close()
        self._pipe.close()
        self._process = self._pipe = None
        return status


# All of them ----------------------------------------------------------------------------------------------------------


def slices(names: Sequence[str], seed: int, inputs: int | None) -> Iterator[Slice]:
    """All slices, one target after the other and again; without end where no number of inputs is given."""
    weights = {name: targets.by_name(name).weight for name in names}
    sizes = {name: max(round(SLICE_INPUTS * weight), 1) for name, weight in weights.items()}
    quota = {name: None if inputs is None else round(inputs * weights[name] / sum(weights.values())) for name in names}
    starts = dict.fromkeys(names, 0)
    while starts:
        for name in list(starts):
            bound = quota[name]
            end = starts[name] + sizes[name] if bound is None else min(starts[name] + sizes[name], bound)
            if end > starts[name]:
                yield Slice(name, seed, starts[name], end)
                starts[name] = end
            else:
                del starts[name]


def fuzz(
    work: Iterator[Slice],
    processes: int,
    *,
    seconds: float | None = None,
    hang_s: float = HANG_S,
    memory_bytes: int = MEMORY_BYTES,
    on_new: Callable[[Finding], None] = lambda finding: None,
) -> Report:
    """Run slices in some processes until there are none left, or time is up.

    Args:
        work: see `slices`.
        processes: how many at a time.
        seconds: no slice begins after this long; None for all.
        hang_s: an input that takes longer is a hang.
        memory_bytes: see `MEMORY_BYTES`.
        on_new: called with the first finding of its kind.
    """
    report = Report()
    lock = threading.Lock()
    deadline_s = None if seconds is None else time.monotonic() + seconds

    def next_slice() -> Slice | None:
        with lock:
            return None if deadline_s is not None and time.monotonic() > deadline_s else next(work, None)

    def add(event: Finding | Done) -> None:
        with lock:
            new = report.add(event)
            if new is not None:
                on_new(new)

    def supervise() -> None:
        supervised = Worker(hang_s, memory_bytes)
        try:
            while (slice_ := next_slice()) is not None:
                supervised.run(slice_, add)
        finally:
            supervised.close()

    with ThreadPoolExecutor(processes) as threads:
        for ended in [threads.submit(supervise) for _ in range(processes)]:
            ended.result()
    return report
