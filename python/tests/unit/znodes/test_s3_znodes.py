"""Znodes in a bucket of a real S3 server: logs and ledgers, what is asked for, and what happens when it refuses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pytest

import oncelog
from oncelog import limits, metadata
from oncelog.batches.attempt import Batch
from oncelog.batches.rules import BatchRequest
from oncelog.batches.run import BatchDriver
from oncelog.buckets import ObjectPlace
from oncelog.errors import CorruptDataError, InvalidOptionError, StoreAccessError, StoreUnavailableError, UsageError
from oncelog.ports import Create, Timing, ZnodeStore, ZnodeView
from oncelog.spark.kit.options import Use
from oncelog.spark.log_target import SETTLED_EVERY, LogTarget
from oncelog.spark.options import parse_sink_options
from oncelog.spark.writing import TaskWriter, WriteTask, Written
from oncelog.testing import invariants, s3_server
from oncelog.testing.znode_store_contract import (
    AtomicReadsContract,
    ManyProcessesContract,
    StoreWorld,
    ZnodeStoreContract,
)
from oncelog.znodes.clock import wall_ms
from oncelog.znodes.replicated import command, objects
from oncelog.znodes.replicated import s3 as s3_znodes
from oncelog.znodes.replicated.objects import entry_name, probe
from oncelog.znodes.replicated.port import BEGINNING
from oncelog.znodes.replicated.store import ReplicatedZnodeStore
from oncelog.znodes.schemes import Place
from tests.support.docs.blocks import ROOT
from tests.support.log.logs import TOPIC, numbered, started, values, write_committed, write_open
from tests.support.servers.s3 import BUCKET, S3Server, cutter, running_server, s3
from tests.unit.znodes.worlds import forked, increment, number_at, wait_for

pytestmark = pytest.mark.slow

__all__ = ["s3"]

T = TypeVar("T")


@pytest.fixture
def url(s3: S3Server) -> str:
    return s3.url()


@pytest.fixture
def store(url: str) -> Iterator[ZnodeStore]:
    store = s3_znodes.store(url, create=False)
    yield store
    store.close()


class PatientStore(ReplicatedZnodeStore):
    """The contract lets up to eight write at once; on a busy machine a step of one of them takes long in a bucket."""

    def transact(self, step: Callable[[ZnodeView], T], *, deadline_ms: int = 5 * limits.TRANSACT_DEADLINE_MS) -> T:
        return super().transact(step, deadline_ms=deadline_ms)


def world_on(new_url: Callable[[], str]) -> type[StoreWorld]:
    """Worlds each of which has a place of its own in the bucket of a server."""

    class World(StoreWorld):
        def __init__(self, folder: Path) -> None:
            super().__init__(folder)
            self.url = new_url()

        def open(self, timing: Timing) -> ZnodeStore:
            return PatientStore(partial(s3_znodes.opened, self.url), timing, saved_every=20)

    return World


@pytest.mark.walk("znodes in a bucket")
class TestStoreOnS3(ZnodeStoreContract, AtomicReadsContract, ManyProcessesContract):
    @pytest.fixture(autouse=True)
    def _on(self, s3: S3Server) -> None:
        self.world_class = world_on(s3.url)


@pytest.fixture(scope="module")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[s3_server.S3Server]:
    with s3_server.running_server(tmp_path_factory.mktemp("seaweedfs")) as server:
        yield server


@pytest.mark.walk("znodes in a bucket")
class TestStoreOnSeaweedfs(ZnodeStoreContract, AtomicReadsContract, ManyProcessesContract):
    @pytest.fixture(autouse=True)
    def _on(self, seaweedfs: s3_server.S3Server) -> None:
        self.world_class = world_on(seaweedfs.url)

    def test_of_puts_that_race_one_wins(self, seaweedfs: s3_server.S3Server) -> None:
        bucket = s3_znodes.S3Bucket(ObjectPlace.parse(seaweedfs.url()))
        for _ in range(40):
            probe(bucket)
        bucket.close()


# Logs and ledgers ----------------------------------------------------------------------------------------------------


def test_a_log_in_a_bucket_needs_nothing_else(url: str) -> None:
    with oncelog.open(url, "s3") as log:
        log.create_topic(TOPIC, partitions=2)
        with started(log) as producer:
            write_committed(producer, *numbered("a", 3))
            write_open(producer, b"given up")
            producer.abort_transaction()
    with oncelog.open(url, "s3", create=False) as log:
        assert values(log) == numbered("a", 3)
        assert log.admin.verify().problems == ()
        invariants.check(log)
        assert log.znodes is not None
        with oncelog.open(url, log.znodes, create=False) as by_tasks:
            assert by_tasks.cluster_id == log.cluster_id


def test_a_ledger_has_a_folder_of_its_own(url: str) -> None:
    with pytest.raises(UsageError, match="there is no log or ledger"):
        metadata.open_metadata(url, create=False)
    metadata.open_metadata(url).close()

    metadata.open_metadata(url, create=False).close()


@pytest.mark.parametrize(
    ("root", "place"),
    [
        ("s3://bucket", "s3://bucket/znodes"),
        ("s3://bucket/log/", "s3://bucket/log/znodes"),
        ("s3://bucket/log?region=eu-1", "s3://bucket/log/znodes?region=eu-1"),
    ],
)
def test_the_znodes_of_a_log_are_beside_its_files(root: str, place: str) -> None:
    assert Place.of("s3", root).url == place


def test_znodes_beside_files_that_are_in_no_bucket_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="write znodes=s3://bucket/folder"):
        oncelog.open(tmp_path / "log", "s3")
    with pytest.raises(InvalidOptionError, match="not the URL of a bucket"):
        oncelog.open(tmp_path / "log", "s3:log")
    assert list(tmp_path.iterdir()) == []


# What is asked for ---------------------------------------------------------------------------------------------------


def test_a_step_that_writes_is_a_put_and_a_read_is_a_get(s3: S3Server, store: ZnodeStore) -> None:
    store.multi([Create("/counter", b"0")])
    before = len(s3.requests())
    store.transact(increment)
    assert [method for method, _ in s3.requests()[before:]] == ["PUT"]

    before = len(s3.requests())
    assert number_at(store) == 1
    assert [method for method, _ in s3.requests()[before:]] == ["GET"]


def test_a_micro_batch_is_one_put(s3: S3Server, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As docs/guides/cluster.md says."""
    monkeypatch.setattr(limits, "SETTLE_LAG_MS", 0)  # batches are settled however fast they are
    options = parse_sink_options({"path": url, "topic": TOPIC, "transactionalIdPrefix": "sink"}, Use.FOREACH_BATCH)
    asked: list[str] = []
    with oncelog.open(url, "s3") as log:
        log.create_topic(TOPIC, partitions=2)
        driver = BatchDriver(LogTarget(log, options))
        for batch_id in range(1 + 2 * SETTLED_EVERY):
            if batch_id == 1:  # the first one is planned, and asks for producer ids
                before = len(s3.requests())
            driver.run(Batch(BatchRequest("sink", "query", TOPIC, "run", batch_id, str(batch_id)), two_rows))
        asked = [method for method, path in s3.requests()[before:] if "/znodes/" in path]
        assert len(values(log)) == 2 * (1 + 2 * SETTLED_EVERY)

    batches = 2 * SETTLED_EVERY
    assert Counter(asked) == {"PUT": batches}
    guide = (ROOT / "docs" / "guides" / "cluster.md").read_text()
    assert "5 dollars for a million batches" in " ".join(guide.split())


