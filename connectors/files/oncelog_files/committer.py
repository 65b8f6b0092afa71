"""Commits batches into a folder: Spark writes into a hidden folder, and then the files move to where readers look.

Spark's writer leaves the files of an attempt in a folder that no other attempt uses. Its job commit chooses among the
attempts of each task, as always. A driver or a task that comes late writes into a folder that no decision names. Before
the decision, the files are made durable, and a manifest of them is written next to them. The decision names the
manifest by its hash. After it, any process may move the files, any number of times: the names are Spark's and belong to
one job only, so a file is either still to be moved or has its final path. The manifest is moved last.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from pyspark.sql import DataFrame

from oncelog.batches.attempt import Batch
from oncelog.batches.committer import Committable
from oncelog.crash_points import reach
from oncelog.errors import CorruptDataError, FileUnavailableError, FileWriteError, UsageError
from oncelog.spark.kit.manifests import hash_of
from oncelog.spark.kit.spark_files import WHOLE_WHEN_CLOSED, FoundFile, SparkFiles
from oncelog.spark.kit.staging import StagingCommitter, StagingFolder
from oncelog_files import jobs, manifests
from oncelog_files.crash_points import FilesCrashPoint
from oncelog_files.errors import FolderChangedError
from oncelog_files.manifests import Decided, Manifest
from oncelog_files.options import SinkOptions

SHOWN_TASKS: Final = 10
"""In an error."""

_LISTS: Final = {
    "_spark_metadata": "Spark's own file sink",
    "_delta_log": "a Delta table",
    ".hoodie": "a Hudi table",
}
"""Folders in which other writers keep their lists of files, and whose they are."""

_ICEBERG: Final = "metadata", ".metadata.json"
"""The folder of a table, and how the names of its files end."""

_DECIDED: Final = "; the batch is decided: {}, then restart the query, which completes it"


class FolderCommitter(StagingCommitter[DataFrame]):
    """Writes one attempt at a batch, and commits what it finds decided; see `Committer`.

    Args:
        options: of the sink.
        batch: to write; only the session of its rows is used here.
        own: folders that are known to belong to no other writer; the committer adds its own.
    """

    def __init__(self, options: SinkOptions, batch: Batch[DataFrame], own: set[str] | None = None) -> None:
        super().__init__(batch.job.sparkSession, options.path, batch.request)
        self._options = options
        self._own = set() if own is None else own

    # Before the decision

    def stage(self, job: DataFrame, attempt: str) -> Committable:
        """Have Spark write the rows of a batch.

        Raises:
            UsageError, InvalidRecordError: the folder cannot take such rows.
            FileWriteError: they cannot be written, the driver does not see all, or the disk does not confirm them.
            RoundAbortedError: others aborted the batch.
        """
        options, files = self._options, self.staging.files
        if files.root not in self._own:
            _refuse_folders_of_others(files)
            self._own.add(files.root)
        job = jobs.checked(job, options.format, options.partition_by, has_long_names=files.scheme in WHOLE_WHEN_CLOSED)
        written = jobs.write(job, self.staging.begin(attempt), options.format, options.partition_by, options.writer)
        reach(FilesCrashPoint.WRITTEN)
        rows = written.rows
        if not rows:
            self.discard(attempt)
            return Committable((), 0)
        found = self.staging.written(attempt, rows)
        self._check_seen(written, found)
        partitions = jobs.partition_types(job.schema, options.partition_by)
        prefix, batch_id = self._request.prefix, self._request.batch_id
        text = Manifest(prefix, batch_id, options.format, rows, tuple(found), partitions).text()
        self.staging.keep(attempt, text)
        reach(FilesCrashPoint.LISTED)
        decided = Decided(self.staging.files.root, attempt, prefix, batch_id, hash_of(text))
        return Committable(decided.parts(), rows)

    def _check_seen(self, written: jobs.Written, found: Sequence[FoundFile]) -> None:
        """Refuse a batch whose tasks wrote to disks of other hosts; a storage of several hosts shows all files."""
        unseen = written.unseen(found) if self.staging.files.is_local else []
        if unseen:
            raise FileWriteError(
                "the driver does not see the files of some of Spark's tasks: tasks on other hosts wrote to their own "
                "disks; give a path that all hosts share",
                path=self.staging.files.root,
                rows=written.rows,
                tasks=len(written.tasks),
                unseen=unseen[:SHOWN_TASKS],
            )

    def validate(self, staged: Committable) -> None:
        """Make sure that what is to be decided is there.

        Raises:
            RoundAbortedError: the staging folder is gone.
        """
        if staged.parts:
            self.staging.check(manifests.of_parts(staged.parts).attempt)

    # After the decision

    def commit(self, parts: Sequence[str]) -> None:
        """Move the files of a decided batch to where readers look, then its manifest; remove the staging folder.

        Raises:
            FolderChangedError: files are gone, or others are in their way.
            FileUnavailableError: not now.
        """
        if not parts:
            return
        batch = manifests.of_parts(parts)
        with _carrying_out(batch):
            staging = self.staging.of(batch.path, batch.prefix)
            reach(FilesCrashPoint.SHOW)
            text = staging.kept(batch.attempt)
            if text is not None:
                staged = staging.place_of(batch.attempt)
                _move(staging, batch, manifests.parse(text, batch.sha256, staged))
                reach(FilesCrashPoint.SHOWN)
                staging.publish(batch.batch_id, batch.attempt)
            if not staging.is_published(batch.batch_id, batch.attempt):
                raise _staging_is_gone(staging, batch)
            reach(FilesCrashPoint.PUBLISHED)
            staging.remove(batch.attempt)
        reach(FilesCrashPoint.REMOVED)


# Steps ----------------------------------------------------------------------------------------------------------------


def _refuse_folders_of_others(files: SparkFiles) -> None:
    """Refuse a folder whose readers go by a list of files that another writer keeps: they would not see ours.

    Raises:
        UsageError: whose it is, and what to do.
        FileUnavailableError: it cannot be read.
    """
    owners = [owner for name, owner in _LISTS.items() if files.is_folder(name)]
    folder, end = _ICEBERG
    if any(name.endswith(end) for name in files.names(folder)):
        owners.append("an Iceberg table")
    if owners:
        raise UsageError(
            "the folder belongs to another writer, whose list of files its readers go by, so they would not see what "
            "this sink writes: give the sink a folder of its own; docs/guides/files.md says how to move a query over",
            path=files.root,
            owner=owners[0],
        )


def _move(staging: StagingFolder, batch: Decided, manifest: Manifest) -> None:
    """Move the files that are not at their place yet. Others may do the same at this moment."""
    files, data = staging.files, staging.data_of(batch.attempt)
    for folder in sorted({file.name.rpartition("/")[0] for file in manifest.files} - {""}):
        files.make_folder(folder)
    sizes = {file.name: file.size for file in manifest.files}
    for _, name in files.move_all([(f"{data}/{name}", name) for name in sizes]):
        found = files.size(name)
        if found is None:
            raise _staging_is_gone(staging, batch, file=name)
        if found != sizes[name]:
            raise FolderChangedError(
                "another file has the name of a file of a decided batch" + _DECIDED.format("remove it"),
                file=files.path(name),
                size=found,
                expected=sizes[name],
            )
    files.sync_names("", sizes)


def _staging_is_gone(staging: StagingFolder, batch: Decided, **fields: str) -> FolderChangedError:
    return FolderChangedError(
        "files of a decided batch are neither in its staging folder nor at their place: somebody removed them, or the "
        "path leads elsewhere; if they are lost, restore the folder, the ledger and the checkpoint of the same moment",
        staging=staging.place_of(batch.attempt),
        **fields,
    )


@contextmanager
def _carrying_out(batch: Decided) -> Iterator[None]:
    """Have an error say that the batch is decided."""
    about = {"prefix": batch.prefix, "batch_id": batch.batch_id}
    try:
        yield
    except (FileUnavailableError, FileWriteError) as problem:
        raise FileUnavailableError(
            problem.message + _DECIDED.format("see that the file system is back, and takes files"),
            **problem.fields,
            **about,
        ) from None
    except (FolderChangedError, CorruptDataError) as problem:
        raise type(problem)(problem.message, **problem.fields, **about) from None
