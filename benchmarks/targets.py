"""Runs the benchmarks of sinks into other stores and writes their part of docs/benchmarks.md (the full run only).

python -m benchmarks.targets [--quick] [--only NAME ...]

Each runs in a process of its own, with a Spark of its own. Servers and drivers come from Maven; PostgreSQL is that of
this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

from benchmarks import files_sink, postgres_sink, report, search_sink, table_sinks, together
from benchmarks.report import Finding

ROOT = Path(__file__).parent.parent

MEASURE = """\
import dataclasses, importlib, json, pathlib, sys
_, module, out, *quick = sys.argv
found = importlib.import_module(module).run(quick=bool(quick))
pathlib.Path(out).write_text(json.dumps([dataclasses.asdict(one) for one in found]))
"""

INTRODUCTION = """\
The sinks take a batch by all
their phases, with the ledger in an SQLite file. A ratio above 1 means that oncelog is faster, except for five sinks
with one decision. The servers run on the same two cores."""

PARTS: dict[str, tuple[str, ModuleType]] = {
    "postgres": ("Spark to PostgreSQL", postgres_sink),
    "files": ("Spark to files", files_sink),
    "tables": ("Spark to tables", table_sinks),
    "search": ("Spark to OpenSearch", search_sink),
    "together": ("Five sinks, one decision", together),
}


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.targets", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data, under ten minutes; writes no page")
    parser.add_argument("--only", nargs="+", choices=PARTS, help="these benchmarks alone")
    options = parser.parse_args(arguments)
    sections = []
    for name in options.only or PARTS:
        heading, module = PARTS[name]
        measure = partial(in_a_process, module, quick=options.quick)
        sections.append(report.section(heading, module.EXPLANATION, measure))
    if not options.quick and options.only is None:
        report.write_part("Into other stores", INTRODUCTION, sections, "make bench WHAT=targets")
        print(f"wrote {report.PAGE}")
    return 0


def in_a_process(module: ModuleType, *, quick: bool) -> list[Finding]:
    """Measure in another process; on another Spark if the module names one."""
    release: str | None = getattr(module, "SPARK", None)
    python = sys.executable if release is None else python_with(release)
    environment = os.environ | {"PYSPARK_PYTHON": python}
    with tempfile.NamedTemporaryFile() as out:
        command = [python, "-c", MEASURE, module.__name__, out.name, *(["quick"] if quick else [])]
        subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, check=True)
        return [Finding(**fields) for fields in json.load(out)]


def python_with(release: str) -> str:
    """The interpreter of the environment with this release of Spark, which is made if it is missing."""
    subprocess.run(["make", "--no-print-directory", "setup", f"SPARK={release}"], cwd=ROOT, check=True)
    return str(ROOT / f".venv-spark-{release}" / "bin" / "python")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
