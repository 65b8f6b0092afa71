"""Files that Spark's writers leave in a folder, on any file system that Spark reaches: local disks, HDFS, S3, ...

Files are listed, moved and removed through Hadoop's FileSystem in Spark's JVM, with the settings and credentials of the
session. So what Spark can write to, this can, too.

What is durable differs. On a local disk nobody has synced what Spark wrote: `sync` does. HDFS keeps a closed file in
the memory of its data nodes, in as many copies as it has been told to. S3 and other object stores keep what they have
acknowledged. A move is atomic, but for object stores: there it is a copy, which appears whole, and then a removal.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from oncelog.extras import extras

with extras("spark", part="oncelog.spark.kit"):
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

from oncelog import folders
from oncelog.errors import FileUnavailableError, FileWriteError, OncelogError
from oncelog.randomness import random_id

T = TypeVar("T")
R = TypeVar("R")

THREADS: Final = 8
"""How many files are synced, or moved on other machines, at a time: almost all of it is waiting."""

WHOLE_WHEN_CLOSED: Final = frozenset({"s3a", "s3", "s3n", "gs"})
"""Schemes of stores where a file appears, whole, when its writer closes it. Elsewhere a rename makes it appear."""

WRITER: Final = {
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # The second algorithm moves a task's files to their place before the task has won: those of a try that failed stay.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
}
"""Of Hadoop's committer, as options of Spark's writer: a folder then has the files of the tasks that won, and no
others."""

FAILURES: Final = (Py4JError, PySparkException, OSError)
"""What a call into Spark's JVM raises, and one to this process's own system."""

INTERRUPTIONS: Final = ("InterruptedException", "InterruptedIOException", "ClosedByInterruptException")
"""Java's, by which Spark knows a query that was stopped amid a batch from one that failed."""