def test_who_waits_for_a_commit_asks_a_few_times_a_second(s3: S3Server, url: str) -> None:
    """As docs/guides/cluster.md says."""
    with oncelog.open(url, "s3") as log, log.consumer(auto_offset_reset="earliest") as consumer:
        log.create_topic(TOPIC)
        consumer.subscribe([TOPIC])
        consumer.poll()
        before = len(s3.requests())
        consumer.poll(timeout_ms=1_000)
        asked = [method for method, _ in s3.requests()[before:]]

    assert 1 <= len(asked) <= 1_000 // s3_znodes.LOOK_MS + 2
    assert set(asked) == {"GET"}
    assert 1_000 // s3_znodes.LOOK_MS == 4


def two_rows(task: WriteTask) -> list[Written]:
    writer = TaskWriter(task)
    writer.write(pa.RecordBatch.from_pydict({"key": [b"a", b"b"], "value": [b"1", b"2"]}))
    return writer.finish()


def test_a_bucket_is_tried_out_only_where_a_store_begins(s3: S3Server, url: str) -> None:
    def probes() -> int:
        return sum("/probes/" in path for method, path in s3.requests() if method == "PUT")

    before = probes()
    metadata.open_metadata(url).close()
    assert probes() > before
    before = probes()
    metadata.open_metadata(url).close()
    assert probes() == before


