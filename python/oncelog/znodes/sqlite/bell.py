"""How a process hears at once that another one has committed: who commits touches the store's file (its mtime).

Linux reports that to every process of the host that watches the file (inotify), in some tens of microseconds. A watch
belongs to its process, so nothing is left of one that was killed, and who commits pays one system call, however many
wait. The writes to the write-ahead log would come too early: SQLite shows a commit only once they are on the disk.

A touch may be missed: who commits was killed right before it, or may not touch the file; the system is not Linux, or
its user has too many watches (fs.inotify.max_user_instances). So who waits also looks every limits.LOOK_MS.
"""

from __future__ import annotations

import ctypes
import os
import select
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

_LIBC: Final = ctypes.CDLL(None)

_IN_ATTRIB: Final = 4
"""The event for a file whose mtime was set (inotify(7))."""

_EVENTS_BYTES: Final = 4096
"""Room for the events that are read at once: equal ones are reported as one."""


def ring(path: Path) -> None:
    """Wake all who wait at the file. It is never opened: closing it would drop SQLite's locks."""
    with suppress(OSError):
        os.utime(path)


class Bell:
    """Hears when the file is touched. For one thread at a time, and only for the process that made it.

    Args:
        path: of the file.

    Attributes:
        is_deaf: whether it hears nothing, and only lets the time pass.
    """

    def __init__(self, path: Path) -> None:
        self._pid = os.getpid()
        self._descriptor = _watch_for_touches(path)
        self.is_deaf = self._descriptor is None

    @property
    def is_inherited(self) -> bool:
        """Whether a parent made it. What a child reads from it, the parent would miss."""
        return self._pid != os.getpid()

    def wait(self, timeout_ms: int) -> None:
        """Return once the file was touched since the last call returned, or when the time is up."""
        if self._descriptor is None:
            time.sleep(timeout_ms / 1000)
            return
        touches = select.poll()
        touches.register(self._descriptor, select.POLLIN)
        if touches.poll(timeout_ms):
            os.read(self._descriptor, _EVENTS_BYTES)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self.close()


class Bells:
    """The bells of one store in this process, each lent to one thread at a time.

    They are kept, because the system takes milliseconds to end one. A list of idle ones needs no lock, since taking
    from it and adding to it are each one call.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: list[Bell] = []
        self._is_closed = False

    def take(self) -> Bell:
        while True:
            try:
                bell = self._idle.pop()
            except IndexError:
                return Bell(self._path)
            if not bell.is_inherited:
                return bell
            bell.close()

    def take_back(self, bell: Bell) -> None:
        if bell.is_deaf:  # the next one may hear
            bell.close()
        else:
            self._idle.append(bell)
        if self._is_closed:
            self.close()

    def close(self) -> None:
        """Close idle bells now, and lent ones when they come back."""
        self._is_closed = True
        while self._idle:
            with suppress(IndexError):  # another thread was faster
                self._idle.pop().close()


def _watch_for_touches(path: Path) -> int | None:
    """The descriptor of a new inotify instance, which has an event for each touch; None if there is none to be had."""
    if not hasattr(_LIBC, "inotify_init1"):
        return None
    descriptor: int = _LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if descriptor < 0:
        return None
    if _LIBC.inotify_add_watch(descriptor, os.fsencode(path), _IN_ATTRIB) < 0:
        os.close(descriptor)
        return None
    return descriptor
