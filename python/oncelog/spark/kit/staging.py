"""A folder in which attempts at batches stage files, for committers that make them visible after the decision.

Each attempt has a folder of its own, so that a driver or a task that comes late writes where nobody looks any more. A
manifest is written next to an attempt's files before the decision. It is moved to its final folder when the batch is
visible, so the process that completes the batch knows whether anything is left to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from oncelog.extras import extras

with extras("spark", part="oncelog.spark.kit"):
    from pyspark.sql import SparkSession

from oncelog.batches.committer import Committer, J
from oncelog.batches.rules import BatchRequest
from oncelog.errors import FileWriteError, OncelogError, RoundAbortedError, UsageError
from oncelog.spark.kit import spark_files, staged_names
from oncelog.spark.kit.spark_files import FoundFile, SparkFiles
from oncelog.types import Outcome

_FULL: Final = re.compile(r"No space left on device|Disk quota exceeded|\w*QuotaExceededException")


class StagingFolder:
    """What such a folder has of one prefix; see `SparkFiles`, which it is made of.

    Args:
        spark: whose JVM, settings and credentials are used.
        root: a path or a URI, as Spark's readers take it.
        prefix: of the batches.

    Attributes:
        files: all that is below the root.
    """

    def __init__(self, spark: SparkSession, root: str, prefix: str) -> None:
        self.files = SparkFiles(spark, root)
        self._spark = spark
        self._prefix = prefix

    def of(self, root: str, prefix: str) -> StagingFolder:
        """The folder in which a decided batch was staged: this one, unless options or names were others then."""
        if (root, prefix) == (self.files.root, self._prefix):
            return self
        return StagingFolder(self._spark, root, prefix)

    def has_batches(self) -> bool:
        """Whether a batch is visible."""
        return bool(self.files.names(staged_names.manifests(self._prefix)))

    def has_mark(self, query_id: str) -> bool:
        """Whether a query has decided batches under the prefix; see `mark`."""
        return self.files.size(staged_names.mark(self._prefix, query_id)) is not None

    def mark(self, query_id: str) -> None:
        """Record durably that a query has decided batches under the prefix."""
        name = staged_names.mark(self._prefix, query_id)
        if self.files.size(name) is None:
            self.files.make_folder(name.rpartition("/")[0])
            self.files.write_text(name, f"{query_id}\n")

    def attempts(self) -> list[str]:
        """The attempts that something is left of."""
        return self.files.names(staged_names.attempts(self._prefix))

    def place_of(self, attempt: str) -> str:
        """The whole path of an attempt's folder."""
        return self.files.path(staged_names.staging(self._prefix, attempt))

    def data_of(self, attempt: str) -> str:
        """The folder of what Spark wrote, below the root."""
        return staged_names.data(self._prefix, attempt)

    # Before the decision

    def begin(self, attempt: str) -> str:
        """Make the folder of an attempt; returns the path that Spark is to write to.

        Raises:
            UsageError: a file is where the root must be.
            FileWriteError: it cannot be made.
        """
        if self.files.is_folder("") is False:
            raise UsageError("the path of the sink must be a folder, and this is a file", path=self.files.root)
        self.files.make_folder(staged_names.staging(self._prefix, attempt))
        return self.files.path(self.data_of(attempt))

    def written(self, attempt: str, rows: int) -> list[FoundFile]:
        """Make durable what Spark wrote, which is `rows` rows, and list it.

        Raises:
            RoundAbortedError: others removed it, because they aborted the batch.
            FileWriteError: the driver does not see it, or the disk does not confirm it.
        """
        data = self.data_of(attempt)
        found = self.files.files(data)
        if not found:
            raise self._nothing_is_there(data, rows)
        self.files.sync(data, [file.name for file in found])
        return found

    def keep(self, attempt: str, manifest: str) -> None:
        """Write the manifest of an attempt, durably."""
        self.files.write_text(staged_names.staged_manifest(self._prefix, attempt), manifest)

    def check(self, attempt: str) -> None:
        """Make sure that what is to be decided is there.

        Raises:
            RoundAbortedError: it is gone.
        """
        if self.files.size(staged_names.staged_manifest(self._prefix, attempt)) is None:
            raise self._is_aborted()

    def remove(self, attempt: str) -> None:
        """Remove what an attempt left."""
        self.files.remove(staged_names.staging(self._prefix, attempt))

    # After the decision

    def kept(self, attempt: str) -> str | None:
        """The manifest of a decided attempt; None if it was published, or is gone."""
        return self.files.read_text(staged_names.staged_manifest(self._prefix, attempt))

    def publish(self, batch_id: int, attempt: str) -> None:
        """Move the manifest of a batch that is visible to its place; others may do so at this moment."""
        folder = staged_names.manifests(self._prefix)
        self.files.make_folder(folder)
        manifest = staged_names.manifest(self._prefix, batch_id, attempt)
        self.files.move(staged_names.staged_manifest(self._prefix, attempt), manifest)
        self.files.sync_names(folder, [manifest.rpartition("/")[2]])

    def is_published(self, batch_id: int, attempt: str) -> bool:
        """Whether somebody has made the batch visible."""
        return self.files.size(staged_names.manifest(self._prefix, batch_id, attempt)) is not None

    def forget(self, kept: int, needed: Iterable[str]) -> None:
        """Remove the manifests of all batches but the newest ones.

        The numbers of batches do not show which are newest: a query that takes a prefix over counts from 0 again.

        Args:
            kept: how many of them to keep.
            needed: attempts whose manifests stay, however old they seem: the hosts' clocks may differ.
        """
        folder = staged_names.manifests(self._prefix)
        stay = tuple(f"-{attempt}.json" for attempt in needed)
        for old in self.files.names_by_age(folder)[:-kept]:
            if not old.endswith(stay):
                self.files.remove(f"{folder}/{old}")

    # Steps

    def _nothing_is_there(self, data: str, rows: int) -> OncelogError:
        if not self.files.is_folder(data):
            return self._is_aborted()
        return FileWriteError(
            "Spark's tasks wrote rows, and the driver sees no files of them: tasks on other hosts wrote to their own "
            "disks; give a path that all hosts share",
            path=self.files.root,
            rows=rows,
        )

    def _is_aborted(self) -> RoundAbortedError:
        return RoundAbortedError(
            "the staging folder of the batch is gone: the batch was aborted, or a newer driver took over",
            path=self.files.root,
        )


