"""A real Prometheus, and its tool that checks rules."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from operations.prometheus import Prometheus
from tests.support.harness.parts import missing_part

__all__ = ["Prometheus", "promtool", "require_prometheus", "running_prometheus"]


def require_prometheus() -> None:
    if shutil.which("prometheus") is None or shutil.which("promtool") is None:
        missing_part("Prometheus", "install it (on Debian the package prometheus)")


def promtool(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60)


@contextmanager
def running_prometheus(folder: Path, targets: list[str], rules: str) -> Iterator[Prometheus]:
    require_prometheus()
    folder.mkdir()
    with Prometheus(folder, targets, rules).running() as server:
        yield server
