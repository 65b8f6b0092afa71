"""Folders that outlive a power failure, and what users write for them.

A file system keeps a new name for sure once its folder is fsynced.
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
    """Create a folder and those above it, as far as they are missing, durably.

    Raises:
        OSError: it cannot be created.
    """
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
    """A path that the system takes: without NUL, and in characters that it can write.

    Raises:
        UsageError: it is none.
    """
    try:
        if b"\0" not in os.fsencode(path):
            return path
    except UnicodeEncodeError:
        pass
    raise UsageError("no file can have this path", path=path)


def local_path(uri: str | os.PathLike[str]) -> Path:
    """The folder that a user's path or URI names, as other processes find it, which have other working folders.

    Args:
        uri: a path, or ``file:/path`` or ``file:///path``; a relative path counts from the present working folder, and
            ``~`` is the home folder.

    Raises:
        UsageError: not a local path.
    """
    text = os.fspath(uri)
    is_uri = text.startswith("file:")
    if not is_uri:
        _check_is_a_path(text)
    path = Path(usable(_path_of_file_uri(text))) if is_uri else absolute(text)
    if {"*", "?"} & set(str(path)):
        raise UsageError("a log is one folder, and * and ? stand for many names; write the folder's name", path=text)
    if os.path.isfile(path):  # noqa: PTH113 - Path.is_file() fails on a name that is too long
        raise UsageError("a folder is wanted, and this is a file", path=text)
    return path


def absolute(path: str) -> Path:
    """A path from the root, from wherever it was written; ``~`` is the home folder.

    Raises:
        UsageError: it is no path, or there is no such home.
    """
    try:
        return Path(usable(path)).expanduser().absolute()
    except RuntimeError as problem:
        raise UsageError("there is no home folder of this name", path=path, reason=str(problem)) from None


def is_servers(text: str) -> bool:
    """Whether a text is ``host:port``, or several of them, as servers are named."""
    return _SERVERS.fullmatch(text) is not None


def _check_is_a_path(text: str) -> None:
    scheme = _OTHER_SCHEME.match(text)
    if is_servers(text) or (scheme and scheme[1].lower() in _KAFKA_SCHEMES):
        raise UsageError(
            "a log is a folder, and this names a server; Kafka is read and written by oncelog_kafka: "
            'format("oncelog-kafka") with the option kafka.bootstrap.servers',
            path=text,
        )
    if scheme:
        raise UsageError("a log is in a local path, a file: URI, or s3://bucket/folder", scheme=scheme[0])
    if not text:
        raise UsageError("the path of the log is empty", path=text)


def _path_of_file_uri(uri: str) -> str:
    try:
        parts = urlsplit(uri)
    except ValueError as problem:  # brackets that hold no IPv6 address
        raise UsageError("not a file: URI; write file:///path", uri=uri, reason=str(problem)) from None
    if parts.netloc not in ("", "localhost"):
        raise UsageError("a file: URI names a path of this machine; write file:///path", uri=uri, host=parts.netloc)
    if not parts.path.startswith("/") or parts.query or parts.fragment:
        raise UsageError("a file: URI is an absolute path, without query or fragment", uri=uri)
    return unquote(parts.path)
