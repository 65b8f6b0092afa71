"""Ten failures, one after another: what each looks like to Prometheus, its page of the runbook, and what mends it.

A loader writes flights into a log, and two queries copy them into another topic and into files. Exporters serve what
they do, and a Prometheus of this machine evaluates oncelog's alerts, in which minutes and hours are seconds here. Each
failure has to fire its alerts and no other, within 30 seconds. Then the command of its page is run, until no alert
fires any more. In the end every flight must be in each copy, once. Where the Kafka connector's jar is, two more queries
copy into topics of Kafka, and three failures more are their own.

    python examples/demonstrations/failures_and_alerts.py [--only ALERT ...] [FOLDER]    # or: make demo WHAT=operations

With --only it stages the failures whose first alerts these are. Without a Prometheus (on Debian the package
prometheus) it reads the exporters' pages itself. Exits with 1 unless all of that is so. What the programs printed is in
FOLDER, or in build/operations.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import sys
import time
from pathlib import Path

from flights import command
from oncelog.testing.kafka_broker import DEFAULT_VERSION, has_jars
from oncelog_kafka.packaging import JAR
from operations import audit
from operations.failures import FAILURES, ON_KAFKA, Failure
from operations.place import Place, until

ROOT = Path(__file__).resolve().parents[2]

FIRES_WITHIN_S = 30
"""An alert whose minutes are seconds; most take five."""


def show(failure: Failure, place: Place) -> None:
    """Let a failure happen, and mend it as its page says."""
    print(f"\n{failure.what}", flush=True)
    failure.stage(place)
    staged_s = time.monotonic()
    until(lambda: place.firing() == set(failure.alerts), f"{failure.alerts}", FIRES_WITHIN_S)
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


def broker_version() -> str | None:
    """Of the broker that can be started here, if one can."""
    is_there = JAR.exists() and (has_jars(DEFAULT_VERSION) or shutil.which("mvn") is not None)
    return DEFAULT_VERSION if is_there else None


def main() -> int:
    began_s = time.monotonic()
    parser = argparse.ArgumentParser(description="Stage failures, show their alerts, mend them, and count all rows.")
    parser.add_argument(
        "folder", nargs="?", type=Path, default=ROOT / "build" / "operations", help="for what it leaves"
    )
    parser.add_argument("--only", nargs="+", metavar="ALERT", help="stage the failures whose first alerts these are")
    given = parser.parse_args()
    shutil.rmtree(given.folder, ignore_errors=True)
    given.folder.mkdir(parents=True)
    logging.basicConfig(filename=given.folder / "demonstration.txt")
    version = broker_version()
    all_here = FAILURES if version is None else (*FAILURES, *ON_KAFKA)
    failures = [one for one in all_here if given.only is None or one.alerts[0] in given.only]
    if not failures:
        parser.error(
            f"no failure fires {', '.join(given.only)} first; they fire: {', '.join(one.alerts[0] for one in all_here)}"
        )
    beside = "a Kafka broker" if version else "no Kafka broker, for which the jar or Maven is missing"
    watcher = (
        "a Prometheus" if shutil.which("prometheus") else "no Prometheus: the exporters' own pages are read instead"
    )
    print(f"A log, its queries and their exporters are started\n  {beside}\n  {watcher}", flush=True)
    with Place(given.folder, version) as place:
        for failure in failures:
            show(failure, place)
        place.stop_traffic()
        for name in place.queries:
            place.run(name)
        findings = audit.audit(place)
    print()
    for name, one in findings.items():
        print(f"{name:8} {one.rows:5} rows: lost {one.lost}, twice or not committed {one.extra}")
    print(f"{len(failures)} failures in {time.monotonic() - began_s:.0f} s")
    return 0 if all(one.is_exact for one in findings.values()) else 1


if __name__ == "__main__":
    command.interrupted_by_signals()
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("Stopped; nothing is left running.")
        sys.exit(2)
