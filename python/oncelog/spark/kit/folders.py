"""Folders as options name them, and the ledger that is in such a folder by default."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from oncelog.errors import InvalidOptionError
from oncelog.spark.kit import staged_names

_PATTERN: Final = re.compile(r"[*?\[\]{}]")
_CREDENTIALS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*@")
_LOCAL: Final = re.compile("^file:(//[^/]*)?(?=/)")
_SCHEME: Final = re.compile("[A-Za-z][A-Za-z0-9+.-]*:")


def check_folder(option: str, path: str) -> str:
    """A folder's path or URI, without the spaces around it.

    Args:
        option: that gave it, for the error.

    Raises:
        InvalidOptionError: it is empty, a pattern, or contains credentials; the error does not repeat these.
    """
    if _CREDENTIALS.match(path.strip()):
        raise InvalidOptionError(
            "a path must not contain credentials; give them to Spark, such as fs.s3a.access.key in its Hadoop "
            "settings, or by the environment",
            option=option,
        )
    if not path.strip() or "\0" in path or _PATTERN.search(path):
        raise InvalidOptionError(
            "the option's value is malformed", option=option, value=path, expected="a folder, without * ? [ ] { }"
        )
    return path.strip()


def ledger_inside(path: str, *, is_local: bool) -> str:
    """The place of a ledger in the folder itself.

    Args:
        path: of the folder.
        is_local: whether Spark takes it for one on a local disk.

    Raises:
        InvalidOptionError: it is not on a local disk.
    """
    local = _LOCAL.sub("", path)
    if not is_local or _SCHEME.match(local):
        raise InvalidOptionError(
            "the folder is not on a local disk, so the ledger cannot be in it; name its place with znodes: a folder or "
            "sqlite:/a/file if one host runs the query's driver, postgresql://user@host:port/database, "
            "zk://host:port,.../chroot, or s3://bucket/folder",
            missing="znodes",
            path=path,
        )
    return str(Path(local, staged_names.LEDGER).absolute())
