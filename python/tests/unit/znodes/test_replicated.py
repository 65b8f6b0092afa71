"""The znode store on a command log, by its contract; the log here is one of the memory, or a file."""

from __future__ import annotations

import fcntl
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from oncelog.ports import Timing, ZnodeStore
from oncelog.testing.znode_store_contract import (
    AtomicReadsContract,
    ManyProcessesContract,
    StoreWorld,
    ZnodeStoreContract,
)
from oncelog.znodes.clock import wall_ms
from oncelog.znodes.replicated.port import Entry
from oncelog.znodes.replicated.store import ReplicatedZnodeStore

HEADER = struct.Struct(">QI")


class FileLog:
    """A command log in a file: entries one after the other, each appended under a lock."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("a+b")

    def read(self, after: int) -> Sequence[Entry]:
        with self._locked():
            return list(self._entries(after))

    def append(self, body: bytes) -> None:
        with self._locked():
            self._file.write(HEADER.pack(wall_ms(), len(body)) + body)
            self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _entries(self, after: int) -> Iterator[Entry]:
        self._file.seek(0 if after < 0 else after)
        if after >= 0:
            self._next()
        while (position := self._file.tell()) < self._end():
            time_ms, body = self._next()
            yield Entry(position, time_ms, body)

    def _next(self) -> tuple[int, bytes]:
        time_ms, length = HEADER.unpack(self._file.read(HEADER.size))
        return time_ms, self._file.read(length)

    def _end(self) -> int:
        return Path(self._file.name).stat().st_size

    @contextmanager
    def _locked(self) -> Iterator[None]:
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)


class FileLogWorld(StoreWorld):
    def open(self, timing: Timing) -> ZnodeStore:
        return ReplicatedZnodeStore(partial(FileLog, self.folder / "log"), timing)


class TestReplicatedStore(ZnodeStoreContract, AtomicReadsContract, ManyProcessesContract):
    world_class = FileLogWorld
