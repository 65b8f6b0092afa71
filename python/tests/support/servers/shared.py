"""Servers that all tests of a run share, and that are up before a test is watched for leaks."""

from __future__ import annotations

import pytest

SHARED = ("bucket", "kafka_ledgers", "postgres", "zookeeper")
"""The fixtures, each of which gives places for znodes by its `url()`, and the parameters of tests that need them."""


def start_before_leak_check(item: pytest.Item) -> None:
    """Let a test with such a parameter depend on the server, which then is up before leaks are looked for.

    The fixtures that take the parameter cannot name the server: the tests of other stores would start it too.
    """
    callspec = getattr(item, "callspec", None)
    for server in SHARED:
        if callspec is not None and server in callspec.params.values():
            names: list[str] = item.fixturenames  # type: ignore[attr-defined]
            # A new list: the old one is shared with the tests of the other parameters.
            item.fixturenames = [server, *names]  # type: ignore[attr-defined]