def test_many_entries_are_listed_in_pages_and_fetched(url: str, store: ZnodeStore) -> None:
    for number in range(40):
        store.multi([Create(f"/{number}")])
    log = s3_znodes.opened(url)
    bucket = log._bucket
    assert isinstance(bucket, s3_znodes.S3Bucket)
    list_objects = bucket._client.list_objects_v2
    bucket._client.list_objects_v2 = lambda **asked: list_objects(MaxKeys=7, **asked)

    assert len(log.read(log.start())) == 40
    assert len(log.read(20)) == 19
    log.close()


def test_a_bucket_of_one_log_is_seen_by_its_forked_children(store: ZnodeStore) -> None:
    store.multi([Create("/counter", b"0")])
    wait_for([forked(lambda: store.transact(increment)) for _ in range(3)])

    assert number_at(store) == 3


def test_the_time_of_znodes_is_the_servers(store: ZnodeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_znodes, "wall_ms", lambda: 0)
    store.multi([Create("/a")])

    found = store.get("/a")
    assert found is not None
    assert abs(found.stat.mtime_ms - wall_ms()) < 5_000


# Versions, and what somebody removes ---------------------------------------------------------------------------------


class VersionedPlace:
    """A place in a bucket that keeps versions, and what somebody does there who looks after the bucket."""

    def __init__(self, server: S3Server | s3_server.S3Server) -> None:
        self.url = server.url().replace(f"s3://{BUCKET}/", "s3://versioned/")
        self.bucket = s3_znodes.S3Bucket(ObjectPlace.parse(self.url))
        self._client, self._prefix = self.bucket._client, self.bucket._prefix
        with suppress(self._client.exceptions.BucketAlreadyOwnedByYou):
            self._client.create_bucket(Bucket="versioned")
        self._client.put_bucket_versioning(Bucket="versioned", VersioningConfiguration={"Status": "Enabled"})

    def open(self) -> AbstractContextManager[ReplicatedZnodeStore]:
        return closing(ReplicatedZnodeStore(partial(s3_znodes.opened, self.url), saved_every=5))

    def hide(self, name: str) -> None:
        """Remove an object, as a lifecycle rule does: a marker hides it."""
        self._client.delete_object(Bucket="versioned", Key=self._prefix + name)

    def hidden(self) -> dict[str, str]:
        """The versions of the markers, by the names of the objects that they hide."""
        found = self._client.list_object_versions(Bucket="versioned", Prefix=self._prefix)
        markers = [one for one in found.get("DeleteMarkers", ()) if one["IsLatest"]]
        return {one["Key"].removeprefix(self._prefix): one["VersionId"] for one in markers}

    def bring_back(self, name: str) -> None:
        """Remove the marker that hides an object."""
        self._client.delete_object(Bucket="versioned", Key=self._prefix + name, VersionId=self.hidden()[name])


