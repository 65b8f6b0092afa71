"""Immutable objects in a bucket: `ports.FileStore` for S3 and stores with the same protocol, through pyarrow.

Owns uploads, and the clients of this process; knows nothing of the objects' contents. Objects are
never renamed or appended to, and only collection lists them. pyarrow gets no credentials: its SDK finds them in each
process (environment, profile, role of the machine), so that no URL, pickled task or checkpoint contains any.

An object's bytes are kept on this machine, in memory and then in an unnamed temporary file, until `finish` sends them
in one put, or in parts that the store joins at the end. Hence an object exists completely or not at all, and a writer
that is discarded or killed before `finish` leaves nothing in the bucket.

Crash points of one object:
  1  before `finish`          leaves nothing
  2  within `finish`          leaves nothing that is listed; parts stay until the bucket's own rule removes them
  3  the store acknowledged   `finish` returns; only now may a znode name the object (invariant I12). A crash before
                              that leaves an orphan, which collection removes
"""

from __future__ import annotations

import atexit
import os
import shutil
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from tempfile import SpooledTemporaryFile
from typing import Any

import pyarrow as pa

from oncelog import limits
from oncelog.buckets import ObjectPlace
from oncelog.errors import FileUnavailableError, UsageError, ensure
from oncelog.folders import parts_of
from oncelog.log.file_rules import reading, write_error

_COPY_BYTES = 1024 * 1024
_NO_ANSWER = "NETWORK_CONNECTION"
"""The SDK's name for this error. Used only to save time: another request to a store that does not answer takes as long
again."""


# Clients --------------------------------------------------------------------------------------------------------------


class _Client:
    """pyarrow's client of one place, and the objects that it opened recently.

    An open object is not a connection. It knows the object's size, which never changes and costs a request, so the next
    block of the same object saves that request.
    """

    def __init__(self, place: ObjectPlace) -> None:
        self.system = _file_system(place)
        self._open: OrderedDict[str, Any] = OrderedDict()

    def open(self, path: str) -> Any:
        """The object as a file with random access. Raises FileNotFoundError."""
        file = self._open.get(path)
        if file is None:
            file = self._open[path] = self.system.open_input_file(path)
            while len(self._open) > limits.OPEN_OBJECTS:
                self._open.popitem(last=False)
        return file

    def forget(self, path: str) -> None:
        self._open.pop(path, None)


_clients: dict[tuple[int, ObjectPlace], _Client] = {}


def _client(place: ObjectPlace) -> _Client:
    """This process's client of `place`.

    A client does not survive a fork. A child makes its own. It must neither use nor drop the one that it inherited:
    dropping would close the parent's connections.
    """
    key = (os.getpid(), place)
    if key not in _clients:
        _clients[key] = _Client(place)
    return _clients[key]


def _file_system(place: ObjectPlace) -> Any:
    from pyarrow import fs  # loads the SDK, so only when it is used

    if not _clients:
        atexit.register(_drop_clients)  # before pyarrow shuts down its SDK at exit, which would wait for the clients
    scheme, _, host = (place.endpoint or "https://").partition("://")
    settings: dict[str, Any] = {
        "scheme": scheme,
        "endpoint_override": host or None,
        "region": place.region,
        "connect_timeout": place.timeout_ms / 1000,
        "request_timeout": place.timeout_ms / 1000,
        "retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=limits.OBJECT_STORE_ATTEMPTS),
    }
    if int(pa.__version__.partition(".")[0]) >= 21:
        settings["allow_delayed_open"] = True  # a small object takes one request instead of three
        settings["tls_ca_file_path"] = place.tls_ca
    elif place.tls_ca is not None:
        raise UsageError("tls_ca needs pyarrow 21 or newer", pyarrow=pa.__version__)
    return fs.S3FileSystem(**settings)


def _drop_clients() -> None:
    for key in list(_clients):
        if key[0] == os.getpid():
            del _clients[key]


# Files ----------------------------------------------------------------------------------------------------------------


