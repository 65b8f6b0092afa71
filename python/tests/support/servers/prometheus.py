"""A real Prometheus, and its tool that checks rules."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from oncelog.testing.server_process import ServerProcess, free_ports
from tests.support.harness.parts import missing_part


def require_prometheus() -> None:
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        missing_part("Prometheus", "install it (on Debian the package prometheus)")


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60)


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

    def firing(self) -> set[tuple[str, str]]:
        """Names of the alerts that fire now, each with the address of the page that it is about."""
        firing = [one["labels"] for one in self._asked("alerts")["alerts"] if one["state"] == "firing"]
        return {(labels["alertname"], labels["instance"]) for labels in firing}

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


@contextmanager
def running_prometheus(folder: Path, targets: list[str], rules: str) -> Iterator[Prometheus]:
    require_prometheus()
    folder.mkdir()
    with Prometheus(folder, targets, rules).running() as server:
        yield server
