"""A whole log whose files are objects on a real S3 server, its znodes in SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import oncelog
from oncelog import limits, metadata, runtime
from oncelog.errors import CorruptDataError, DataLossError, UsageError
from oncelog.log import collection, generations
from oncelog.log.collection import Collected
from oncelog.log.files import file_store
from oncelog.log.verification import Damage
from oncelog.ports import FileStore
from oncelog.runtime import Log
from oncelog.testing import invariants
from oncelog.znodes.sqlite import SqliteZnodeStore
from tests.support.log.logs import (
    TOPIC,
    DrivenTime,
    numbered,
    send,
    started,
    tp,
    uncommitted,
    values,
    write_aborted,
    write_committed,
    write_open,
)
from tests.support.servers.s3 import S3Server, s3

pytestmark = pytest.mark.slow

__all__ = ["s3"]


@dataclass
class ObjectWorld:
    """A log on the server, by a clock that the test drives."""

    url: str
    znodes: str
    log: Log
    files: FileStore
    time: DrivenTime

    def collect_later(self) -> Collected:
        self.time.pass_ms(limits.GENERATION_MIN_AGE_MS)
        return collection.collect(self.log.services.store, self.files, now_ms=self.time.now_ms)

    def data_files(self) -> list[str]:
        return [name for name, _, _ in self.files.names(generations.DATA)]


@pytest.fixture
def world(s3: S3Server, tmp_path: Path) -> Iterator[ObjectWorld]:
    time = DrivenTime()
    url, file = s3.url(), tmp_path / "znodes.sqlite"
    store = SqliteZnodeStore(file, now_ms=time.now_ms, clock=time)
    znodes, files = f"sqlite:{file}", file_store(url)
    with runtime.open_with(url, znodes, store, files, time) as log:
        log.create_topic(TOPIC, partitions=2)
        yield ObjectWorld(url, znodes, log, files, time)


def write_some(log: Log) -> None:
    """Two committed transactions with one between them that is aborted, and an open one at the end."""
    with started(log) as producer:
        write_committed(producer, *numbered("a", 3))
        write_aborted(producer, *numbered("lost", 3))
        write_committed(producer, *numbered("b", 2), number=1)


def test_what_is_committed_is_read_and_what_is_aborted_is_not(world: ObjectWorld) -> None:
    write_some(world.log)

    assert values(world.log, 0) == numbered("a", 3)
    assert values(world.log, 1) == numbered("b", 2)
    assert uncommitted(world.log, 0) == [*numbered("a", 3), *numbered("lost", 3)]
    assert world.log.admin.verify().problems == ()
    invariants.check(world.log)


def test_another_process_opens_the_log_by_its_url(world: ObjectWorld) -> None:
    write_some(world.log)

    with oncelog.open(world.url, world.znodes, create=False) as opened:
        assert (opened.path, opened.cluster_id) == (world.url, world.log.cluster_id)
        assert values(opened) == [*numbered("a", 3), *numbered("b", 2)]


def test_readers_and_writers_list_nothing_and_copy_nothing(
    s3: S3Server, world: ObjectWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TAIL_MAX_ENTRIES", 4)  # the index rolls into files too
    before = len(s3.requests())
    with world.log.producer() as producer:
        for value in numbered("a", 20):
            send(producer, value)
    write_some(world.log)
    assert len(values(world.log)) == 25
    assert world.log.admin.verify().problems == ()

    objects = [(method, path) for method, path in s3.requests()[before:] if path.endswith(".avro")]
    assert objects == s3.requests()[before:]
    assert {method for method, _ in objects} == {"PUT", "HEAD", "GET"}
    assert any("/index/" in path for _, path in objects)
    puts = [path for method, path in objects if method == "PUT"]
    assert len(puts) == len(set(puts))


def test_retention_and_collection_remove_what_nothing_names_and_no_more(world: ObjectWorld) -> None:
    log = world.log
    with log.producer() as producer:
        for value in numbered("a", 3):
            send(producer, value)
    prepared = started(log, "prepared")
    write_open(prepared, b"prepared")
    prepared.prepare_transaction()
    named = world.data_files()
    orphan = generations.new_name(generations.DATA, generations.current(log.services.store))
    output = world.files.create(orphan)
    output.write(b"12345")
    output.finish()
    log.admin.delete_records({tp(): 2})
    removed = [world.collect_later().removed for _ in range(4)]

    assert [len(names) for names in removed] == [0, 0, 3, 0]
    assert orphan in removed[2]
    assert set(world.data_files()) < set(named)
    prepared.commit_transaction()
    assert values(log) == [b"a-2", b"prepared"]
    assert log.admin.verify().problems == ()
    invariants.check(log)


def test_an_object_that_is_gone_is_data_loss_that_names_it_and_verify_finds_it(world: ObjectWorld) -> None:
    write_some(world.log)
    first = world.data_files()[0]
    world.files.delete(first)

    with pytest.raises(DataLossError, match=first):
        uncommitted(world.log)
    assert {(found.damage, found.place) for found in world.log.admin.verify().problems} == {
        (Damage.MISSING_FILE, first)
    }


def test_an_object_that_was_truncated_is_corrupt_and_never_fewer_records(world: ObjectWorld) -> None:
    write_some(world.log)
    for name in world.data_files():
        data = content(world.files, name)
        output = world.files.create(name)
        output.write(data[:-1])
        output.finish()

    with oncelog.open(world.url, world.znodes) as log, pytest.raises(CorruptDataError, match="differs='length'"):
        values(log)


def content(files: FileStore, name: str) -> bytes:
    return files.read(name, 0, files.size(name))


@pytest.mark.parametrize("znodes", [None, "sqlite"])
def test_an_object_store_without_a_place_for_the_znodes_is_refused_and_told_what_to_add(znodes: str | None) -> None:
    with pytest.raises(UsageError, match=r"znodes=s3 .*znodes=zk://.*sqlite:/a/file.*path='s3://bucket/log'"):
        oncelog.open("s3://bucket/log", znodes)
    with pytest.raises(UsageError, match="znodes=zk://"):
        metadata.adopt_host("s3://bucket/log", znodes)
