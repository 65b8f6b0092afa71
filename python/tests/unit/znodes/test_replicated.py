"""The znode store on a command log, by its contract; the log here is one of the memory, or a file."""

from __future__ import annotations

import fcntl
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from oncelog.ports import Timing, ZnodeStore
from oncelog.testing.znode_store_contract import (
    AtomicReadsContract,
    ManyProcessesContract,
    StoreWorld,
    ZnodeStoreContract,
)
from oncelog.znodes.clock import wall_ms
from oncelog.znodes.replicated import snapshot, store
from oncelog.znodes.replicated.port import BEGINNING, Entry, TrimmedError
from oncelog.znodes.replicated.store import ReplicatedZnodeStore

HEADER = struct.Struct(">QI")


class FileLog:
    """A command log in a file: entries one after the other, each appended under a lock."""

    foreign = 0

    def __init__(self, file: Path) -> None:
        self._file = file.open("a+b")
        self._trimmed = file.with_suffix(".trimmed")

    def start(self) -> int:
        with self._locked():
            return self._start()

    def read(self, after: int) -> Sequence[Entry]:
        with self._locked():
            if after < self._start():
                raise TrimmedError("the file was trimmed", after=after)
            return list(self._entries(after))

    def trim(self, position: int) -> None:
        with self._locked():
            self._trimmed.write_text(str(max(position, self._start())))

    def append(self, after: int, body: bytes) -> None:
        with self._locked():
            self._file.write(HEADER.pack(wall_ms(), len(body)) + body)
            self._file.flush()

    def close(self) -> None:
        self._file.close()

    def _start(self) -> int:
        return int(self._trimmed.read_text()) if self._trimmed.exists() else BEGINNING

    def _entries(self, after: int) -> Iterator[Entry]:
        self._file.seek(max(after, 0))
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


@pytest.mark.slow
class TestReplicatedStore(ZnodeStoreContract, AtomicReadsContract, ManyProcessesContract):
    world_class = FileLogWorld


@pytest.mark.slow
class TestReplicatedStoreThatIsSavedAllTheTime(ZnodeStoreContract, AtomicReadsContract, ManyProcessesContract):
    """Snapshots and trims between any few entries, and whoever is behind starts again."""

    world_class = FileLogWorld

    @pytest.fixture(autouse=True)
    def _often(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(store, "SAVED_EVERY", 3)
        monkeypatch.setattr(snapshot, "PART_BYTES", 100)
