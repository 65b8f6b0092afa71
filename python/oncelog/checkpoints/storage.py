"""Where the folder of a checkpoint is: on this machine, or in a bucket.

A new folder is a checkpoint only with the file that has the query's id, which comes last. On this machine, one that was
not finished has a name that begins with a dot and ends with ``.partial``; it may be removed. In a bucket no object is
put over another one, so that of two copies to the same folder at most one is finished.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from oncelog import folders
from oncelog.buckets import SCHEME, ObjectPlace
from oncelog.errors import FileUnavailableError, OncelogError, UsageError
from oncelog.folders import absolute
from oncelog.randomness import random_id

if TYPE_CHECKING:
    from oncelog.znodes.replicated.s3 import S3Bucket

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")
_FILE_SCHEME = re.compile("^file:(//[^/]*)?")
"""Spark takes everything after this scheme literally, including spaces and percent signs."""

_SCHEMES_OF_BUCKETS = re.compile("^s3[an]?://")
"""Hadoop's names for its clients of S3 are taken for the bucket itself."""


class NewFolder(Protocol):
    """A checkpoint's folder while it is made."""

    def put(self, name: str, content: bytes | Path) -> None:
        """Make a file with these bytes, or with those of a file of this machine."""

    def keep_access(self, source: Storage) -> None:
        """Give the folder and all in it the modes and owners of the checkpoint that it is copied from."""


class Storage(Protocol):
    """A checkpoint's folder.

    Raises:
        OSError: a file system refuses.
        StoreAccessError: a bucket refuses.
        FileUnavailableError: it does not answer.
    """

    @property
    def location(self) -> str:
        """As people write it."""

    def times(self) -> dict[str, int]:
        """The files by name, like ``offsets/7``, and when each was written, in milliseconds since 1970.

        Spark follows symbolic links, so a link is what it leads to.
        """

    def read(self, names: Sequence[str]) -> list[bytes | None]:
        """What files hold; None for one that does not exist."""

    def contents(self, names: Iterable[str]) -> Iterator[tuple[str, bytes | Path]]:
        """Files to be copied, one by one: the file of this machine, or what an object holds. FileNotFoundError."""

    def is_free(self) -> bool:
        """Whether nothing has this name."""

    def contains(self, other: Storage) -> bool:
        """Whether the other folder is this one, or one in it."""

    def made(self) -> AbstractContextManager[NewFolder]:
        """Make the folder; if that fails, nothing is left.

        Raises:
            UsageError: it exists, perhaps since a moment ago.
        """


def storage_of(location: str) -> Storage:
    """The folder at a path, a ``file:`` URI, or a URL of a bucket, also with a scheme of Hadoop's (``s3a``).

    Raises:
        UsageError: it is neither.
    """
    if _SCHEMES_OF_BUCKETS.match(location):
        return BucketFolder(location)
    if not location.startswith("file:") and (scheme := _SCHEME.match(location)):
        raise UsageError(
            "this command reads checkpoints in folders of this machine and in buckets (s3://, s3a://): copy it to one "
            "with the tools of its store (hdfs dfs -get), while the query is stopped",
            folder=location,
            scheme=scheme[1],
        )
    return LocalFolder(absolute(_FILE_SCHEME.sub("", location) if location.startswith("file:") else location))


def exists_error(target: Storage) -> UsageError:
    """The error for a new folder that is not new."""
    return UsageError("the new checkpoint's folder exists already: name another one", folder=target.location)


