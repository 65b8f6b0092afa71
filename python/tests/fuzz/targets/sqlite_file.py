"""The SQLite file of the embedded znode store."""

from __future__ import annotations

import shutil
import struct
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

from oncelog.errors import OncelogError
from oncelog.ports import Stat, ZnodeReader
from oncelog.znodes.rules import split_path
from oncelog.znodes.sqlite import SqliteZnodeStore
from oncelog.znodes.walking import walk
from tests.fuzz.mutators import mutated
from tests.fuzz.target import Target, Verdict, expect, expect_of

HOST = "fuzz"
PAGE = 4096
MOST_ZNODES = 10_000


class SqliteFile(Target):
    """A store opened on a mutated file, with or without a write-ahead log: read whole, written to, read again.

    Oracle: SQLite has no checksums, so a bit that flips within a value is another value; the payload's reader has to
    judge it. But every answer is an error of ours, or znodes of acceptable paths in finite number, whose data are bytes
    and whose stats are whole numbers; and a write that is acknowledged is there when the file is opened again.
    """

    name = "sqlite-file"
    weight = 0.05

    def prepare(self) -> None:
        memory = Path("/dev/shm")
        self._folder = Path(tempfile.mkdtemp(prefix="oncelog-fuzz-", dir=memory if memory.is_dir() else None))
        self._path = self._folder / "store" / "znodes.sqlite"
        self.files = [self._closed(), self._open()]

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _closed(self) -> tuple[bytes, bytes]:
        path = self._folder / "closed.sqlite"
        store = self._filled(path)
        store.close()
        return path.read_bytes(), b""

    def _open(self) -> tuple[bytes, bytes]:
        """As a process leaves it that is killed: the last writes are in the write-ahead log."""
        path = self._folder / "open.sqlite"
        self._filled(path).close()
        store = _opened(path)
        try:
            store.transact(lambda view: view.set("/a", b"in the log"))
            copies = [self._folder / "copy", self._folder / "copy-wal"]
            for name, copy in zip((path, path.with_name(f"{path.name}-wal")), copies, strict=True):
                shutil.copyfile(name, copy)  # never opened by this process under its own name: see connection.py
            return copies[0].read_bytes(), _with_fixed_salts(copies[1].read_bytes())
        finally:
            store.close()

    def _filled(self, path: Path) -> SqliteZnodeStore:
        store = SqliteZnodeStore(path, host_id=HOST, now_ms=lambda: 1_700_000_000_000)

        def fill(number: int) -> None:
            def step(view: object) -> None:
                view.create(f"/a/{number:03d}", b"%d " % number * (number * 7 % 300))  # type: ignore[attr-defined]

            store.transact(step)

        store.transact(lambda view: view.create("/a"))
        for number in range(60):
            fill(number)
        return store

    def valid(self) -> Iterable[bytes]:
        return [len(data).to_bytes(4, "big") + data + log for data, log in self.files]

    def make(self, chance: Random) -> bytes:
        data, log = chance.choice(self.files)
        if log and chance.random() < 0.5:
            log = mutated(chance, log, [data])
        elif chance.random() < 0.25:
            data = mutated(chance, data[:200], [data]) + data[200:]
        else:
            page = chance.randrange(len(data) // PAGE) * PAGE
            few = chance.random() < 0.5  # the head of a page, which says where its cells are, or any of it
            size = 60 if few else PAGE
            data = data[:page] + mutated(chance, data[page : page + size], [data]) + data[page + size :]
        return len(data).to_bytes(4, "big") + data + log

    def check(self, data: bytes) -> Verdict:
        size = int.from_bytes(data[:4], "big")
        shutil.rmtree(self._path.parent, ignore_errors=True)
        self._path.parent.mkdir()
        self._path.write_bytes(data[4 : 4 + size])
        if data[4 + size :]:
            self._path.with_name(f"{self._path.name}-wal").write_bytes(data[4 + size :])
        try:
            self._use()
        except OncelogError:
            return Verdict.REFUSED
        return Verdict.CORRECT

    def _use(self) -> None:
        store = _opened(self._path)
        try:
            with store.snapshot() as reader:
                self._walk(reader)
            self._walk(store)
            store.transact(lambda view: view.create("/new", b"written"))
        finally:
            store.close()
        again = _opened(self._path)
        try:
            found = again.get("/new")
            expect(found is not None and found.data == b"written", "an acknowledged write is gone", found=found)
            again.transact(lambda view: view.delete("/new"))
        finally:
            again.close()

    def _walk(self, reader: ZnodeReader) -> None:
        for count, (path, znode) in enumerate(walk(reader, "/")):
            expect(count < MOST_ZNODES, "more znodes than there can be")
            split_path(path)
            expect_of(znode.data, bytes, "data")
            for name in Stat._fields:
                expect(type(getattr(znode.stat, name)) is int, "a stat that is no number", name=name)


def _with_fixed_salts(log: bytes) -> bytes:
    """A write-ahead log with its random numbers replaced: the same in every process."""
    salts = bytes(range(8))
    sums = _sums(log[:16] + salts, (0, 0))
    again = log[:16] + salts + struct.pack(">II", *sums)
    for at in range(32, len(log), 24 + PAGE):
        head, page = log[at : at + 8], log[at + 24 : at + 24 + PAGE]
        sums = _sums(head + page, sums)
        again += head + salts + struct.pack(">II", *sums) + page
    return again


def _sums(data: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    """SQLite's checksum of a write-ahead log, on a machine that writes the lowest byte first."""
    one, other = sums
    for first, second in struct.iter_unpack("<II", data):
        one = (one + first + other) % 2**32
        other = (other + second + one) % 2**32
    return one, other


def _opened(path: Path) -> SqliteZnodeStore:
    return SqliteZnodeStore(path, create=False, host_id=HOST, now_ms=lambda: 1_700_000_000_000)


TARGETS: dict[str, Callable[[], Target]] = {SqliteFile.name: SqliteFile}
