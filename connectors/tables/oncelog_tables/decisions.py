"""What the decision of a batch says: which files go into which table, and whether their rows replace others.

The ledger keeps it as the one part of a `Committable`, a JSON object with the fields below, so that any later driver
can commit the batch, whatever its options are. The files are those in the attempt's folder: nothing writes there once
the job is done, so their number, and a hash of their names and sizes, say whether all of them are still there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql.types import StructType

from oncelog.batches.committer import parse_parts
from oncelog.errors import CorruptDataError
from oncelog.spark.kit.spark_files import FoundFile
from oncelog.strict_json import without_duplicates
from oncelog.znodes import fields


@dataclass(frozen=True, slots=True)
class Decided:
    """A batch whose files are complete.

    Attributes:
        attempt: that wrote it; names the folder of its files.
        app_id: the sink, as the table knows it.
        batch_id: of the micro-batch; the table remembers the newest one of each sink.
        table: that the files go into: a folder, or a name in a catalog.
        table_id: the identity of the table that had this name when the batch was written.
        layout: how its files were parted then, and what else they were made for; see `Table`.
        schema: of the written columns, in Spark's JSON.
        files: how many, with those of the keys.
        digest: of their names and sizes.
        rows: of the batch.
        key_columns: of the table, by which rows are replaced; empty if rows are only added.
    """

    attempt: str
    app_id: str
    batch_id: int
    table: str
    table_id: str
    layout: str
    schema: str
    files: int
    digest: str
    rows: int
    key_columns: tuple[str, ...]

    @property
    def columns(self) -> StructType:
        """The written columns."""
        return StructType.fromJson(json.loads(self.schema))

    def parts(self) -> tuple[str, ...]:
        """As parts of a `Committable`."""
        return (json.dumps(asdict(self), ensure_ascii=False),)

    def check(self, found: Sequence[FoundFile]) -> None:
        """Compare the files in the attempt's folder with those that were decided.

        Raises:
            CorruptDataError: they are others.
        """
        if (len(found), digest_of(found)) != (self.files, self.digest):
            raise CorruptDataError(
                "the files of a decided batch are not in the table's folder as they were written: was the folder "
                "restored from a backup, or cleaned up while the query was suspended? Restore them; or, if the batch "
                "may be lost, begin with a new checkpoint and another transactionalIdPrefix",
                table=self.table,
                attempt=self.attempt,
                files=len(found),
                decided=self.files,
            )


def digest_of(files: Iterable[FoundFile]) -> str:
    """A hash of the files' names, below the attempt's folder, and their sizes."""
    lines = sorted(f"{file.name} {file.size}\n" for file in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def of_parts(parts: Sequence[str]) -> Decided:
    """The inverse of `Decided.parts`.

    Raises:
        CorruptDataError: the parts are malformed.
    """
    return parse_parts(parts, _parsed)


def _parsed(parts: Sequence[str]) -> Decided:
    (part,) = parts
    found: dict[str, Any] = json.loads(part, object_pairs_hook=without_duplicates)
    if set(found) != set(Decided.__slots__):
        raise ValueError("a decided batch has other fields")
    return Decided(
        attempt=fields.text(found["attempt"]),
        app_id=fields.text(found["app_id"]),
        batch_id=fields.number(found["batch_id"]),
        table=fields.text(found["table"]),
        table_id=fields.text(found["table_id"]),
        layout=fields.text(found["layout"]),
        schema=fields.text(found["schema"]),
        files=fields.number(found["files"]),
        digest=fields.text(found["digest"]),
        rows=fields.number(found["rows"]),
        key_columns=fields.several(fields.text, found["key_columns"]),
    )
