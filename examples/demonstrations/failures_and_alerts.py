"""Ten failures, one after another: what each looks like to Prometheus, its page of the runbook, and what mends it.

A loader writes flights into a log, and two queries copy them into another topic and into files. Exporters serve what
they do, and a Prometheus of this machine evaluates oncelog's alerts, in which minutes and hours are seconds here. Each
failure has to fire its alerts and no other. Then the command of its page is run, until no alert fires any more. In the
end every flight must be in both copies, once.

    python examples/demonstrations/failures_and_alerts.py [FOLDER]        # or: make demo-operations

It needs Prometheus (on Debian the package prometheus). Exits with 1 unless all of that is so. What the programs printed
is in FOLDER, or in build/operations.
"""

from __future__ import annotations

import logging
import shutil
import sys
import time
from pathlib import Path

from operations import audit, query
from operations.failures import FAILURES, Failure
from operations.place import Place, until

ROOT = Path(__file__).resolve().parents[2]
WORK = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "operations"


def show(failure: Failure, place: Place) -> None:
    """Let a failure happen, and mend it as its page says."""
    print(f"\n{failure.what}", flush=True)
    failure.stage(place)
    staged_s = time.monotonic()
    until(lambda: place.firing() == set(failure.alerts), f"{failure.alerts}")
    print(f"  fires    {', '.join(failure.alerts)} after {time.monotonic() - staged_s:.0f} s")
    print(f"  page     {failure.page}", flush=True)
    if failure.command is not None:
        print(f"  mend     {failure.command}", flush=True)
        place.oncelog(failure.command)
    if failure.follow is not None:
        print(f"  mend     {failure.by_hand}", flush=True)
        failure.follow(place)
    until(lambda: not place.firing(), "the end of all alerts")
    print("  over     no alert fires", flush=True)


def main() -> int:
    began_s = time.monotonic()
    if shutil.which("prometheus") is None:
        print("There is no Prometheus here: install it (on Debian the package prometheus).", file=sys.stderr)
        return 2
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    logging.basicConfig(filename=WORK / "demonstration.txt")
    print("A loader, two queries, three exporters and a Prometheus are started", flush=True)
    with Place(WORK) as place:
        for failure in FAILURES:
            show(failure, place)
        place.stop_traffic()
        for name in query.SINKS:
            place.run(name)
        findings = audit.audit(place)
    print()
    for name, one in findings.items():
        print(f"{name:8} {one.rows:5} rows: lost {one.lost}, twice or not committed {one.extra}")
    print(f"{len(FAILURES)} failures in {time.monotonic() - began_s:.0f} s")
    return 0 if all(one.is_exact for one in findings.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