class LocalFolder:
    """`Storage` in a file system of this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def location(self) -> str:
        return str(self.root)

    def times(self) -> dict[str, int]:
        found = {}
        for folder, folders_in_it, files in os.walk(self.root, onerror=_raise_unless_gone, followlinks=True):
            for name in folders_in_it:
                _check_no_loop(Path(folder, name))
            for name in files:
                file = Path(folder, name)
                try:
                    found[file.relative_to(self.root).as_posix()] = file.stat().st_mtime_ns // 1_000_000
                except FileNotFoundError:
                    if file.is_symlink():
                        raise
                    # Otherwise the query has removed it since the folder was listed.
        return found

    def read(self, names: Sequence[str]) -> list[bytes | None]:
        return [self._read(name) for name in names]

    def _read(self, name: str) -> bytes | None:
        with suppress(FileNotFoundError):
            return (self.root / name).read_bytes()
        return None

    def contents(self, names: Iterable[str]) -> Iterator[tuple[str, Path]]:
        return ((name, self.root / name) for name in names)

    def is_free(self) -> bool:
        return not os.path.lexists(self.root)

    def contains(self, other: Storage) -> bool:
        return isinstance(other, LocalFolder) and other.root.resolve().is_relative_to(self.root.resolve())

    @contextmanager
    def made(self) -> Iterator[NewFolder]:
        partial = LocalFolder(self.root.with_name(f".{self.root.name}.{random_id()}.partial"))
        try:
            folders.make(partial.root.parent)
            partial.root.mkdir(mode=0o700)  # until it has the modes of the original
            yield partial
            for folder, _, _ in os.walk(partial.root):
                folders.sync(Path(folder))
            if not self.is_free():
                raise exists_error(self)
            try:
                partial.root.rename(self.root)
            except OSError:
                if self.is_free():
                    raise
                raise exists_error(self) from None  # another one was faster
            folders.sync(self.root.parent)
        finally:
            shutil.rmtree(partial.root, ignore_errors=True)

    def put(self, name: str, content: bytes | Path) -> None:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            shutil.copy2(content, file)
        else:
            file.write_bytes(content)
        with file.open("rb") as opened:
            os.fsync(opened.fileno())

    def keep_access(self, source: Storage) -> None:
        if not isinstance(source, LocalFolder):
            return
        for folder, _, files in os.walk(self.root):
            for copy in (Path(folder), *(Path(folder, name) for name in files)):
                with suppress(FileNotFoundError):  # the original has no such file
                    _keep_access(source.root / copy.relative_to(self.root), copy)


class BucketFolder:
    """`Storage` in a bucket, where a file is an object. A copy of an object passes through this process's memory."""

    def __init__(self, url: str) -> None:
        self.location = url
        self._place = ObjectPlace.parse(_SCHEMES_OF_BUCKETS.sub(SCHEME, url))

    def times(self) -> dict[str, int]:
        with self._opened() as bucket:
            return {name: written_ms for name, written_ms in bucket.names("") if not name.endswith("/")}

    def read(self, names: Sequence[str]) -> list[bytes | None]:
        with self._opened() as bucket:
            return list(bucket.get(names))

    def contents(self, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        with self._opened() as bucket:
            for name in names:
                (found,) = bucket.get([name])  # one at a time: each may be large
                if found is None:
                    raise FileNotFoundError(name)
                yield name, found

    def is_free(self) -> bool:
        with self._opened() as bucket:
            return next(bucket.names(""), None) is None

    def contains(self, other: Storage) -> bool:
        if not isinstance(other, BucketFolder) or other._place.endpoint != self._place.endpoint:
            return False
        return f"{other._place.folder}/".startswith(f"{self._place.folder}/")

    @contextmanager
    def made(self) -> Iterator[NewFolder]:
        with self._opened() as bucket:
            new = _NewObjects(self, bucket)
            try:
                yield new
            except BaseException:
                with suppress(OncelogError):
                    bucket.delete(new.names)
                raise

    @contextmanager
    def _opened(self) -> Iterator[S3Bucket]:
        from oncelog.znodes.replicated.objects import NoAnswerError
        from oncelog.znodes.replicated.s3 import S3Bucket

        bucket = S3Bucket(self._place)
        try:
            yield bucket
        except NoAnswerError as problem:
            raise FileUnavailableError(
                "the bucket of the checkpoint does not answer", folder=self.location, **problem.fields
            ) from problem
        finally:
            bucket.close()


class _NewObjects:
    """`NewFolder` in a bucket."""

    def __init__(self, folder: BucketFolder, bucket: S3Bucket) -> None:
        self._folder = folder
        self._bucket = bucket
        self.names: list[str] = []

    def put(self, name: str, content: bytes | Path) -> None:
        data = content.read_bytes() if isinstance(content, Path) else content
        if not self._bucket.put_new(name, data):
            raise exists_error(self._folder)
        self.names.append(name)

    def keep_access(self, source: Storage) -> None:
        """Nothing to do: the rights to objects are those of the bucket."""


def _check_no_loop(folder: Path) -> None:
    """Refuse a link to a folder above itself: a walk would never end."""
    if folder.is_symlink() and folder.parent.resolve().is_relative_to(folder.resolve()):
        raise OSError(errno.ELOOP, "this link leads to a folder above itself", str(folder))


def _keep_access(original: Path, copy: Path) -> None:
    found = original.stat()
    with suppress(PermissionError):  # only root gives files away
        os.chown(copy, found.st_uid, found.st_gid)
    copy.chmod(stat.S_IMODE(found.st_mode))


def _raise_unless_gone(problem: OSError) -> None:
    if not isinstance(problem, FileNotFoundError):
        raise problem
