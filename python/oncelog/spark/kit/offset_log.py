"""Spark's offset log: what the file of a batch in a checkpoint's folder ``offsets`` says. Pure.

The first line is the version, the second one metadata of the batch. Then comes a line for each source: in version 1 its
offset, in the order of the sources in the plan, in version 2 the source's name, a colon and its offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from oncelog.errors import CorruptDataError

_NO_OFFSET = "-"
"""What the offset log contains for a source that has no offset yet."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Where the sources of a query end in one batch.

    Attributes:
        version: of the file's format, ``v1`` or ``v2``.
        metadata: of the batch, as Spark wrote it.
        offsets: each source's offset, by its position in the plan or the name that the user gave it; None if it has
            none yet.
    """

    version: str
    metadata: str
    offsets: Mapping[str, str | None]

    def to_text(self) -> str:
        """The content of the file."""
        named = self.version == "v2"
        texts = {source: _NO_OFFSET if text is None else text for source, text in self.offsets.items()}
        sources = [f"{source}:{text}" if named else text for source, text in texts.items()]
        return "\n".join([self.version, self.metadata, *sources])


def parse(text: str, file: str) -> Entry:
    """Parse the content of a file.

    Raises:
        CorruptDataError: it is not as Spark writes it.
    """
    version, *lines = text.split("\n")
    sources = lines[1:]
    if version == "v1" and sources:
        by_name = {str(position): line for position, line in enumerate(sources)}
    elif version == "v2" and sources and all(":" in line for line in sources):
        by_name = {source: offset for source, _, offset in (line.partition(":") for line in sources)}
    else:
        raise corrupt(file, version)
    if len(by_name) < len(sources):
        raise corrupt(file, "a source stands twice")
    offsets = {source: None if offset == _NO_OFFSET else offset for source, offset in by_name.items()}
    return Entry(version, lines[0], offsets)


def in_order(sources: Iterable[str]) -> list[str]:
    """Sources in an order that is the same after a restart: by position, or by name."""
    return sorted(sources, key=lambda name: (not name.isdecimal(), int(name) if name.isdecimal() else 0, name))


def corrupt(file: str, found: str) -> CorruptDataError:
    """The error for a file that is not as Spark writes it."""
    return CorruptDataError("a file of the checkpoint is not as Spark writes it", file=file, found=found)
