"""A server that stands still now and then goes on though everybody waits for it, and serves in the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from flights.pauses import standing_still
from oncelog.testing.server_process import ServerProcess
from tests.support.harness.waiting import until


class Sleeper(ServerProcess):
    """A server that serves nobody."""

    def start(self) -> None:
        self._launch(["sleep", "600"])

    def is_serving(self) -> bool:
        return not self.is_paused

    @property
    def is_paused(self) -> bool:
        return "State:\tT" in Path(f"/proc/{self.pid}/status").read_text()


pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="looks at processes in /proc")


def test_who_waits_for_a_paused_server_and_does_nothing_else_sees_it_go_on(tmp_path: Path) -> None:
    """The run of `make demo WHAT=bucket` did, and nobody was left to resume the server."""
    with Sleeper(tmp_path).running() as server, standing_still(server, serves_s=0.01, stands_still_s=0.01):
        for _ in range(3):
            until(lambda: server.is_paused)
            until(lambda: not server.is_paused)


def test_a_server_that_is_paused_at_the_end_serves_behind_it(tmp_path: Path) -> None:
    with Sleeper(tmp_path).running() as server:
        with standing_still(server, serves_s=0.01, stands_still_s=600):
            until(lambda: server.is_paused)
        assert not server.is_paused
