"""``python -m oncelog.testing.checker [--json] FILE...``: checks the histories in these files together."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from oncelog.errors import OncelogError
from oncelog.testing.checker import judge
from oncelog.testing.history import read

CLEAN, ANOMALIES, UNREADABLE = 0, 1, 2


def main(arguments: Sequence[str]) -> int:
    """Check a history, and print the report.

    Returns:
        The exit code: 0 for a clean history, 1 for one with anomalies, 2 if the files contain no history.
    """
    parser = argparse.ArgumentParser(
        prog="python -m oncelog.testing.checker",
        description="Judge a history of what clients of a log did.",
        epilog="Exits with 0 if it is clean, 1 if there are anomalies, 2 if the files hold no history.",
    )
    parser.add_argument(
        "files", nargs="+", type=Path, metavar="FILE", help="JSON lines, as oncelog.testing.history writes"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    chosen = parser.parse_args(arguments)
    try:
        report = judge(read(chosen.files))
    except (OSError, OncelogError) as error:
        sys.stderr.write(f"{error}\n")
        return UNREADABLE
    if report.counts["events"] == 0:
        sys.stderr.write("the files hold no history\n")
        return UNREADABLE
    sys.stdout.write((json.dumps(report.to_json(), indent=1) if chosen.json else str(report)) + "\n")
    return CLEAN if report.is_clean else ANOMALIES


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
