"""Storage for a commit that is only rehearsed: what it writes is forgotten, what it reads is where it is."""

from __future__ import annotations

import io

from pyiceberg.io import FileIO, InputFile, OutputFile, OutputStream


class KeptInMemory(FileIO):
    """The storage of a table, to which nothing is written.

    Args:
        storage: where files are read.
    """

    def __init__(self, storage: FileIO) -> None:
        super().__init__(storage.properties)
        self._storage = storage

    def new_input(self, location: str) -> InputFile:
        return self._storage.new_input(location)

    def new_output(self, location: str) -> OutputFile:
        return _Forgotten(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Do nothing: nothing was written."""


class _Forgotten(OutputFile):
    """A file in memory."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def exists(self) -> bool:
        return False

    def to_input_file(self) -> InputFile:
        raise NotImplementedError("a file of a rehearsed commit is never read")

    def create(self, overwrite: bool = False) -> OutputStream:
        return _Counted(self)


class _Counted(io.BytesIO):
    """Tells its file, when it is closed, how much was written."""

    def __init__(self, file: _Forgotten) -> None:
        super().__init__()
        self._file = file

    def close(self) -> None:
        if not self.closed:
            self._file._size = self.getbuffer().nbytes
        super().close()
