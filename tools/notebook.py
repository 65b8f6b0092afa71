"""Runs the example's notebook with this interpreter, and writes it again with what its cells printed.

    python tools/notebook.py [--check]

With --check nothing is written: it fails if the outputs in the file are not those of this run, but for times. What goes
to stderr, as Spark's log, is left out.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "examples" / "oncelog.ipynb"
CELL_WITHIN_S = 240
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

JUPYTER_FOLDERS = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")


def executed(source: str) -> str:
    """The notebook with the outputs of a new kernel, which is of this interpreter."""
    notebook: Any = nbformat.reads(source, as_version=4)  # type: ignore[no-untyped-call]
    with tempfile.TemporaryDirectory(prefix="oncelog-") as folder:
        os.environ.update(dict.fromkeys(JUPYTER_FOLDERS, folder))  # the user's kernels and settings are not found
        place = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=CELL_WITHIN_S, resources=place, coalesce_streams=True).execute()
    for cell in notebook.cells:
        cell.metadata.clear()
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata.language_info = {"name": "python"}
    return f"{nbformat.writes(notebook)}\n"  # type: ignore[no-untyped-call]


def main() -> int:
    before = NOTEBOOK.read_text(encoding="utf-8")
    after = executed(before)
    if "--check" not in sys.argv[1:]:
        NOTEBOOK.write_text(after, encoding="utf-8")
        return 0
    shown, found = (TIME.sub("(a time)", text).splitlines() for text in (before, after))
    changes = difflib.unified_diff(shown, found, "in the file", "in this run", lineterm="")
    sys.stdout.writelines(f"{line}\n" for line in changes)
    return int(shown != found)


if __name__ == "__main__":
    sys.exit(main())
