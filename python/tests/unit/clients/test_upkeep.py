"""Upkeep fails nobody."""

from __future__ import annotations

import logging

import pytest

from oncelog.coordinator.settler import Settler
from oncelog.errors import InvariantViolation, StoreUnavailableError
from oncelog.runtime import Log
from tests.support.log.logs import started, values, write_committed


@pytest.mark.parametrize("error", [StoreUnavailableError("away"), InvariantViolation("a law is broken")], ids=repr)
def test_a_commit_that_stands_is_not_failed_by_the_settling_behind_it(
    log: Log, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    def fail(*_: object) -> int:
        raise error

    monkeypatch.setattr(Settler, "settle_if_due", fail)
    with caplog.at_level(logging.ERROR):
        write_committed(started(log), b"a")

    assert values(log) == [b"a"]
    errors = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert bool(errors) is isinstance(error, InvariantViolation)
    assert all("please report" in record.message for record in errors)
