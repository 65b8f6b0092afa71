"""What stands between the sink and a store: passwords, certificates, and a store that is busy or does not answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import urllib3
from pyspark.sql import SparkSession

from gates import gate
from oncelog.testing.target_contract import FIRST, SECOND, at
from oncelog_search.crash_points import SearchCrashPoint
from oncelog_search.errors import SearchAccessError, SearchUnavailableError
from oncelog_search.server import API_KEY, PASSWORD, USER
from search_worlds import SearchWorld
from tests.support.servers.opensearch import OpenSearch
from tests.support.servers.s3 import make_certificate


@pytest.fixture
def world(tmp_path: Path, spark: SparkSession, opensearch: OpenSearch) -> Iterator[SearchWorld]:
    found = SearchWorld(tmp_path, spark, opensearch)
    yield found
    assert found.left() == []
    found.close()


def test_a_password_is_told_to_the_store_and_to_nobody_else(
    world: SearchWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = urllib3.make_headers(basic_auth="copier:hunter2")["authorization"]
    with gate(world.url, right) as (_, world.url):
        for variables in ({}, {USER: "copier", PASSWORD: "hunter3"}, {API_KEY: "hunter4"}):
            with monkeypatch.context() as environment, pytest.raises(SearchAccessError) as denied:
                for name, value in variables.items():
                    environment.setenv(name, value)
                world.run(0, FIRST)
            assert "denies this process access: check ONCELOG_SEARCH_USER" in str(denied.value)
            assert "hunter" not in str(denied.value)

        monkeypatch.setenv(USER, "copier")
        monkeypatch.setenv(PASSWORD, "hunter2")
        world.run(0, FIRST, "run-2")

        def change() -> None:
            monkeypatch.setenv(PASSWORD, "hunter3")

        with at(SearchCrashPoint.SEND, change), pytest.raises(SearchAccessError, match="the batch is decided"):
            world.run(1, SECOND, "run-2")
        monkeypatch.setenv(PASSWORD, "hunter2")
        assert world.run(1, SECOND, "run-3").is_replay

    assert world.holds(FIRST, SECOND)
    written = b"".join(file.read_bytes() for file in world.folder.rglob("*") if file.is_file())
    assert b"hunter" not in written


def test_an_api_key_lets_in(world: SearchWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(API_KEY, "key")
    with gate(world.url, "ApiKey key") as (_, world.url):
        world.run(0, FIRST)

    assert world.holds(FIRST)


def test_only_a_certificate_that_is_trusted_is_spoken_to(world: SearchWorld, tmp_path: Path) -> None:
    certificate = tmp_path / "store.pem"
    make_certificate(certificate)
    with gate(world.url, certificate=certificate) as (_, world.url):
        with pytest.raises(
            SearchAccessError, match=r"name the certificates to trust with caFile.*reason='.*verify failed"
        ):
            world.run(0, FIRST)
        world.options = {"caFile": str(certificate)}
        world.run(0, FIRST, "run-2")

    assert world.holds(FIRST)


def test_a_store_that_is_busy_or_does_not_answer_is_asked_again_until_its_time_is_over(world: SearchWorld) -> None:
    with gate(world.url) as (store, world.url):
        store.busy, store.deaf = 2, 1
        world.options = {"retryTimeout": "30s"}
        world.run(0, FIRST)
        assert world.holds(FIRST)

        store.busy, world.options = 1_000, {"retryTimeout": "300ms"}
        with pytest.raises(SearchUnavailableError, match=r"too busy.*the batch is decided.*status=429"):
            world.run(1, SECOND)
        store.busy = 0
        assert world.run(1, SECOND, "run-2").is_replay

    assert world.holds(FIRST, SECOND)


def test_requests_are_as_large_as_they_may_be(world: SearchWorld) -> None:
    world.options = {"requestBytes": 400}
    values = [f"{number:0100}" for number in range(12)]
    with gate(world.url) as (store, world.url):
        world.run(0, values)

    assert world.holds(values)
    assert sum("/_bulk" in request for request in store.seen) > 2
