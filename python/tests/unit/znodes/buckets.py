"""Buckets for tests of the command log in one: of the memory, in a folder that processes share, and with faults."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

from oncelog.randomness import random_id
from oncelog.testing.znode_store_contract import FakeTime
from oncelog.znodes.clock import wall_ms
from oncelog.znodes.replicated.objects import Listed, NoAnswerError


class MemoryBucket:
    """A bucket in the memory, by a time that the test drives. `close` keeps it.

    Attributes:
        before, after: called once, before or after the next call of a method does its work.
        puts: how many were asked for.
    """

    def __init__(self, time: FakeTime) -> None:
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.before: dict[str, Callable[[], None]] = {}
        self.after: dict[str, Callable[[], None]] = {}
        self.puts = 0
        self._time = time

    def get(self, names: Sequence[str]) -> Sequence[bytes | None]:
        self._meet(self.before, "get")
        found = [self.objects[name][0] if name in self.objects else None for name in names]
        self._meet(self.after, "get")
        return found

    def put_new(self, name: str, data: bytes) -> bool:
        self.puts += 1
        self._meet(self.before, "put_new")
        is_new = name not in self.objects
        if is_new:
            self.objects[name] = data, self.now_ms()
        self._meet(self.after, "put_new")
        return is_new

    def names(self, folder: str, after: str = "") -> Iterator[Listed]:
        self._meet(self.before, "names")
        names = [name for name in sorted(self.objects) if name.startswith(f"{folder}/")]
        found = [Listed(name.removeprefix(f"{folder}/"), self.objects[name][1]) for name in names]
        self._meet(self.after, "names")
        return iter([listed for listed in found if listed.name > after])

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            self.objects.pop(name, None)

    def now_ms(self) -> int:
        return self._time.wall_ms + self._time.durations_ms

    def close(self) -> None: ...

    def _meet(self, hooks: dict[str, Callable[[], None]], method: str) -> None:
        hooks.pop(method, lambda: None)()


class FolderBucket:
    """A bucket that is a folder. An object appears whole: it is written elsewhere, and then linked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, names: Sequence[str]) -> Sequence[bytes | None]:
        return [self._got(self._folder / name) for name in names]

    def put_new(self, name: str, data: bytes) -> bool:
        (self._folder / name).parent.mkdir(parents=True, exist_ok=True)
        written = self._folder / random_id()
        written.write_bytes(data)
        try:
            os.link(written, self._folder / name)
        except FileExistsError:
            return False
        finally:
            written.unlink()
        return True

    def names(self, folder: str, after: str = "") -> Iterator[Listed]:
        files = sorted((self._folder / folder).glob("*"))
        return iter([Listed(file.name, 0) for file in files if file.name > after])

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            (self._folder / name).unlink(missing_ok=True)

    def now_ms(self) -> int:
        return wall_ms()

    def close(self) -> None: ...

    def _got(self, file: Path) -> bytes | None:
        try:
            return file.read_bytes()
        except FileNotFoundError:
            return None


class LossyBucket(FolderBucket):
    """One that loses a tenth of the puts, and the answers to another tenth."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._random = Random(os.getpid())

    def put_new(self, name: str, data: bytes) -> bool:
        fate = self._random.random()
        if fate < 0.1:
            raise NoAnswerError("lost on its way there")
        is_new = super().put_new(name, data)
        if fate > 0.9:
            raise NoAnswerError("lost on its way back")
        return is_new


class CarelessBucket(MemoryBucket):
    """One that does not look whether there is an object when it puts one."""

    def put_new(self, name: str, data: bytes) -> bool:
        self.objects.pop(name, None)
        return super().put_new(name, data)