class ObjectFileStore:
    """Objects below one prefix of a bucket, which must exist. Picklable: its state is only the URL."""

    def __init__(self, url: str) -> None:
        self._place = ObjectPlace.parse(url)

    def __reduce__(self) -> tuple[type[ObjectFileStore], tuple[str]]:
        return ObjectFileStore, (self._place.url,)

    def __repr__(self) -> str:
        return f"ObjectFileStore({self._place.url!r})"

    def create(self, name: str) -> ObjectOutputFile:
        """Begin an object. It does not check whether the object exists, because names are random.

        Raises:
            UsageError: this is not a name below the root.
        """
        return ObjectOutputFile(name, self._path(name), self._place)

    def read(self, name: str, position: int, length: int) -> bytes:
        """Bytes ``[position, position + length)`` of the object; fewer at its end.

        Raises:
            FileNotFoundError: the object does not exist.
            FileUnavailableError: it cannot be read: no answer, no access, no bucket.
        """
        ensure(position >= 0 and length >= 0, "a range of bytes is not negative", position=position, length=length)
        path = self._path(name)
        with reading(name):
            file = self._open(path)
            # The length may come from a damaged index: never allocate more than the object has. And if pyarrow is asked
            # for more than the store sends, it fills the rest with whatever is in memory. So the size must be known.
            present = min(length, max(file.size() - position, 0))
            try:
                data: bytes = file.read_at(present, position) if present else b""
            except OSError as error:
                _client(self._place).forget(path)
                if _NO_ANSWER not in str(error):
                    self._open(path)  # raises if the object was removed after it was opened
                raise
        return data

    def size(self, name: str) -> int:
        """The object's size in bytes.

        Raises:
            FileNotFoundError: the object does not exist.
            FileUnavailableError: the store cannot tell.
        """
        path = self._path(name)
        with reading(name):
            _client(self._place).forget(path)
            size: int = self._open(path).size()
        return size

    def names(self, folder: str) -> Iterator[tuple[str, int, int]]:
        """(name, size, mtime_ms) of each object below `folder`, ordered by name.

        Raises:
            FileUnavailableError: the bucket cannot be listed.
        """
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self._path(folder), recursive=True, allow_not_found=True)
        with reading(folder):
            found = _client(self._place).system.get_file_info(selector)
            if not found:
                self._check_bucket()
        for info in sorted(found, key=lambda info: str(info.path)):
            if info.type is FileType.File:
                yield info.path.removeprefix(f"{self._place.folder}/"), info.size, info.mtime_ns // 1_000_000

    def delete(self, name: str) -> None:
        """Remove an object; no error if it is gone.

        Raises:
            FileUnavailableError: the object may exist, and cannot be removed.
        """
        path = self._path(name)
        _client(self._place).forget(path)
        with reading(name), suppress(FileNotFoundError):
            _client(self._place).system.delete_file(path)

    def _path(self, name: str) -> str:
        return "/".join([self._place.folder, *parts_of(name)])

    def _open(self, path: str) -> Any:
        try:
            return _client(self._place).open(path)
        except FileNotFoundError:
            self._check_bucket()
            raise

    def _check_bucket(self) -> None:
        """Raise if the bucket does not exist: that is a mistake in the URL, but a missing object is lost data."""
        from pyarrow.fs import FileType

        if _client(self._place).system.get_file_info(self._place.bucket).type is FileType.NotFound:
            raise FileUnavailableError(
                "there is no such bucket; check the path of the log, its endpoint and its region", url=self._place.url
            )


class ObjectOutputFile:
    """A new object (`ports.OutputFile`): nothing is in the bucket before `finish`."""

    def __init__(self, name: str, path: str, place: ObjectPlace) -> None:
        self._name = name
        self._path = path
        self._place = place
        self._position = 0
        self._is_sent = False
        self._waiting = SpooledTemporaryFile(max_size=limits.OBJECT_BUFFER_BYTES)  # noqa: SIM115 - closed by finish

    @property
    def position(self) -> int:
        """Bytes written so far."""
        return self._position

    def write(self, data: bytes | memoryview) -> None:
        """Append `data`.

        Raises:
            FileWriteError: the temporary file could not be written; the object is discarded.
        """
        ensure(not self._waiting.closed, "a finished or discarded file is not written to", file=self._name)
        try:
            self._waiting.write(data)
        except OSError as error:
            self.discard()
            raise write_error(self._name, error) from error
        self._position += memoryview(data).nbytes

    def finish(self) -> None:
        """Send the object; returns after the store has acknowledged it.

        Raises:
            FileWriteError: the store did not acknowledge it; the object is discarded.
        """
        ensure(not self._waiting.closed, "a file is finished once", file=self._name)
        try:
            self._send()
        except OSError as error:
            self.discard()
            raise write_error(self._name, error) from error
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Discard the object; remove it if it was sent. If that fails, it is an orphan, and collection removes it."""
        self._waiting.close()
        if self._is_sent:
            client = _client(self._place)
            client.forget(self._path)
            with suppress(OSError):
                client.system.delete_file(self._path)

    def _send(self) -> None:
        client = _client(self._place)
        client.forget(self._path)
        self._waiting.seek(0)
        # Set first: even a failed upload may have arrived, and a stream closed by an exception sends what it has.
        self._is_sent = True
        with client.system.open_output_stream(self._path) as output:
            shutil.copyfileobj(self._waiting, output, _COPY_BYTES)
        self._waiting.close()
