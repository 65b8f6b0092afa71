"""What a batch consists of: its manifest, which the decision names by its hash, so that it fits into one znode.

A manifest is written next to the records of an attempt, before the decision. When the store has taken all of them, it
is moved to its final folder, which shows that nothing is left to send.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from oncelog.batches.committer import parse_parts
from oncelog.spark.kit import manifests
from oncelog.spark.kit.spark_files import FoundFile
from oncelog.znodes import fields

VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """A batch that Spark staged.

    Attributes:
        prefix: of the sink.
        batch_id: of the micro-batch.
        index: that it goes to.
        uuid: of that index.
        rows: in all files together.
        largest: bytes of the largest record.
        files: their names below the attempt's folder, and their sizes.
    """

    prefix: str
    batch_id: int
    index: str
    uuid: str
    rows: int
    largest: int
    files: tuple[FoundFile, ...]

    def text(self) -> str:
        """As JSON, one line."""
        return json.dumps({"version": VERSION, **asdict(self)}, ensure_ascii=False) + "\n"


@dataclass(frozen=True, slots=True)
class Decided:
    """What the ledger keeps of a batch: enough for anybody to send it, whatever its own options are.

    Attributes:
        path: of the folder in which it is staged.
        attempt: that staged it; names its folder there.
        prefix, batch_id: as in the manifest.
        version: of its documents, if they replace others; that of the next batch is larger.
        sha256: of the manifest's text; empty if the batch has no rows.
    """

    path: str
    attempt: str
    prefix: str
    batch_id: int
    version: int
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
    return Decided(batch_id=fields.signed(found["batch_id"]), version=fields.number(found["version"]), **texts)


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
    found = manifests.object_of(text, ("version", *Manifest.__slots__))
    texts = {name: fields.text(found[name]) for name in ("prefix", "index", "uuid")}
    return Manifest(
        batch_id=fields.signed(found["batch_id"]),
        rows=fields.number(found["rows"], 1),
        largest=fields.number(found["largest"], 1),
        files=manifests.files_of(found["files"]),
        **texts,
    )
