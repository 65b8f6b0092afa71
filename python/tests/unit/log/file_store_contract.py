"""What every file store does. The tests of a store inherit this body and add the fixture `files`."""

from __future__ import annotations

import multiprocessing
import pickle
import time
from collections.abc import Callable

import pytest

from oncelog.errors import InvariantViolation, UsageError
from oncelog.ports import FileStore
from tests.unit.znodes.worlds import forked, wait_for

NAME = "data/00000001-a.avro"
LARGE = b"0123456789abcdef" * (12 * 1024 * 1024 // 16)
"""Sent to an object store in several parts, and not held in memory until then."""


def write(files: FileStore, name: str, data: bytes = b"content") -> None:
    output = files.create(name)
    output.write(data)
    output.finish()


def named(files: FileStore, folder: str = "data") -> list[str]:
    return [name for name, _, _ in files.names(folder)]


class FileStoreContract:
    # Writing and reading

    def test_a_finished_file_holds_what_was_written(self, files: FileStore) -> None:
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
        self, files: FileStore, position: int, length: int, expected: bytes
    ) -> None:
        write(files, NAME)

        assert files.read(NAME, position, length) == expected

    def test_a_large_file_arrives_whole(self, files: FileStore) -> None:
        output = files.create(NAME)
        for at in range(0, len(LARGE), 3_000_000):
            output.write(memoryview(LARGE)[at : at + 3_000_000])
        output.finish()

        assert files.size(NAME) == len(LARGE)
        assert files.read(NAME, 0, len(LARGE)) == LARGE
        assert files.read(NAME, 10_485_001, 1000) == LARGE[10_485_001:10_486_001]

    def test_an_empty_file_is_a_file(self, files: FileStore) -> None:
        files.create(NAME).finish()

        assert files.size(NAME) == 0
        assert files.read(NAME, 0, 1) == b""

    def test_a_range_is_not_negative(self, files: FileStore) -> None:
        write(files, NAME)

        for position, length in [(-1, 1), (0, -1)]:
            with pytest.raises(InvariantViolation):
                files.read(NAME, position, length)

    def test_a_missing_file_says_so(self, files: FileStore) -> None:
        write(files, NAME)

        for missing in ["data/missing", "missing/missing", f"{NAME}x"]:
            with pytest.raises(FileNotFoundError):
                files.read(missing, 0, 1)
            with pytest.raises(FileNotFoundError):
                files.size(missing)

    def test_a_file_that_is_removed_between_two_reads_is_missing(self, files: FileStore) -> None:
        write(files, NAME)
        assert files.read(NAME, 0, 3) == b"con"
        wait_for([forked(lambda: files.delete(NAME))])

        with pytest.raises(FileNotFoundError):
            files.read(NAME, 3, 3)
        with pytest.raises(FileNotFoundError):
            files.size(NAME)

    def test_a_finished_or_discarded_file_takes_no_more(self, files: FileStore) -> None:
        finished, discarded = files.create("data/a"), files.create("data/b")
        finished.finish()
        discarded.discard()

        for output in [finished, discarded]:
            with pytest.raises(InvariantViolation):
                output.write(b"more")
            with pytest.raises(InvariantViolation):
                output.finish()

    def test_discarding_removes_the_file_before_and_after_finish_and_twice(self, files: FileStore) -> None:
        begun, finished = files.create("data/a"), files.create("data/b")
        begun.write(b"content")
        finished.write(b"content")
        finished.finish()
        assert files.read("data/b", 0, 7) == b"content"

        for output in [begun, finished, begun, finished]:
            output.discard()

        assert named(files) == []
        for name in ["data/a", "data/b"]:
            with pytest.raises(FileNotFoundError):
                files.read(name, 0, 1)

    # Names

    @pytest.mark.parametrize(
        "name", ["", ".", "..", "/etc/passwd", "../a", "data/../../a", "data//a", "data/./a", "data/", "data/\0a"]
    )
    def test_a_name_stays_below_the_root(self, files: FileStore, name: str) -> None:
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

    def test_names_lists_the_files_of_a_folder_and_below_with_size_and_time(self, files: FileStore) -> None:
        for name in ["data/b", "data/deep/er/c", "data/a", "index/x", "database"]:
            write(files, name, name.encode())

        found = list(files.names("data"))

        assert [(name, size) for name, size, _ in found] == [("data/a", 6), ("data/b", 6), ("data/deep/er/c", 14)]
        assert all(abs(mtime_ms - time.time() * 1000) < 600_000 for _, _, mtime_ms in found)

    def test_names_of_a_folder_that_is_not_there_are_none(self, files: FileStore) -> None:
        assert named(files) == []

    def test_deleting_a_file_that_is_gone_is_no_error(self, files: FileStore) -> None:
        write(files, NAME)

        files.delete(NAME)
        files.delete(NAME)

        assert named(files) == []

    def test_a_name_may_be_used_again_after_its_file_is_gone(self, files: FileStore) -> None:
        write(files, NAME, b"the first, and longer")
        files.read(NAME, 0, 3)
        files.delete(NAME)
        write(files, NAME, b"the second")

        assert files.read(NAME, 0, 100) == b"the second"

    # Processes

    @pytest.mark.slow
    def test_a_store_that_was_pickled_is_the_same_place_in_another_process(self, files: FileStore) -> None:
        arrived = pickle.loads(pickle.dumps(files))

        with multiprocessing.get_context("spawn").Pool(1) as pool:
            pool.apply(write, (arrived, NAME))
            pool.close()
            pool.join()

        assert files.read(NAME, 0, 7) == b"content"
        assert repr(arrived) == repr(files)

    def test_parents_and_forked_children_use_one_store_side_by_side(self, files: FileStore) -> None:
        write(files, "data/parent", b"of the parent")

        def child(number: int) -> None:
            assert files.read("data/parent", 0, 100) == b"of the parent"
            write(files, f"data/{number}", LARGE)
            assert files.read(f"data/{number}", 0, len(LARGE)) == LARGE

        children = [forked(lambda number=number: child(number)) for number in range(2)]  # type: ignore[misc]
        assert files.read("data/parent", 0, 100) == b"of the parent"
        wait_for(children)

        assert named(files) == ["data/0", "data/1", "data/parent"]
