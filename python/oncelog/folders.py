"""Local folders: parses the paths and URIs that users write, and creates folders that survive a power failure.

A new name in a folder is durable only after the folder itself is fsynced.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from oncelog.errors import UsageError

_OTHER_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+._-]*):/")  # pathlib makes one slash out of two
_KAFKA_SCHEMES = {"kafka", "plaintext", "ssl", "sasl_plaintext", "sasl_ssl"}
_SERVER = r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{2,5}"
_SERVERS = re.compile(f"{_SERVER}(?:,{_SERVER})*")


def make(folder: Path) -> None:
    """Create a folder and its missing parents, durably."""
    if not folder.is_dir():
        make(folder.parent)
        folder.mkdir(exist_ok=True)
        sync(folder.parent)


def sync(folder: Path) -> None:
    """Make the names in a folder durable.

    Raises:
        OSError: the file system does not confirm it.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def usable(path: str) -> str:
    """Return `path` if the operating system accepts it: without NUL, and encodable.

    Raises:
        UsageError: the path cannot be used.
    """
    try:
        if b"\0" not in os.fsencode(path):
            return path
    except UnicodeEncodeError:
        pass
    raise UsageError("no file can have this path", path=path)


def local_path(uri: str | os.PathLike[str]) -> Path:
    """The absolute path of the folder that a user's path or URI names.

    Args:
        uri: a path, or ``file:/path`` or ``file:///path``. A relative path is relative to the working folder, and
            ``~`` is the home folder.

    Raises:
        UsageError: `uri` is not the path of a local folder.
    """
    text = os.fspath(uri)
    is_uri = text.startswith("file:")
    if not is_uri:
        _check_is_a_path(text)
    path = Path(usable(_path_of_file_uri(text))) if is_uri else absolute(text)
    if {"*", "?"} & set(str(path)):
        raise UsageError("a log is one folder, so * and ? are not allowed in its path", path=text)
    if os.path.isfile(path):  # noqa: PTH113 - Path.is_file() fails on a name that is too long
        raise UsageError("the path of a log must be a folder, and this is a file", path=text)
    return path


def absolute(path: str) -> Path:
    """The absolute path; ``~`` is the home folder.

    Raises:
        UsageError: the path cannot be used, or there is no such home folder.
    """
    try:
        return Path(usable(path)).expanduser().absolute()
    except RuntimeError as problem:
        raise UsageError("this user has no home folder", path=path, reason=str(problem)) from None


def is_servers(text: str) -> bool:
    """Whether `text` is ``host:port``, or a list of them separated by commas."""
    return _SERVERS.fullmatch(text) is not None


def _check_is_a_path(text: str) -> None:
    scheme = _OTHER_SCHEME.match(text)
    if is_servers(text) or (scheme and scheme[1].lower() in _KAFKA_SCHEMES):
        raise UsageError(
            "a log is a folder, and this names a server; to read or write Kafka use oncelog_kafka: "
            'format("oncelog-kafka") with the option kafka.bootstrap.servers',
            path=text,
        )
    if scheme:
        raise UsageError("the path of a log is a local path, a file: URI, or s3://bucket/folder", scheme=scheme[0])
    if not text:
        raise UsageError("the path of the log is empty", path=text)


def _path_of_file_uri(uri: str) -> str:
    try:
        parts = urlsplit(uri)
    except ValueError as problem:  # brackets without an IPv6 address
        raise UsageError("not a file: URI; write file:///path", uri=uri, reason=str(problem)) from None
    if parts.netloc not in ("", "localhost"):
        raise UsageError("a file: URI names a path of this machine; write file:///path", uri=uri, host=parts.netloc)
    if not parts.path.startswith("/") or parts.query or parts.fragment:
        raise UsageError("a file: URI is an absolute path, without query or fragment", uri=uri)
    return unquote(parts.path)


def parts_of(name: str) -> list[str]:
    """The parts of a file's name.

    Raises:
        UsageError: this is not the name of a file below the root.
    """
    parts = name.split("/")
    if "\0" in name or any(part in ("", ".", "..") for part in parts):
        raise UsageError("not the name of a file below the log's root", name=name)
    return parts
