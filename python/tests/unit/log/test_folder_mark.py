"""The folder of the data files says which log it belongs to: a wrong path is an error and never a second log."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import oncelog
from oncelog.errors import UsageError
from oncelog.log import folder_mark
from oncelog.log.files import LocalFileStore, LocalOutputFile
from oncelog.znodes import paths
from tests.support.log.logs import TOPIC, records, started, write_committed


def elsewhere(tmp_path: Path) -> str:
    """Znodes that any path can be combined with, as those in a ZooKeeper."""
    return f"sqlite:{tmp_path / 'znodes.sqlite'}"


def test_a_path_that_is_not_the_logs_is_refused_and_nothing_is_written_there(tmp_path: Path) -> None:
    with oncelog.open(tmp_path / "log", elsewhere(tmp_path)) as log:
        log.create_topic(TOPIC)

    for create in (True, False):
        with pytest.raises(UsageError, match=r"there is no log here.*other"):
            oncelog.open(tmp_path / "other", elsewhere(tmp_path), create=create)
    assert not (tmp_path / "other").exists()


def test_the_folder_of_another_log_is_refused(tmp_path: Path) -> None:
    oncelog.open(tmp_path / "log", elsewhere(tmp_path)).close()
    oncelog.open(tmp_path / "other").close()

    with pytest.raises(UsageError, match="belong to different logs"):
        oncelog.open(tmp_path / "other", elsewhere(tmp_path))


def test_a_folder_whose_metadata_is_elsewhere_gets_none_of_its_own(tmp_path: Path) -> None:
    oncelog.open(tmp_path / "log", elsewhere(tmp_path)).close()
    before = sorted(file.name for file in (tmp_path / "log").iterdir())

    with pytest.raises(UsageError, match="metadata is elsewhere; name that store with znodes"):
        oncelog.open(tmp_path / "log")

    assert sorted(file.name for file in (tmp_path / "log").iterdir()) == before


def test_a_log_that_moved_with_its_folder_is_opened_at_its_new_path(tmp_path: Path) -> None:
    with oncelog.open(tmp_path / "log", elsewhere(tmp_path)) as log:
        log.create_topic(TOPIC)
        write_committed(started(log), b"a")
    (tmp_path / "log").rename(tmp_path / "moved")

    with oncelog.open(tmp_path / "moved", elsewhere(tmp_path)) as log:
        assert [record.value for record in records(log)] == [b"a"]


@pytest.mark.parametrize("left", [None, "", "0123"], ids=["no mark", "an empty one", "half of one"])
def test_a_creation_that_died_before_the_log_knew_of_its_mark_is_finished_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: str | None
) -> None:
    monkeypatch.setattr(folder_mark, "_LOOKS", 5)  # nobody finishes this one
    with oncelog.open(tmp_path / "log") as log:
        store, cluster_id = log.services.store, log.cluster_id
        store.transact(lambda view: view.set(paths.FORMAT, paths.encode({"cluster_id": cluster_id})))
    mark = tmp_path / "log" / folder_mark.NAME
    mark.unlink()
    if left is not None:
        mark.write_text(left)

    oncelog.open(tmp_path / "log").close()

    assert mark.read_text() == f"{cluster_id}\n"
    mark.unlink()
    with pytest.raises(UsageError, match="there is no log here"):
        oncelog.open(tmp_path / "log")


def test_many_may_create_a_log_at_once(tmp_path: Path) -> None:
    def create(_: int) -> str:
        with oncelog.open(tmp_path / "log") as log:
            return log.cluster_id

    with ThreadPoolExecutor(8) as pool:
        (cluster_id,) = set(pool.map(create, range(16)))
    assert (tmp_path / "log" / folder_mark.NAME).read_text() == f"{cluster_id}\n"


@pytest.mark.parametrize("first", ["the-log\n", "the-"], ids=["finished", "begun"])
def test_a_mark_that_another_process_was_faster_to_write_is_never_taken_away(tmp_path: Path, first: str) -> None:
    """Both found none. Without the mark, a third one would find no log where the log knows of one."""
    mark = tmp_path / folder_mark.NAME

    class Overtaken(LocalFileStore):
        def create(self, name: str) -> LocalOutputFile:
            mark.write_text(first)
            return super().create(name)

        def read(self, name: str, position: int, length: int) -> bytes:
            found = super().read(name, position, length)
            mark.write_text("the-log\n")  # goes on meanwhile
            return found

        def delete(self, name: str) -> None:
            pytest.fail("the other one's mark is taken away")

    folder_mark.ensure(Overtaken(tmp_path), "the-log", str(tmp_path), is_marked=False)

    assert mark.read_text() == "the-log\n"


def test_a_log_whose_folder_another_one_marks_at_the_same_moment_is_refused(tmp_path: Path) -> None:
    mark = tmp_path / folder_mark.NAME

    class Overtaken(LocalFileStore):
        def create(self, name: str) -> LocalOutputFile:
            mark.write_text("the-log\n")
            return super().create(name)

    with pytest.raises(UsageError, match="belong to different logs"):
        folder_mark.ensure(Overtaken(tmp_path), "another-log", str(tmp_path), is_marked=False)

    assert mark.read_text() == "the-log\n"