_MISSING: Final = "java.io.FileNotFoundException"


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file below a folder.

    Attributes:
        name: its path from that folder on, with ``/``.
        size: in bytes.
    """

    name: str
    size: int


class SparkFiles:
    """The files below a root folder. Names are paths from there on, with ``/``; the root itself is the empty name.

    Args:
        spark: whose JVM, settings and credentials are used.
        root: a path or a URI, as Spark's readers take it.

    Raises:
        FileUnavailableError: Spark has no such file system, or cannot reach it.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        jvm: Any = spark._jvm
        self._java_path = jvm.org.apache.hadoop.fs.Path
        with _failing(FileUnavailableError, "Spark cannot use the file system of this path", root):
            folder = self._java_path(root)
            self._fs = folder.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
            self.root = str(self._fs.makeQualified(folder).toString())
            self.scheme = str(self._fs.getScheme())
        self.is_local = self.scheme == "file"
        self._between = "" if self.root.endswith("/") else "/"

    def path(self, name: str) -> str:
        """The URI of a file or folder, for Spark's readers and writers."""
        return f"{self.root}{self._between}{name}" if name else self.root

    # Looking

    def is_folder(self, name: str) -> bool | None:
        """Whether a folder has this name; False if a file has it, None if nothing has."""
        with self._looking(name):
            found = self._status(name)
            return None if found is None else bool(found.isDirectory())

    def size(self, name: str) -> int | None:
        """The size of a file, in bytes; None if there is none."""
        with self._looking(name):
            found = self._status(name)
            return None if found is None or found.isDirectory() else int(found.getLen())

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted, hidden ones too; none if there is no such folder."""
        with self._looking(folder):
            return sorted(str(status.getPath().getName()) for status in self._statuses(folder))

    def names_by_age(self, folder: str) -> list[str]:
        """The same, those that were changed last at the end."""
        with self._looking(folder):
            found = [
                (int(each.getModificationTime()), str(each.getPath().getName())) for each in self._statuses(folder)
            ]
            return [name for _, name in sorted(found)]

    def files(self, folder: str) -> list[FoundFile]:
        """All files below a folder that Spark's readers would read, sorted by name; none if there is no such folder."""
        base = self.path(folder)
        found = []
        with self._looking(folder):
            try:
                left = self._fs.listFiles(self._path(folder), True)
                while left.hasNext():
                    status = left.next()
                    name = str(status.getPath().toString()).removeprefix(base).lstrip("/")
                    if not is_hidden(name):
                        found.append(FoundFile(name, int(status.getLen())))
            except FAILURES as problem:
                if not _is_missing(problem):
                    raise
        return sorted(found, key=lambda file: file.name)

    def read_text(self, name: str) -> str | None:
        """The text of a small file; None if there is none."""
        with self._looking(name):
            try:
                stream = self._fs.open(self._path(name))
            except FAILURES as problem:
                if _is_missing(problem):
                    return None
                raise
            try:
                return bytes(stream.readAllBytes()).decode()
            finally:
                stream.close()

    # Changing

    def make_folder(self, name: str) -> None:
        """Create a folder and its missing parents, durably.

        Raises:
            FileWriteError: it cannot be created.
        """
        with _failing(FileWriteError, "the folder cannot be created", self.path(name)):
            if self.is_local:
                folders.make(self._local(name))
            else:
                self._fs.mkdirs(self._path(name))

    def write_text(self, name: str, text: str) -> None:
        """Create a small file, durably, so that nobody sees a part of it. A file that is there already may stay.

        Raises:
            FileWriteError: it cannot be written.
        """
        with _failing(FileWriteError, "the file cannot be written", self.path(name)):
            if self.is_local:
                self._write_local(self._local(name), text.encode())
            elif self.scheme in WHOLE_WHEN_CLOSED:
                self._write(name, text.encode())
            else:
                folder, _, last = name.rpartition("/")
                coming = f"{folder}/.{last}.{random_id()}".lstrip("/")
                self._write(coming, text.encode())
                if not self._fs.rename(self._path(coming), self._path(name)):
                    self._fs.delete(self._path(coming), False)
                    if self._status(name) is None:
                        raise OSError("the file system refuses to rename it")

    def move(self, source: str, target: str) -> bool:
        """Move a file to a name that no other file has, in a folder that exists. False: nothing was moved.

        It is not moved if it is not there, or if others moved it at the same time. A file that is at the target stays,
        but on local disks, where it is replaced.

        Raises:
            FileUnavailableError: it cannot be moved.
        """
        with _failing(FileUnavailableError, "the file cannot be moved", self.path(source), to=self.path(target)):
            try:
                return bool(self._fs.rename(self._path(source), self._path(target)))
            except FAILURES as problem:
                if _is_missing(problem) or _kind(problem).endswith(".FileAlreadyExistsException"):
                    return False
                raise

    def move_all(self, moves: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Move many files; returns the moves that `move` did not make."""
        if self.is_local:  # a thread would cost more than it saves
            return [each for each in moves if not self.move(*each)]
        return [each for each, is_moved in _at_once(lambda each: (each, self.move(*each)), moves) if not is_moved]

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all that is in it; do nothing if it is not there.

        Raises:
            FileUnavailableError: it cannot be removed.
        """
        with _failing(FileUnavailableError, "the file or folder cannot be removed", self.path(name)):
            self._fs.delete(self._path(name), True)

    # Making durable

    def sync(self, folder: str, files: Iterable[str]) -> None:
        """Make files durable that were written below a folder on a local disk; nothing is to be done elsewhere.

        Args:
            files: their names, from the folder on.

        Raises:
            FileWriteError: the disk does not confirm it.
        """
        if self.is_local:
            names = list(files)
            with _failing(FileWriteError, "the disk does not confirm what was written", self.path(folder)):
                for _ in _at_once(_sync_with_checksums, [self._local(folder) / name for name in names]):
                    pass
            self.sync_names(folder, names)

    def sync_names(self, folder: str, files: Iterable[str]) -> None:
        """Make the names of files durable that are below a folder on a local disk."""
        if self.is_local:
            top = self._local(folder)
            holders = {top}
            for name in files:
                holders.update(top / parent for parent in Path(name).parents)
            with _failing(FileWriteError, "the disk does not confirm what was written", self.path(folder)):
                for holder in holders:
                    folders.sync(holder)

    # Steps

    def _path(self, name: str) -> Any:
        return self._java_path(self.path(name))

    def _local(self, name: str) -> Path:
        return Path(self.path(name).removeprefix("file:"))

    def _status(self, name: str) -> Any:
        try:
            return self._fs.getFileStatus(self._path(name))
        except FAILURES as problem:
            if _is_missing(problem):
                return None
            raise

    def _statuses(self, folder: str) -> Sequence[Any]:
        try:
            found: Sequence[Any] = self._fs.listStatus(self._path(folder))
        except FAILURES as problem:
            if _is_missing(problem):
                return []
            raise
        return found

    def _write(self, name: str, data: bytes) -> None:
        stream = self._fs.create(self._path(name), True)
        try:
            stream.write(data)
            if self.scheme not in WHOLE_WHEN_CLOSED:
                stream.hsync()
        finally:
            stream.close()

    def _write_local(self, file: Path, data: bytes) -> None:
        folders.make(file.parent)
        coming = file.with_name(f".{random_id()}")
        try:
            with coming.open("xb") as writing:
                writing.write(data)
                writing.flush()
                os.fsync(writing.fileno())
            coming.replace(file)
        except BaseException:
            with suppress(OSError):
                coming.unlink()
            raise
        folders.sync(file.parent)

    def _looking(self, name: str) -> Any:
        return _failing(FileUnavailableError, "the file or folder cannot be read", self.path(name))


def is_hidden(name: str) -> bool:
    """Whether Spark's readers pass over a file because of its name, or of that of a folder on the way to it.

    Args:
        name: its path from the folder on that is read.
    """
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in name.split("/"))


