"""File names and the collection generation, which tells orphans from files that are about to be named.

A file's name carries the generation that its writer read before the first byte. The znode write that first names a
file checks that the generation is at most one newer; collection removes unreferenced files only two generations back.
A suspended writer that wakes up late is refused instead of naming a file that is gone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from oncelog.errors import CorruptDataError, StaleFileError
from oncelog.ports import ZnodeReader
from oncelog.randomness import random_id
from oncelog.znodes import paths
from oncelog.znodes.log_payloads import decode_generation

DATA = "data"
INDEX = "index"
MANIFESTS = "manifests"


def prefix(folder: str, generation: int) -> str:
    """What the name of a new file of `generation` begins with."""
    return f"{folder}/{generation:08d}-"


def new_name(folder: str, generation: int) -> str:
    return f"{prefix(folder, generation)}{random_id()}.avro"


_NAME = re.compile(r"[a-z]+/(\d+)-[^/]+")


def is_name(name: str) -> bool:
    """Whether oncelog gives such names."""
    return _NAME.fullmatch(name) is not None


def generation_of(name: str) -> int:
    """The generation in a file's name.

    Raises:
        CorruptDataError: not a name that oncelog gives.
    """
    found = _NAME.fullmatch(name)
    if found is None:
        raise CorruptDataError("not the name of a file of this log", file=name)
    return int(found[1])


def current(reader: ZnodeReader) -> int:
    """The collection generation of the log."""
    znode = reader.get(paths.GENERATION)
    if znode is None:
        raise CorruptDataError("the store holds no log", path=paths.GENERATION)
    return decode_generation(znode.data)


def check_fresh(reader: ZnodeReader, names: Iterable[str]) -> None:
    """Raise unless every file may still be named: none is older than the previous generation.

    Raises:
        StaleFileError: the writer was suspended across two collections; write the data again.
    """
    oldest = current(reader) - 1
    for name in names:
        if generation_of(name) < oldest:
            raise StaleFileError("a data file waited across two collections and may be gone; write it again", file=name)
