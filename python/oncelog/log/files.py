"""Immutable files on a local file system: `ports.FileStore` for a folder, and the function that opens a URI.

Owns durability and the listing of folders; knows nothing of the files' contents. `object_files` is the same port for
object stores.

Crash points of one file:
  1  created, or partly written    a crash leaves an orphan that no znode names; collection removes it
  2  its bytes are fsynced         the same, since its folder may not list it yet
  3  its folder is fsynced         `finish` returns; only now may a znode name the file (invariant I12)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path

from oncelog import folders
from oncelog.buckets import SCHEME as OBJECT_SCHEME
from oncelog.buckets import ObjectPlace
from oncelog.errors import ensure
from oncelog.folders import local_path, parts_of
from oncelog.log.file_rules import reading, write_error
from oncelog.log.object_files import ObjectFileStore
from oncelog.ports import FileStore


def file_store(uri: str | os.PathLike[str]) -> FileStore:
    """The file store for a user's path or URI: an object store for ``s3://bucket/folder``, else a local folder.

    Raises:
        UsageError: the URI is neither.
    """
    return ObjectFileStore(os.fspath(uri)) if is_object_store(uri) else LocalFileStore(local_path(uri))


def is_object_store(uri: str | os.PathLike[str]) -> bool:
    """Whether the URI names a bucket."""
    return os.fspath(uri).startswith(OBJECT_SCHEME)


def absolute(uri: str | os.PathLike[str]) -> str:
    """A user's path or URI in a form that does not depend on the working folder.

    Raises:
        UsageError: this is neither a bucket nor a local path.
    """
    return ObjectPlace.parse(os.fspath(uri)).url if is_object_store(uri) else str(local_path(uri))


class LocalFileStore:
    """Files below one folder, which is created with the first file. Picklable: the folder's path is absolute."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = Path(root).absolute()
        self._durable_folders: dict[Sequence[str], Path] = {}

    def __reduce__(self) -> tuple[type[LocalFileStore], tuple[str]]:
        return LocalFileStore, (str(self._root),)

    def __repr__(self) -> str:
        return f"LocalFileStore({str(self._root)!r})"

    def create(self, name: str) -> LocalOutputFile:
        """Create a new file, and the folders above it.

        Raises:
            FileWriteError: the file cannot be created, or it exists.
            UsageError: this is not the name of a file below the root.
        """
        *above, own_name = parts_of(name)
        try:
            return LocalOutputFile(name, self._made_folder(tuple(above)) / own_name)
        except OSError as error:
            raise write_error(name, error) from error

    def read(self, name: str, position: int, length: int) -> bytes:
        """Bytes ``[position, position + length)`` of the file; fewer at its end.

        Raises:
            FileNotFoundError: the file does not exist.
            FileUnavailableError: it cannot be read.
        """
        ensure(position >= 0 and length >= 0, "a range of bytes is not negative", position=position, length=length)
        with reading(name), FileIO(self._path(name)) as file:
            # The length may come from a damaged index: never allocate more than the file has.
            present = min(length, max(os.fstat(file.fileno()).st_size - position, 0))
            return _read_range(file.fileno(), position, present)

    def size(self, name: str) -> int:
        """The file's size in bytes.

        Raises:
            FileNotFoundError: the file does not exist.
            FileUnavailableError: the file system cannot tell.
        """
        with reading(name):
            return self._path(name).stat().st_size

    def names(self, folder: str) -> Iterator[tuple[str, int, int]]:
        """(name, size, mtime_ms) of each file below `folder`, ordered by name; none if the folder does not exist.

        Raises:
            FileUnavailableError: a folder cannot be listed.
        """
        for path in self._walk(self._path(folder)):
            with suppress(FileNotFoundError):  # removed since it was listed
                stat = path.stat()
                yield path.relative_to(self._root).as_posix(), stat.st_size, stat.st_mtime_ns // 1_000_000

    def delete(self, name: str) -> None:
        """Remove a file; no error if it is gone.

        Raises:
            FileUnavailableError: it exists and cannot be removed.
        """
        with reading(name):
            self._path(name).unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._root.joinpath(*parts_of(name))

    def _made_folder(self, parts: Sequence[str]) -> Path:
        """The folder with this name below the root, which is created durably.

        Another process may have just created it, and not fsynced it yet. So below the root, existing folders are
        fsynced too, once per store object. The folders above an existing root are older than the log.
        """
        made = self._durable_folders.get(parts)
        if made is not None:
            return made
        if parts:
            parent = self._made_folder(parts[:-1])
            folder = parent / parts[-1]
            folder.mkdir(exist_ok=True)
            folders.sync(parent)
        else:
            folder = self._root
            folders.make(folder)
        self._durable_folders[parts] = folder
        return folder

    def _walk(self, folder: Path) -> Iterator[Path]:
        try:
            with reading(folder.relative_to(self._root).as_posix()), os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except FileNotFoundError:
            return
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(Path(entry.path))
            else:
                yield Path(entry.path)


class LocalOutputFile:
    """A new local file (`ports.OutputFile`). Any failure removes it."""

    def __init__(self, name: str, path: Path) -> None:
        self._name = name
        self._path = path
        self._position = 0
        # Unbuffered: blocks are large, and an error must come from the write that caused it.
        self._file = FileIO(path, "x")

    @property
    def position(self) -> int:
        """Bytes written so far."""
        return self._position

    def write(self, data: bytes | memoryview) -> None:
        """Append `data`.

        Raises:
            FileWriteError: it could not be written; the file is gone.
        """
        ensure(not self._file.closed, "a finished or discarded file is not written to", file=self._name)
        rest = memoryview(data).cast("B")
        try:
            while rest:
                written = self._file.write(rest)
                self._position += written
                rest = rest[written:]
        except OSError as error:
            self.discard()
            raise write_error(self._name, error) from error

    def finish(self) -> None:
        """Make the file durable.

        Raises:
            FileWriteError: the file system did not confirm it; the file is gone.
        """
        ensure(not self._file.closed, "a file is finished once", file=self._name)
        try:
            os.fsync(self._file.fileno())
            self._file.close()
            folders.sync(self._path.parent)
        except OSError as error:
            # After a failed fsync the state of the bytes is unknown, and a second fsync would not report it.
            self.discard()
            raise write_error(self._name, error) from error

    def discard(self) -> None:
        """Close and remove the file. If it cannot be removed, it is an orphan, and collection removes it."""
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self._path.unlink()


def _read_range(descriptor: int, position: int, length: int) -> bytes:
    data = os.pread(descriptor, length, position)
    while len(data) < length:  # pread may return less, as for more than 2 GiB or on network file systems
        more = os.pread(descriptor, length - len(data), position + len(data))
        if not more:
            break
        data += more
    return data
