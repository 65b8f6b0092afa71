"""Files of saved rows: those of one transaction in one partition, which a repair saves before it ends the transaction.

A file is Avro. Its header says which transaction it was, and has a digest of the file, so one that was torn or changed
is refused. A file gets its name once it is whole and durable. What a killed repair leaves behind is removed by the next
one that saves to the folder.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO, Any, cast

import fastavro

from oncelog import folders
from oncelog.crash_points import reach
from oncelog.errors import FileUnavailableError, FileWriteError, UsageError
from oncelog_kafka.brokers.producers import Row
from oncelog_kafka.crash_points import RepairCrashPoint

ROWS_SCHEMA = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "offset", "type": "long"},
        {"name": "timestamp_ms", "type": "long"},
        {"name": "key", "type": ["null", "bytes"]},
        {"name": "value", "type": ["null", "bytes"]},
        {
            "name": "headers",
            "type": {
                "type": "array",
                "items": {
                    "type": "record",
                    "name": "Header",
                    "fields": [{"name": "key", "type": "string"}, {"name": "value", "type": ["null", "bytes"]}],
                },
            },
        },
    ],
}
"""Avro schema of a file of saved rows."""

_ORIGIN, _DIGEST = "oncelog.origin", "oncelog.sha256"
"""Keys of the header."""

_NO_DIGEST = "0" * 64
"""Stands in the place of the digest while the digest is made."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The transaction whose rows a file has, and its partition.

    Attributes:
        topic_id: as Kafka's own tools write it; a topic that was created again has another one.
        saved_ms: when, by the clock of the machine that saved them.
    """

    cluster_id: str
    topic: str
    topic_id: str
    partition: int
    start_offset: int
    producer_id: int
    epoch: int
    saved_ms: int

    @property
    def place(self) -> tuple[str, int]:
        return self.topic, self.partition


@dataclass(frozen=True, slots=True)
class SavedRows:
    """A file that is whole.

    Attributes:
        digest: of the file.
    """

    path: Path
    origin: Origin
    digest: str

    def rows(self) -> Iterator[Row]:
        """The rows."""
        with self.path.open("rb") as file:
            for one in cast("Iterator[dict[str, Any]]", fastavro.reader(file)):
                headers = [(header["key"], header["value"]) for header in one.pop("headers")]
                yield Row(self.origin.producer_id, self.origin.epoch, headers=headers, **one)


# Saving ---------------------------------------------------------------------------------------------------------------


def save(path: Path, origin: Origin, rows: Iterable[Row]) -> int:
    """Save rows durably. A file of an earlier run is replaced.

    Returns:
        How many they are.

    Raises:
        FileWriteError: they could not be saved.
    """
    count = 0

    def counted() -> Iterator[dict[str, Any]]:
        nonlocal count
        for count, row in enumerate(rows, start=1):  # noqa: B007 - it is what is returned
            yield _avro(row)

    try:
        folders.make(path.parent)
        sweep(path.parent)
        with _becoming(path) as file:
            header = {_ORIGIN: json.dumps(asdict(origin)), _DIGEST: _NO_DIGEST}
            fastavro.writer(file, ROWS_SCHEMA, counted(), codec="deflate", metadata=header)
            file.flush()
            _write_digest(file)
            os.fsync(file.fileno())
            reach(RepairCrashPoint.SAVE)
        folders.sync(path.parent)
    except OSError as error:
        raise FileWriteError(
            "the rows could not be saved, and nothing was repaired; fix the stated reason, and try again",
            file=str(path),
            reason=error.strerror or str(error),
        ) from error
    return count


@contextmanager
def _becoming(path: Path) -> Iterator[IO[bytes]]:
    """A file that gets this name if the block succeeds, and is removed if it does not."""
    with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", suffix=_TEMPORARY, delete=False) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield cast("IO[bytes]", file)
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


_TEMPORARY = ".tmp"


def sweep(folder: Path) -> None:
    """Remove what killed repairs left behind: temporary files that nobody holds a lock on.

    A repair that has just made one, and not locked it yet, fails and saves again; nothing was repaired by then.
    """
    for path in folder.glob(f".*.avro.*{_TEMPORARY}"):
        with suppress(OSError), path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def _avro(row: Row) -> dict[str, Any]:
    headers = [{"key": key, "value": value} for key, value in row.headers]
    return {**row._asdict(), "headers": headers}


def _write_digest(file: IO[bytes]) -> None:
    digest, at = _digest(file, _NO_DIGEST)
    file.seek(at)
    file.write(digest.encode())
    file.flush()


# Reading --------------------------------------------------------------------------------------------------------------


def load(path: Path) -> SavedRows:
    """A file of saved rows, which is read to its end.

    Raises:
        UsageError: it was torn or changed, or is another file.
        FileUnavailableError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return _loaded(path, file)
    except OSError as error:
        raise FileUnavailableError(
            "the file of saved rows cannot be read", file=str(path), reason=error.strerror or str(error)
        ) from error


def _loaded(path: Path, file: IO[bytes]) -> SavedRows:
    try:
        header = fastavro.reader(file).metadata
        found = SavedRows(path, Origin(**json.loads(header[_ORIGIN])), header[_DIGEST])
        digest, _ = _digest(file, found.digest)
    except OSError:
        raise
    except Exception as problem:  # of many kinds: the header of another file may say anything
        raise UsageError("not a file that a repair saved", file=str(path)) from problem
    if digest != found.digest:
        raise UsageError("the file of saved rows was torn or changed, so nothing was written", file=str(path))
    return found


def _digest(file: IO[bytes], stands_there: str) -> tuple[str, int]:
    """What the digest of a file must be, and where it stands in the file.

    Args:
        stands_there: instead of it now.
    """
    file.seek(0)
    start = file.read(_HEADER_BYTES)
    at = start.index(stands_there.encode())
    found = sha256(start.replace(stands_there.encode(), _NO_DIGEST.encode(), 1))
    while block := file.read(1 << 20):
        found.update(block)
    return found.hexdigest(), at


_HEADER_BYTES = 1 << 16
"""More than any header has."""
