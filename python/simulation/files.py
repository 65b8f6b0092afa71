"""The disk that all processes share, and each process's access to it.

A file is complete once it is finished. If its process dies before that, all of it, a part, zeros or nothing may be
left, as on a real file system. If a file is removed while its writer is paused, it is gone: what is written to it
afterwards is lost without an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING

from oncelog.errors import FileUnavailableError, FileWriteError
from oncelog.ports import OutputFile
from simulation.faults import Fault, Operation

if TYPE_CHECKING:
    from simulation.processes import Process


class Disk:
    """Files by name.

    Attributes:
        contents: what a reader finds.
        durable: names of the finished files, which stay complete whatever crashes.
        torn: how many files dead processes left incomplete.
    """

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self.durable: set[str] = set()
        self.torn = 0
        self.unfinished: dict[str, Process] = {}

    def abandon(self, process: Process, chance: Random) -> None:
        """Leave a random part of the unfinished files of a dead process."""
        for name in [name for name, writer in self.unfinished.items() if writer is process]:
            del self.unfinished[name]
            data = self.contents.pop(name)
            fate = chance.randrange(4)
            if fate:
                self.contents[name] = _remains(data, fate, chance)
            self.torn += fate != 1

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
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
        # A block is many small writes; only the first write of a file is simulated as an operation.
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
        """Whether the file has not been removed."""
        return self._name in self._disk.unfinished
