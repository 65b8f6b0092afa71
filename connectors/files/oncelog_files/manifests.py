"""What a batch consists of: its manifest, which the decision names by its hash, so that it fits into one znode.

A manifest is written next to the files of an attempt, before the decision. When all of them have their final names, it
is moved to its own: at that moment readers of manifests see the whole batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from oncelog.batches.committer import parse_parts
from oncelog.spark.kit import manifests
from oncelog.spark.kit.spark_files import FoundFile
from oncelog.znodes import fields

VERSION: Final = 2

_OF_VERSION_2: Final = frozenset({"partitions"})
"""What manifests of version 1 lack."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A batch that Spark wrote.

    Attributes:
        prefix: of the sink.
        batch_id: of the micro-batch.
        format: of its files.
        rows: in all files together.
        files: their names below the sink's folder, and their sizes.
        partitions: the types of the columns that became folders, by their names; readers would guess them.
    """

    prefix: str
    batch_id: int
    format: str
    rows: int
    files: tuple[FoundFile, ...]
    partitions: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """As JSON, one line."""
        return json.dumps({"version": VERSION, **asdict(self)}, ensure_ascii=False) + "\n"


@dataclass(frozen=True, slots=True)
class Decided:
    """What the ledger keeps of a batch: enough for anybody to show it, whatever its own options are.

    Attributes:
        path: of the sink's folder.
        attempt: that wrote it; names its staging folder.
        prefix, batch_id: as in the manifest.
        sha256: of the manifest's text.
    """

    path: str
    attempt: str
    prefix: str
    batch_id: int
    sha256: str

    def parts(self) -> tuple[str, ...]:
        """As parts of a `Committable`."""
        return (json.dumps(asdict(self), ensure_ascii=False),)


def of_parts(parts: Sequence[str]) -> Decided:
    """The inverse of `Decided.parts`.

    Raises:
        CorruptDataError: the parts are malformed.
    """
    return parse_parts(parts, _decided)


def _decided(parts: Sequence[str]) -> Decided:
    (only,) = parts
    found = manifests.object_of(only, Decided.__slots__)
    texts = {name: fields.text(found[name]) for name in ("path", "attempt", "prefix", "sha256")}
    return Decided(batch_id=fields.signed(found["batch_id"]), **texts)


def parse(text: str, sha256: str, name: str) -> Manifest:
    """A manifest.

    Args:
        sha256: that the ledger has of it.
        name: of its file, for the error.

    Raises:
        CorruptDataError: it is not what was decided.
    """
    return manifests.decided(text, sha256, name, _manifest)


def _manifest(text: str) -> Manifest:
    keys = {"version", *Manifest.__slots__}
    is_older = json.loads(text).get("version") == 1
    found = manifests.object_of(text, keys - _OF_VERSION_2 if is_older else keys)
    return Manifest(
        prefix=fields.text(found["prefix"]),
        batch_id=fields.signed(found["batch_id"]),
        format=fields.text(found["format"]),
        rows=fields.signed(found["rows"]),
        files=manifests.files_of(found["files"]),
        partitions={name: fields.text(type_) for name, type_ in found.get("partitions", {}).items()},
    )