class StagingCommitter(Committer[J]):
    """A committer that stages files in such a folder, below the prefix of its batch.

    Attributes:
        staging: the folder, as it is for new batches.
    """

    def __init__(self, spark: SparkSession, root: str, request: BatchRequest) -> None:
        self.staging = StagingFolder(spark, root, request.prefix)
        self._request = request

    def discard(self, attempt: str) -> None:
        self.staging.remove(attempt)

    def list_staged(self) -> Sequence[str]:
        return self.staging.attempts()

    def clean_up(self, attempts: Mapping[str, Outcome]) -> None:
        for attempt, outcome in attempts.items():
            if outcome is Outcome.ABORT:
                self.discard(attempt)

    def has_history(self) -> bool:
        asked = self._request
        return (asked.batch_id > 0 and self.staging.has_batches()) or self.staging.has_mark(asked.query_id)

    def mark_history(self) -> None:
        """A query's later batches are found by their manifests."""
        if self._request.batch_id == 0:
            self.staging.mark(self._request.query_id)


@contextmanager
def room_for_files() -> Iterator[None]:
    """Have the error of a job whose files found no room say so.

    Raises:
        FileWriteError: there is no space.
    """
    try:
        yield
    except spark_files.FAILURES as problem:
        found = _FULL.search(str(problem))
        if found is None:
            raise
        raise FileWriteError(
            "the files of the batch could not be written: their place is full; make space there", reason=found[0]
        ) from None
