"""What the file stores share: their errors name the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from oncelog.errors import FileUnavailableError, FileWriteError


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn errors of the file system, except for a missing file, into `FileUnavailableError`."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FileUnavailableError(
            "a file of the log cannot be read or removed; fix the stated reason, and try again",
            file=name,
            reason=error.strerror or str(error),
        ) from error


def write_error(name: str, error: OSError) -> FileWriteError:
    """The error that a writer raises when the file system fails."""
    return FileWriteError(
        "a file of the log could not be written and was discarded; fix the stated reason, and write the data again",
        file=name,
        reason=error.strerror or str(error),
    )
