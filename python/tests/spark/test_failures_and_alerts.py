"""`make demo-operations`: ten failures fire their alerts and no other, and the commands of their pages mend them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from oncelog.metrics.alerts import ALERTS
from operations.failures import FAILURES
from operations.prometheus import hurried
from tests.support.docs.blocks import ROOT
from tests.support.servers.prometheus import require_prometheus
from tests.support.spark.spark_home import environment


def test_the_command_that_mends_a_failure_stands_on_its_page() -> None:
    assert len(FAILURES) == 10
    for failure in FAILURES:
        page = (ROOT / failure.page).read_text()
        assert failure.command is None or failure.command in page, failure.what
        assert failure.command or failure.follow, failure.what


def test_the_failures_have_alerts_of_their_own() -> None:
    assert len({failure.alerts[0] for failure in FAILURES}) == len(FAILURES)


def test_no_alert_of_the_demonstration_waits_for_minutes() -> None:
    patient = {alert.name for alert in hurried(ALERTS) if re.search(r"\d{3,}|\d+[mh]\b", alert.expr)}
    assert patient == {"OncelogUpkeepMissing"}  # which it does not stage
    assert {alert.lasts for alert in hurried(ALERTS)} == {"0s"}


@pytest.mark.programs
@pytest.mark.in_turn("example programs")
def test_the_demonstration_shows_and_mends_each_and_loses_nothing(tmp_path: Path) -> None:
    require_prometheus()
    program = ROOT / "examples" / "demonstrations" / "failures_and_alerts.py"

    command = [sys.executable, str(program), str(tmp_path / "work")]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("over     no alert fires") == len(FAILURES)
    assert re.findall(r"(\w+) +\d+ rows: lost 0, twice or not committed 0", ended.stdout) == [
        "flights",
        "copies",
        "files",
    ]