@pytest.fixture
def versioned(s3: S3Server) -> Iterator[VersionedPlace]:
    place = VersionedPlace(s3)
    with closing(place.bucket):
        yield place


def test_in_a_bucket_that_keeps_versions_what_was_trimmed_stays_so_though_it_comes_back(
    versioned: VersionedPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "REMOVED_AFTER_MS", 0)
    probe(versioned.bucket)
    with versioned.open() as store:
        for number in range(15):
            store.multi([Create(f"/{number:02}")])
        assert {entry_name(0), entry_name(1)} <= versioned.hidden().keys()
        versioned.bring_back(entry_name(1))

        entry = command.Batch("zombie", 1, BEGINNING, 0, [[Create("/zombie")]])
        with closing(s3_znodes.opened(versioned.url)) as log:  # the place of the first entry is free
            log.append(BEGINNING, command.encode(entry))
        with versioned.open() as another:
            assert another.children("/") == [*(f"{number:02}" for number in range(15)), "zombie"]
        assert store.children("/")[-1] == "zombie"


def test_an_entry_that_is_hidden_is_an_error_until_it_is_brought_back(versioned: VersionedPlace) -> None:
    with versioned.open() as store:
        store.multi([Create("/a")])
        versioned.hide(entry_name(0))
        store.multi([Create("/b")])
        with pytest.raises(CorruptDataError, match="lifecycle rule") as refused:
            versioned.open()
        assert refused.value.fields["missing"] == entry_name(0)

        versioned.bring_back(entry_name(0))
        with versioned.open() as another:
            assert another.children("/") == ["a", "b"]


@pytest.mark.walk("znodes in a bucket")
def test_versions_are_the_same_on_seaweedfs(seaweedfs: s3_server.S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, trimmed = VersionedPlace(seaweedfs), VersionedPlace(seaweedfs)
    with closing(hidden.bucket), closing(trimmed.bucket):
        test_an_entry_that_is_hidden_is_an_error_until_it_is_brought_back(hidden)
        test_in_a_bucket_that_keeps_versions_what_was_trimmed_stays_so_though_it_comes_back(trimmed, monkeypatch)


# Refusals ------------------------------------------------------------------------------------------------------------


def test_an_answer_that_is_cut_off_leaves_one_entry(s3: S3Server) -> None:
    with cutter(s3) as cutting:
        store = s3_znodes.store(s3.url(port=cutting.port), create=False)
        store.multi([Create("/counter", b"0")])
        cutting.answer_bytes, cutting.cuts_left = 0, 2
        store.transact(increment)
        cutting.answer_bytes = None

        assert number_at(store) == 1
        store.close()


def test_credentials_that_may_not_use_the_bucket_are_told_what_they_need(tmp_path: Path) -> None:
    with (
        running_server(tmp_path, has_access_control=True) as server,
        pytest.raises(StoreAccessError, match="s3:PutObject, s3:DeleteObject and s3:ListBucket"),
    ):
        oncelog.open(server.url(), "s3")


def test_without_credentials_the_error_says_so(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")

    with pytest.raises(StoreAccessError, match="Unable to locate credentials"):
        oncelog.open(url, "s3")


def test_a_bucket_that_is_not_there_is_named(url: str) -> None:
    missing = url.replace(f"s3://{BUCKET}/", "s3://nowhere/")

    with pytest.raises(StoreAccessError, match="check that it exists") as refused:
        metadata.open_metadata(missing)
    assert refused.value.fields["url"] == missing


def test_a_server_that_is_away_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OBJECT_STORE_ATTEMPTS", 1)
    with running_server(tmp_path) as server:
        store = s3_znodes.store(server.url(), create=False)
        server.stop()
        with pytest.raises(StoreUnavailableError, match="cannot be reached"):
            store.get("/")
        store.close()