# What the JVM raises --------------------------------------------------------------------------------------------------


@contextmanager
def _failing(kind: type[OncelogError], message: str, path: str, **fields: str) -> Iterator[None]:
    """Turn what Java, or this process's own system, raises into an error with the path and one line of reason.

    An interruption goes on as it is: Spark interrupts a query that is stopped, and by its own exception it knows that
    the query has not failed.
    """
    try:
        yield
    except FAILURES as problem:
        said = reason(problem)
        if any(name in said for name in INTERRUPTIONS):
            raise
        raise kind(message, path=path, **fields, reason=said) from None


def reason(problem: BaseException) -> str:
    """What a failed call into Spark's JVM says of itself, without stack traces.

    Args:
        problem: from py4j, or from PySpark.
    """
    thrown = _thrown(problem)
    if thrown is None:
        return " ".join(str(problem).split("\n\n")[0].split()) or type(problem).__name__
    said = str(thrown.getMessage() or "").strip().split("\n")[0]
    name = str(thrown.getClass().getSimpleName())
    return f"{name}: {said}" if said else name


def _thrown(problem: BaseException) -> Any:
    """The Java exception; None if there is none."""
    return getattr(problem, "java_exception", None)


def _kind(problem: BaseException) -> str:
    """The name of the Java exception's class; of Python's otherwise."""
    thrown = _thrown(problem)
    return type(problem).__name__ if thrown is None else str(thrown.getClass().getName())


def _is_missing(problem: BaseException) -> bool:
    return _kind(problem) == _MISSING


# On a local disk, and in threads --------------------------------------------------------------------------------------


def _sync_with_checksums(file: Path) -> None:
    """Sync a file, and the one in which Hadoop keeps checksums of a local file: readers would trust it."""
    for each in (file, file.with_name(f".{file.name}.crc")):
        if each is file or each.exists():
            descriptor = os.open(each, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _at_once(do: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Do it for all items, a few at a time; raises what the first one raises that fails."""
    if len(items) <= 1:
        return [do(item) for item in items]
    with ThreadPoolExecutor(min(THREADS, len(items)), thread_name_prefix="oncelog-files") as pool:
        return list(pool.map(do, items))
