"""A Prometheus of this machine, and alerts without their patience."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from oncelog.metrics.alerts import Alert
from oncelog.testing.server_process import ServerProcess, free_ports

HURRIED = (
    (r"> (300|900|3600)$", "> 3"),
    (r"\[15m\]", "[5s]"),
    (r"offset \d+m", "offset 5s"),
    (r"offset \d+h", "offset 20s"),
)
"""What is minutes and hours in an alert is seconds here."""


def hurried(alerts: Iterable[Alert]) -> list[Alert]:
    """The alerts, as they are for somebody who does not want to wait."""
    found = []
    for alert in alerts:
        expr = alert.expr
        for long, short in HURRIED:
            expr = re.sub(long, short, expr)
        found.append(replace(alert, expr=expr, lasts="0s"))
    return found


class Prometheus(ServerProcess):
    """Scrapes some targets and evaluates some rules, both every second."""

    kind = "Prometheus"

    def __init__(self, folder: Path, targets: list[str], rules: str) -> None:
        super().__init__(folder)
        (port,) = free_ports(1)
        self._address = f"127.0.0.1:{port}"
        (folder / "rules.yml").write_text(rules)
        (folder / "prometheus.yml").write_text(
            json.dumps(
                {
                    "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                    "rule_files": ["rules.yml"],
                    "scrape_configs": [{"job_name": "oncelog", "static_configs": [{"targets": targets}]}],
                }
            )
        )

    def start(self) -> None:
        self._launch(
            [
                "prometheus",
                "--config.file=prometheus.yml",
                "--storage.tsdb.path=data",
                f"--web.listen-address={self._address}",
            ]
        )

    def is_serving(self) -> bool:
        try:
            with urlopen(f"http://{self._address}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except URLError:
            return False

    def firing(self) -> list[dict[str, str]]:
        """The labels of the alerts that fire now, among them ``alertname`` and the ``instance`` that it is about."""
        return [one["labels"] for one in self.alerts() if one["state"] == "firing"]

    def alerts(self) -> list[dict[str, Any]]:
        """The alerts that are pending or firing now, with ``labels``, ``state`` and ``activeAt``."""
        found: list[dict[str, Any]] = self._asked("alerts")["alerts"]
        return found

    def evaluated(self, expr: str) -> tuple[str, int]:
        """What an expression evaluates to now: its type, and the number of its series.

        Raises:
            HTTPError: Prometheus cannot read or evaluate it.
        """
        found = self._asked(f"query?{urlencode({'query': expr})}")
        return found["resultType"], len(found["result"])

    def is_scraping(self) -> bool:
        """Whether it has read a page of each target."""
        return all(one["health"] == "up" for one in self._asked("targets")["activeTargets"])

    def _asked(self, what: str) -> Any:
        with urlopen(f"http://{self._address}/api/v1/{what}", timeout=30) as answer:
            return json.load(answer)["data"]
