"""A shell, and the log that its commands are about."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import oncelog
from oncelog import limits
from tests.support.log.checkpoints import HandmadeCheckpoint, two_batches
from tests.support.log.copies import open_round
from tests.support.log.logs import TOPIC, send, started, tp, write_aborted, write_open
from tests.support.log.shell import Shell


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path / "log")


@pytest.fixture
def log(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> Iterator[oncelog.Log]:
    """A log with one topic of two partitions, opened beside the command."""
    monkeypatch.setattr(limits, "SETTLE_LAG_MS", 0)  # there are no plans that settling could disturb
    with oncelog.open(shell.folder) as opened:
        opened.create_topic(TOPIC, partitions=2)
        yield opened


@pytest.fixture
def busy(log: oncelog.Log) -> Iterator[oncelog.Log]:
    """With committed, aborted and open transactions, a micro-batch, and a group."""
    copier = started(log, "copier-0")
    copier.begin_transaction()
    send(copier, b"a", b"b")
    copier.send_offsets_to_transaction({tp(): 1}, "readers")
    copier.commit_transaction()
    write_aborted(started(log, "loser-0"), b"c")
    open_round(log).decide()
    log.admin.settle()
    write_open(blocker := started(log, "blocker-0"), b"d", number=1)
    yield log
    blocker.abort_transaction()


@pytest.fixture
def made(log: oncelog.Log, tmp_path: Path) -> HandmadeCheckpoint:
    """The checkpoint of a query that copies from the log into it, and has committed two batches."""
    return two_batches(log, tmp_path / "ck")
