"""A disk that is full, for Python processes of the soak where none can be mounted: while a file exists, fsync fails."""

import errno
import os
from typing import Any

_FLAG = os.environ.get("ONCELOG_SOAK_FULL")

if _FLAG is not None:
    _fsync, _path = os.fsync, _FLAG

    def _failing(fd: Any) -> None:
        if os.path.exists(_path):  # noqa: PTH110 - every Python process runs this: it imports as little as it can
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        _fsync(fd)

    os.fsync = _failing
