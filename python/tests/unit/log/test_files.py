"""Local files: names, durability, and what happens when the file system refuses."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oncelog.errors import FileUnavailableError, FileWriteError, InvariantViolation, UsageError
from oncelog.log.files import LocalFileStore, file_store

NAME = "data/00000001-a.avro"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def files(root: Path) -> LocalFileStore:
    return LocalFileStore(root)


def write(files: LocalFileStore, name: str, data: bytes = b"content") -> None:
    output = files.create(name)
    output.write(data)
    output.finish()


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Every file and folder that is fsynced, in order."""
    paths: list[Path] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        paths.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    return paths


@contextmanager
def full_disk(free_bytes: int) -> Iterator[None]:
    """No file of this process may grow beyond `free_bytes`: the kernel then fails writes as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (free_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


# Writing and reading -------------------------------------------------------------------------------------------------


def test_a_finished_file_holds_what_was_written(files: LocalFileStore) -> None:
    output = files.create(NAME)
    output.write(b"one")
    output.write(memoryview(b"--two--")[2:5])
    assert output.position == 6
    output.finish()

    assert files.read(NAME, 0, 6) == b"onetwo"
    assert files.size(NAME) == 6


@pytest.mark.parametrize(
    ("position", "length", "expected"),
    [
        (0, 7, b"content"),
        (2, 3, b"nte"),
        (5, 100, b"nt"),
        (7, 1, b""),
        (100, 1, b""),
        (0, 0, b""),
        (0, 2**62, b"content"),
    ],
)
def test_a_read_gives_the_range_as_far_as_the_file_reaches(
    files: LocalFileStore, position: int, length: int, expected: bytes
) -> None:
    write(files, NAME)

    assert files.read(NAME, position, length) == expected


def test_a_range_is_not_negative(files: LocalFileStore) -> None:
    write(files, NAME)

    for position, length in [(-1, 1), (0, -1)]:
        with pytest.raises(InvariantViolation):
            files.read(NAME, position, length)


def test_a_missing_file_is_told_apart_from_one_that_cannot_be_read(files: LocalFileStore) -> None:
    write(files, NAME)

    for missing in ["data/missing", "missing/missing"]:
        with pytest.raises(FileNotFoundError):
            files.read(missing, 0, 1)
        with pytest.raises(FileNotFoundError):
            files.size(missing)
    with pytest.raises(FileUnavailableError, match=r"file='data', reason='Is a directory'"):
        files.read("data", 0, 1)
    with pytest.raises(FileUnavailableError, match="Not a directory"):
        files.size(f"{NAME}/below")


def test_a_file_is_created_once(files: LocalFileStore) -> None:
    write(files, NAME)

    with pytest.raises(FileWriteError, match="File exists"):
        files.create(NAME)
    assert files.read(NAME, 0, 7) == b"content"


def test_a_finished_or_discarded_file_takes_no_more(files: LocalFileStore) -> None:
    finished, discarded = files.create("data/a"), files.create("data/b")
    finished.finish()
    discarded.discard()

    for output in [finished, discarded]:
        with pytest.raises(InvariantViolation):
            output.write(b"more")
        with pytest.raises(InvariantViolation):
            output.finish()


def test_discarding_removes_the_file_before_and_after_finish_and_twice(files: LocalFileStore, root: Path) -> None:
    begun, finished = files.create("data/a"), files.create("data/b")
    finished.finish()

    for output in [begun, finished, begun]:
        output.discard()

    assert list((root / "data").iterdir()) == []


# Names ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["", ".", "..", "/etc/passwd", "../a", "data/../../a", "data//a", "data/./a", "data/", "data/\0a"]
)
def test_a_name_stays_below_the_root(files: LocalFileStore, name: str) -> None:
    uses: list[Callable[[], object]] = [
        lambda: files.create(name),
        lambda: files.read(name, 0, 1),
        lambda: files.size(name),
        lambda: list(files.names(name)),
        lambda: files.delete(name),
    ]
    for use in uses:
        with pytest.raises(UsageError, match="below the log's root"):
            use()


def test_names_lists_the_files_of_a_folder_and_below_with_size_and_time(files: LocalFileStore, root: Path) -> None:
    for name in ["data/b", "data/deep/er/c", "data/a", "index/x"]:
        write(files, name, name.encode())
    os.utime(root / "data/a", ns=(0, 1_700_000_000_123_000_000))

    found = list(files.names("data"))

    assert [(name, size) for name, size, _ in found] == [("data/a", 6), ("data/b", 6), ("data/deep/er/c", 14)]
    assert found[0][2] == 1_700_000_000_123


def test_names_of_a_folder_that_is_not_there_are_none(files: LocalFileStore) -> None:
    assert list(files.names("data")) == []


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


def test_deleting_a_file_that_is_gone_is_no_error(files: LocalFileStore) -> None:
    write(files, NAME)

    files.delete(NAME)
    files.delete(NAME)

    assert list(files.names("data")) == []
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


def test_a_store_is_the_same_folder_in_another_process_and_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    files = file_store("log")
    arrived = pickle.loads(pickle.dumps(files))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.apply(write, (arrived, NAME))
        pool.close()
        pool.join()

    assert (tmp_path / "log" / NAME).read_bytes() == b"content"
    assert repr(arrived) == f"LocalFileStore({str(tmp_path / 'log')!r})"


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}", "file://localhost{}"])
def test_a_path_and_a_file_uri_name_the_same_folder(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "a log"
    text = form.format(folder) if form == "{}" else form.format(str(folder).replace(" ", "%20"))

    output = file_store(text).create("a")
    output.finish()

    assert (folder / "a").exists()


def test_a_path_object_is_a_path(tmp_path: Path) -> None:
    file_store(tmp_path / "log").create("a").finish()

    assert (tmp_path / "log" / "a").exists()


@pytest.mark.parametrize(
    ("uri", "reason"),
    [
        ("s3://bucket/log", "object stores are not supported yet"),
        ("gs://bucket", "object stores are not supported yet"),
        ("file://host/log", "names a path of this machine"),
        ("file:log", "absolute path"),
        ("file:///log?a=b", "without query"),
        ("", "empty"),
    ],
)
def test_a_place_that_is_not_local_is_refused_with_its_reason(uri: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        file_store(uri)
