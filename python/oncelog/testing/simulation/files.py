"""The disk that all processes share, and each one's way to it.

A file is whole once it is finished. One whose process died before that is what a file system may leave of it: all of
it, a part, zeros, or nothing. One that is removed while its writer stands still is gone: what is written to it and
finished afterwards goes nowhere, and nobody is told.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING

from oncelog.errors import FileUnavailableError, FileWriteError
from oncelog.ports import OutputFile
from oncelog.testing.simulation.faults import Fault, Operation

if TYPE_CHECKING:
    from oncelog.testing.simulation.processes import Process


class Disk:
    """Files by name.

    Attributes:
        contents: what a reader finds.
        durable: names of the files that were finished: whole, whatever dies.
        torn: how many files a dead process left in part.
    """

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self.durable: set[str] = set()
        self.torn = 0
        self.unfinished: dict[str, Process] = {}

    def abandon(self, process: Process, chance: Random) -> None:
        """Leave of the unfinished files of a dead process what chance wants."""
        for name in [name for name, writer in self.unfinished.items() if writer is process]:
            del self.unfinished[name]
            data = self.contents.pop(name)
            fate = chance.randrange(4)
            if fate:
                self.contents[name] = _remains(data, fate, chance)
            self.torn += fate != 1

    def remove(self, name: str) -> None:
        """Remove a file, whether it is there or not."""
        self.contents.pop(name, None)
        self.unfinished.pop(name, None)
        self.durable.discard(name)


def _remains(data: bytes, fate: int, chance: Random) -> bytes:
    if fate == 1:
        return data
    end = chance.randrange(len(data) + 1)
    return data[:end] if fate == 2 else data[:end] + bytes(len(data) - end)


class ProcessFiles:
    """`ports.FileStore` of one process."""

    def __init__(self, process: Process, disk: Disk) -> None:
        self._process = process
        self._disk = disk

    def create(self, name: str) -> OutputFile:
        fault = self._process.ask(Operation.FILE_CREATE, name)
        if fault is Fault.FAILED_FILE:
            raise FileWriteError("the file system refuses a file", file=name)
        self._disk.contents[name] = b""
        self._disk.unfinished[name] = self._process
        if fault is Fault.CRASH_AFTER:
            self._process.die_after()
        return ProcessOutputFile(self._process, self._disk, name)

    def read(self, name: str, position: int, length: int) -> bytes:
        if self._process.ask(Operation.FILE_READ, name) is Fault.FAILED_FILE:
            raise FileUnavailableError("the file system does not answer", file=name)
        return self._content(name)[position : position + length]

    def size(self, name: str) -> int:
        return len(self._content(name))

    def names(self, folder: str) -> Iterable[tuple[str, int, int]]:
        self._process.ask(Operation.FILE_LIST, folder)
        return [
            (name, len(data), 0) for name, data in sorted(self._disk.contents.items()) if name.startswith(f"{folder}/")
        ]

    def delete(self, name: str) -> None:
        fault = self._process.ask(Operation.FILE_DELETE, name)
        if fault is Fault.FAILED_FILE:
            raise FileUnavailableError("the file system does not remove a file", file=name)
        self._disk.remove(name)
        if fault is Fault.CRASH_AFTER:
            self._process.die_after()

    def _content(self, name: str) -> bytes:
        if name not in self._disk.contents:
            raise FileNotFoundError(name)
        return self._disk.contents[name]


class ProcessOutputFile:
    """`ports.OutputFile` of one process."""

    def __init__(self, process: Process, disk: Disk, name: str) -> None:
        self._process = process
        self._disk = disk
        self._name = name
        self._data = bytearray()

    @property
    def position(self) -> int:
        return len(self._data)

    def write(self, data: bytes | memoryview) -> None:
        self._data += data
        # Many small writes make one block: only the first of a file is worth a turn of its own.
        fault = self._process.ask(Operation.FILE_WRITE, self._name) if len(self._data) == len(data) else None
        if fault is Fault.FAILED_FILE:
            self.discard()
            raise FileWriteError("the disk is full", file=self._name)
        if self._is_there:
            self._disk.contents[self._name] = bytes(self._data)
        if fault is Fault.CRASH_AFTER:
            self._process.die_after()

    def finish(self) -> None:
        fault = self._process.ask(Operation.FILE_FINISH, self._name)
        if fault is Fault.FAILED_FILE:
            self.discard()
            raise FileWriteError("the file system does not confirm a file", file=self._name)
        if self._is_there:
            del self._disk.unfinished[self._name]
            self._disk.durable.add(self._name)
        if fault is Fault.CRASH_AFTER:
            self._process.die_after()

    def discard(self) -> None:
        if not self._process.is_dead:
            self._disk.remove(self._name)

    @property
    def _is_there(self) -> bool:
        """Whether nobody removed the file meanwhile."""
        return self._name in self._disk.unfinished
