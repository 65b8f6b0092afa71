"""Files that Spark wrote, as its own JVM finds and moves them: here on a local disk."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from oncelog import folders
from oncelog.errors import FileUnavailableError, FileWriteError
from oncelog.spark.kit import spark_files
from oncelog.spark.kit.spark_files import SparkFiles, is_hidden


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder whose path Hadoop must not take for a pattern, or decode."""
    made = tmp_path / "a folder, 100%25 [its] own"
    made.mkdir()
    return made


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def files(spark: SparkSession, root: Path) -> SparkFiles:
    return SparkFiles(spark, str(root))


def test_files_of_a_writer_are_found_with_their_sizes_and_nothing_else(
    spark: SparkSession, files: SparkFiles, root: Path
) -> None:
    rows = spark.createDataFrame([(1, "a, b"), (2, "c=d/e:f"), (3, None)], "id int, _day string")
    rows.repartition(2).write.partitionBy("_day").json(files.path("staging/one"))

    found = files.files("staging/one")

    on_disk = [path.relative_to(root / "staging/one") for path in (root / "staging/one").rglob("part-*.json")]
    assert [file.name for file in found] == sorted(map(str, on_disk))
    assert {file.name.split("/")[0] for file in found} == {
        "_day=a, b",
        "_day=c%3Dd%2Fe%3Af",
        "_day=__HIVE_DEFAULT_PARTITION__",
    }
    assert all(file.size == (root / "staging/one" / file.name).stat().st_size for file in found)
    assert files.size(f"staging/one/{found[0].name}") == found[0].size
    assert "_SUCCESS" in files.names("staging/one")


def test_what_is_missing_is_no_error(files: SparkFiles) -> None:
    assert files.files("nothing") == files.names("nothing") == []
    assert files.size("nothing") is files.is_folder("nothing") is files.read_text("nothing") is None
    assert not files.move("nothing", "target")
    files.remove("nothing")


def test_a_root_is_a_path_or_a_uri(spark: SparkSession, files: SparkFiles, root: Path) -> None:
    by_uri = SparkFiles(spark, f"file://{root}")

    assert (by_uri.root, by_uri.is_local) == (files.root, True) == (f"file:{root}", files.is_local)
    assert files.path("a/b") == f"file:{root}/a/b"
    assert files.path("") == files.root
    assert SparkFiles(spark, "/").path("tmp") == "file:/tmp"


def test_a_small_file_appears_whole(files: SparkFiles, root: Path) -> None:
    files.write_text("deep/below/list.json", "naïve\n")
    files.write_text("deep/below/list.json", "again")

    assert files.read_text("deep/below/list.json") == "again"
    assert files.is_folder("deep/below")
    assert files.is_folder("deep/below/list.json") is False
    assert names_in(root / "deep/below") == ["list.json"]


def test_files_are_moved_once_with_their_checksums(spark: SparkSession, files: SparkFiles, root: Path) -> None:
    spark.range(4).repartition(2).write.json(files.path("staging"))
    names = [file.name for file in files.files("staging")]
    files.make_folder("shown/deep")
    moves = [(f"staging/{name}", f"shown/deep/{name}") for name in names]

    assert files.move_all(moves) == []
    assert files.move_all(moves) == moves, "they are gone"
    assert [file.name for file in files.files("shown/deep")] == names
    assert names_in(root / "shown/deep") == sorted([*names, *(f".{name}.crc" for name in names)])
    files.remove("staging")
    assert not (root / "staging").exists()
    assert sorted(row.id for row in spark.read.json(files.path("shown/deep").replace("[", "\\[")).collect()) == [
        0,
        1,
        2,
        3,
    ]


def test_files_elsewhere_are_moved_by_threads(spark: SparkSession, files: SparkFiles) -> None:
    spark.range(5).repartition(5).write.json(files.path("staging"))
    moves = [(f"staging/{file.name}", file.name) for file in files.files("staging")]
    files.is_local = False

    assert files.move_all([*moves, ("nothing", "target")]) == [("nothing", "target")]
    assert len(files.files("")) == len(moves)


def test_what_spark_wrote_is_synced_with_its_checksums_and_folders(
    spark: SparkSession, files: SparkFiles, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.range(2).selectExpr("id", "id AS day").write.partitionBy("day").json(files.path("staging"))
    names = [file.name for file in files.files("staging")]
    synced: list[Path] = []
    sync = os.fsync

    def seen(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        sync(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", seen)
        files.sync("staging", names)

    contents = {root / "staging" / name for name in names}
    checksums = {file.with_name(f".{file.name}.crc") for file in contents}
    holders = {root / "staging", *(file.parent for file in contents)}
    assert set(synced) == contents | checksums | holders


def test_what_cannot_be_done_is_said_with_path_and_reason(
    spark: SparkSession, files: SparkFiles, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "file").write_text("text")
    with pytest.raises(FileWriteError, match=r"the folder cannot be created \[path='file:.*/file/below', reason="):
        files.make_folder("file/below")
    with pytest.raises(FileWriteError, match=r"the file cannot be written \[path='file:.*/file/below/list'"):
        files.write_text("file/below/list", "text")
    with pytest.raises(FileWriteError, match=r"does not confirm what was written .*No such file"):
        files.sync("", ["nothing"])
    with pytest.raises(FileUnavailableError, match=r"Spark cannot use the file system .*reason='UnsupportedFile"):
        SparkFiles(spark, "nosuch://host/path")
    with pytest.raises(FileUnavailableError, match=r"Spark cannot use the file system .*path='a:b/c'"):
        SparkFiles(spark, "a:b/c")

    def broken(folder: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(folders, "sync", broken)
    with pytest.raises(FileWriteError, match=r"does not confirm .*Input/output error"):
        files.sync_names("", ["file"])


@pytest.mark.parametrize(
    ("name", "hidden"),
    [
        ("part-0.json", False),
        ("day=1/part-0.json", False),
        ("_day=1/part-0.json", False),
        ("_SUCCESS", True),
        (".part-0.json.crc", True),
        ("_temporary/0/part-0.json", True),
        ("day=1/.hidden/part-0.json", True),
    ],
)
def test_files_are_hidden_by_the_rule_of_sparks_readers(name: str, hidden: bool) -> None:
    assert is_hidden(name) is hidden


def test_a_reason_is_one_line() -> None:
    assert spark_files.reason(OSError(28, "No space left on device")) == "[Errno 28] No space left on device"


def test_an_interruption_stays_java_s_so_that_spark_knows_a_query_that_is_stopped(
    spark: SparkSession, files: SparkFiles, root: Path
) -> None:
    """Spark looks for these words in what a function of foreachBatch raises, and then the query has not failed."""
    (root / "one").touch()
    jvm = spark._jvm
    assert jvm is not None
    jvm.Thread.currentThread().interrupt()

    with pytest.raises(Py4JJavaError) as interrupted:
        files.files("")

    assert re.match(r"An error occurred while calling(.|\n)*java\.lang\.InterruptedException", str(interrupted.value))
