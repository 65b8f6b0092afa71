"""A log with its files in an object store and its znodes in ZooKeeper, and either of them away for a while."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest

import oncelog
from integration_tests.copying import Place, assert_exact, copies, copying
from integration_tests.logs import AWAY, TIMEOUT, assert_away, fails_in_time, opened
from integration_tests.servers import S3Server, ZookeeperServer
from oncelog.errors import FileUnavailableError, FileWriteError, OncelogError
from oncelog.testing import invariants
from tests.support.log.logs import numbered, started, values, write_aborted, write_committed, write_open

FIRST, SECOND = numbered("first", 20), numbered("second", 20)
ABSENCES: list[Callable[[S3Server], AbstractContextManager[None]]] = [S3Server.paused, S3Server.away]
FILE_ERRORS = (FileWriteError, FileUnavailableError)


def test_what_is_committed_is_read_by_another_client_and_what_is_aborted_is_not(
    s3: S3Server, zookeeper: ZookeeperServer
) -> None:
    path, znodes = s3.url(), zookeeper.url()
    with opened(path, znodes) as log, started(log) as producer:
        write_committed(producer, *FIRST)
        write_aborted(producer, b"given up")
        with oncelog.open(path, znodes, create=False) as another:
            assert values(another) == FIRST


@pytest.mark.parametrize("absence", ABSENCES, ids=["paused", "cut off"])
def test_while_the_object_store_is_away_writes_are_abortable_and_reads_retriable_and_then_it_goes_on(
    s3: S3Server, zookeeper: ZookeeperServer, absence: Callable[[S3Server], AbstractContextManager[None]]
) -> None:
    with opened(s3.url(timeout_ms=2000), zookeeper.url()) as log, started(log) as producer:
        write_committed(producer, *FIRST)

        with absence(s3):
            with pytest.raises(FileWriteError, match="write the data again"):
                write_open(producer, b"never written")
            producer.abort_transaction()
            with pytest.raises(FileUnavailableError, match="try again"):
                values(log)

        s3.wait_until_serving()
        write_committed(producer, *SECOND)
        assert values(log) == FIRST + SECOND


def test_while_zookeeper_is_away_objects_change_nothing_and_then_it_goes_on(
    s3: S3Server, zookeeper: ZookeeperServer
) -> None:
    with (
        opened(s3.url(), zookeeper.url(TIMEOUT)) as log,
        started(log, delivery_timeout_ms=2000) as producer,
    ):
        write_committed(producer, *FIRST)

        zookeeper.kill()
        fails_in_time(lambda: write_open(producer, b"never named"))
        assert_away(log)
        zookeeper.start().wait_until_serving()

        producer.abort_transaction()
        write_committed(producer, *SECOND)
        assert values(log) == FIRST + SECOND


@pytest.mark.walk("a copy is exact while its servers fail")
def test_a_copy_in_an_object_store_is_exact_though_both_servers_and_the_copier_are_away_in_turn(
    tmp_path: Path, s3: S3Server, zookeeper: ZookeeperServer
) -> None:
    """conformance: 64, 65, 67."""
    place: Place = {
        "path": s3.url(timeout_ms=3000),
        "znodes": zookeeper.url("timeout_ms=3000&session_ms=2000"),
    }
    with oncelog.open(**place) as log:
        with copying(log, place, tmp_path) as copy:

            def is_away(
                *absences: Callable[[], AbstractContextManager[None]], errors: tuple[type[OncelogError], ...]
            ) -> None:
                copy.feed(100)
                copy.pause()  # it would be done before the absence begins
                copy.add(1000)
                with ExitStack() as stack:
                    for absence in absences:
                        stack.enter_context(absence())
                    copy.resume()
                    copy.wait_for_error(*errors)
                copy.wait_until_copied()

            is_away(zookeeper.paused, errors=AWAY)
            is_away(s3.away, errors=FILE_ERRORS)
            is_away(s3.away, zookeeper.away, errors=AWAY + FILE_ERRORS)
            copy.feed(1000)
            copy.kill()
            zookeeper.restart()
            copy.wait_until_copied()
            copy.finish()

        assert_exact(copies(log), copy.sent)
        assert copy.reader.values == copies(log)
        assert log.admin.verify().problems == ()
        invariants.check(log)
