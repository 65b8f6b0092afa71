"""Backs up a log while it is in use, loses it, and restores it.

python examples/backup_and_restore.py [FOLDER]
"""

from __future__ import annotations

import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

import oncelog


def write(path: Path, text: str) -> None:
    with oncelog.open(path) as log:
        if not log.admin.list_topics():
            log.create_topic("orders")
        with log.producer() as producer:
            producer.send("orders", value=text.encode())


def back_up(path: Path, to: Path) -> None:
    """Copy the metadata first, then the files: a file is complete before the metadata names it."""
    to.mkdir(parents=True)
    with (
        closing(sqlite3.connect(path / "znodes.sqlite")) as metadata,
        closing(sqlite3.connect(to / "znodes.sqlite")) as copy,
    ):
        metadata.backup(copy)
    shutil.copytree(path, to, dirs_exist_ok=True, ignore=shutil.ignore_patterns("znodes.sqlite*"))


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="oncelog-"))
    log_path, backup_path = folder / "log", folder / "backup"
    write(log_path, "three apples")

    # In a separate process: in one that uses the log, closing a second handle would drop SQLite's locks.
    backup = get_context("spawn").Process(target=back_up, args=(log_path, backup_path))
    backup.start()
    backup.join()

    write(log_path, "one pear, too late for the backup")
    shutil.rmtree(log_path)  # the disk is gone
    shutil.copytree(backup_path, log_path)

    with oncelog.open(log_path) as log, log.consumer(auto_offset_reset="earliest") as consumer:
        problems = log.admin.verify().problems
        consumer.subscribe(["orders"])
        restored = [(record.value or b"").decode() for record in consumer.poll(timeout_ms=5000)]
    print(f"Restored: {restored}; {len(problems)} problems found")
    sys.exit(1 if problems else 0)
