"""Local files: the contract, durability, and what happens when the file system refuses."""

from __future__ import annotations

import errno
import os
import pickle
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oncelog.errors import FileUnavailableError, FileWriteError, UsageError
from oncelog.log.files import LocalFileStore, absolute, file_store
from tests.unit.log.file_store_contract import NAME, FileStoreContract, write


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def files(root: Path) -> LocalFileStore:
    return LocalFileStore(root)


@contextmanager
def full_disk(free_bytes: int) -> Iterator[None]:
    """No file of this process may grow beyond `free_bytes`: the kernel then fails writes as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (free_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


class TestLocalFileStore(FileStoreContract):
    """The contract, on the fixture `files`."""


# Beyond the contract -------------------------------------------------------------------------------------------------


def test_a_file_that_cannot_be_read_is_told_apart_from_a_missing_one(files: LocalFileStore) -> None:
    write(files, NAME)

    with pytest.raises(FileUnavailableError, match=r"file='data', reason='Is a directory'"):
        files.read("data", 0, 1)
    with pytest.raises(FileUnavailableError, match="Not a directory"):
        files.size(f"{NAME}/below")


def test_a_file_is_created_once(files: LocalFileStore) -> None:
    write(files, NAME)

    with pytest.raises(FileWriteError, match="File exists"):
        files.create(NAME)
    assert files.read(NAME, 0, 7) == b"content"


def test_discarding_leaves_no_file_in_the_folder(files: LocalFileStore, root: Path) -> None:
    files.create(NAME).discard()

    assert list((root / "data").iterdir()) == []


def test_the_time_of_a_file_is_that_of_its_last_change(files: LocalFileStore, root: Path) -> None:
    write(files, NAME)
    os.utime(root / NAME, ns=(0, 1_700_000_000_123_000_000))

    assert list(files.names("data")) == [(NAME, 7, 1_700_000_000_123)]


def test_names_passes_over_a_file_that_vanishes_meanwhile(files: LocalFileStore) -> None:
    write(files, "data/a")
    write(files, "data/b")

    listing = files.names("data")
    first = next(listing)
    files.delete("data/b")

    assert first[0] == "data/a"
    assert list(listing) == []


def test_names_of_a_file_is_an_error_that_names_it(files: LocalFileStore) -> None:
    write(files, NAME)

    with pytest.raises(FileUnavailableError, match="Not a directory"):
        list(files.names(NAME))


def test_a_folder_is_not_deleted_as_a_file(files: LocalFileStore) -> None:
    write(files, NAME)

    with pytest.raises(FileUnavailableError):
        files.delete("data")


# Durability ----------------------------------------------------------------------------------------------------------


def test_finish_fsyncs_the_file_and_then_its_folder(files: LocalFileStore, root: Path, synced: list[Path]) -> None:
    output = files.create(NAME)
    output.write(b"content")
    synced.clear()

    output.finish()

    assert synced == [root / NAME, root / "data"]


def test_new_folders_are_fsynced_into_their_parents_before_the_first_byte(
    files: LocalFileStore, tmp_path: Path, root: Path, synced: list[Path]
) -> None:
    files.create("data/deep/a").discard()

    assert synced == [tmp_path, root, root / "data"]


def test_folders_above_a_new_log_are_fsynced_as_far_as_they_are_new(tmp_path: Path, synced: list[Path]) -> None:
    LocalFileStore(tmp_path / "all" / "logs" / "flights").create("a").discard()

    assert synced == [tmp_path, tmp_path / "all", tmp_path / "all" / "logs"]


def test_folders_that_another_process_made_are_fsynced_once_more_by_this_one(
    files: LocalFileStore, root: Path, synced: list[Path]
) -> None:
    write(LocalFileStore(root), NAME)
    synced.clear()

    files.create("data/a").discard()
    files.create("data/b").discard()

    assert synced == [root]


# Refusals of the file system -----------------------------------------------------------------------------------------


def test_a_full_disk_is_an_error_that_names_the_file_and_leaves_none(files: LocalFileStore, root: Path) -> None:
    output = files.create(NAME)
    with full_disk(free_bytes=1000):
        output.write(b"x" * 999)
        with pytest.raises(FileWriteError) as caught:
            output.write(b"y" * 10)

    assert caught.value.fields == {"file": NAME, "reason": "File too large"}
    assert list((root / "data").iterdir()) == []


def test_an_fsync_that_fails_is_an_error_and_leaves_no_file(
    files: LocalFileStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    output = files.create(NAME)
    output.write(b"content")
    monkeypatch.setattr(os, "fsync", failing)

    with pytest.raises(FileWriteError, match="Input/output error"):
        output.finish()

    assert list((root / "data").iterdir()) == []


def test_a_root_that_is_a_file_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"")

    with pytest.raises(FileWriteError, match=NAME):
        LocalFileStore(tmp_path / "log").create(NAME)


# Places --------------------------------------------------------------------------------------------------------------


def test_a_relative_path_stays_where_it_was_in_another_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = file_store("log")
    pickled = pickle.dumps(files)
    place = absolute("log")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    write(pickle.loads(pickled), NAME)

    assert (tmp_path / "log" / NAME).read_bytes() == b"content"
    assert repr(files) == f"LocalFileStore({str(tmp_path / 'log')!r})"
    assert place == str(tmp_path / "log")


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}", "file://localhost{}"])
def test_a_path_and_a_file_uri_name_the_same_folder(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "a log"
    text = form.format(folder) if form == "{}" else form.format(str(folder).replace(" ", "%20"))

    output = file_store(text).create("a")
    output.finish()

    assert (folder / "a").exists()


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    assert absolute("~/log") == str(tmp_path / "log")


def test_a_folder_with_a_colon_in_its_name_is_written_with_a_slash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert absolute("./localhost:9092") == str(tmp_path / "localhost:9092")


def test_a_path_object_is_a_path(tmp_path: Path) -> None:
    file_store(tmp_path / "log").create("a").finish()

    assert (tmp_path / "log" / "a").exists()


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("gs://bucket", r"s3://bucket/folder \[scheme='gs:/'\]"),
        ("s3a://bucket/log", r"s3://bucket/folder \[scheme='s3a:/'\]"),
        (str(Path("s3://bucket/log")), r"s3://bucket/folder \[scheme='s3:/'\]"),
        ("file://host/log", "names a path of this machine"),
        ("file:log", "absolute path"),
        ("file:///log?a=b", "without query"),
        ("", "empty"),
        ("localhost:9092", r"names a server; to read or write Kafka use oncelog_kafka.*\[path='localhost:9092'\]"),
        ("h1:9092,h2:9092", "kafka.bootstrap.servers"),
        ("[::1]:9092", "kafka.bootstrap.servers"),
        ("SASL_SSL://h1:9092", "kafka.bootstrap.servers"),
        ("log*", r"a log is one folder.*\[path='log\*'\]"),
        ("file:///logs/%3F", "a log is one folder"),
        ("~nobody-of-this-name/log", "this user has no home folder"),
    ],
)
def test_a_place_for_no_log_is_refused_with_its_reason(uri: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        file_store(uri)
