"""Commits batches into an index: stages their documents in a folder, and sends them after the decision.

An index has no transactions. So what a batch consists of is fixed before its decision: the documents, the `_id` of each
and, if it replaces another one, its version, in files that nobody changes any more. Whatever the store could refuse is
refused by then. After the decision anybody may send the files, any number of times, and at the same time as others: a
document that is there is not added again, and none is replaced by that of an older batch.

A batch that replaces documents has one version. The store keeps a document whose version is larger, whoever wrote it:
another query, this one under a former prefix, or a host whose clock is ahead. The driver that runs the query hears of
that when it sends the batch. It takes a larger version, in a step of the ledger, and sends the batch again. Assumption:
the next batch of the ledger has a larger version than this one had at last. Hence neither an older driver nor a task
of one, which may still send any version that the ledger ever had, replaces a document of a later batch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from oncelog.batches.attempt import Batch
from oncelog.batches.committer import Committable
from oncelog.crash_points import reach
from oncelog.errors import (
    CorruptDataError,
    FileUnavailableError,
    FileWriteError,
    InvalidRecordError,
    OncelogError,
)
from oncelog.spark.kit.manifests import hash_of
from oncelog.spark.kit.spark_files import FAILURES
from oncelog.spark.kit.staging import StagingCommitter, StagingFolder
from oncelog.spark.kit.upserts import key_twice
from oncelog.types import Outcome
from oncelog.znodes.clock import wall_ms
from oncelog_search import documents, fields, indices, manifests
from oncelog_search.crash_points import SearchCrashPoint
from oncelog_search.documents import Documents
from oncelog_search.errors import IndexChangedError, SearchAccessError, SearchUnavailableError, StagingChangedError
from oncelog_search.indices import Index
from oncelog_search.jobs import Job, Written
from oncelog_search.manifests import Decided, Manifest
from oncelog_search.options import SinkOptions
from oncelog_search.sending import SendTask
from oncelog_search.server import SearchServer, quoted

KEPT: Final = 8
"""How many manifests of a prefix are kept: by them a driver that comes late sees that there is nothing left to do."""

MOST_RECORDS: Final = 100_000
MOST_BYTES: Final = 512 * 1024 * 1024
"""What a task has in its memory at most, however large records are."""

MOST_VERSIONS: Final = 10
"""How many versions a batch may take, one after the other, while others write the same documents at the same time."""

PROBED_BYTES: Final = 1_000_000
"""The sink asks the store whether it takes documents that are larger; no store or proxy has so low a limit."""

LARGEST_VERSION: Final = 2**63 - 1
"""That a document can have."""

_log = logging.getLogger(__name__)

_DECIDED: Final = (
    "; the batch is decided, and its documents are safe in the staging folder: {}, then restart the query, which "
    "completes it"
)


class IndexCommitter(StagingCommitter[Job]):
    """Writes one attempt at a batch, and commits what it finds decided; see `Committer`.

    Args:
        options: of the sink.
        server: the store.
        batch: to write; its job also sends what is found decided.
    """

    def __init__(self, options: SinkOptions, server: SearchServer, batch: Batch[Job]) -> None:
        super().__init__(batch.job.spark, options.staging, batch.request)
        self._options = options
        self._server = server
        self._job = batch.job
        self.last_version = 0
        """Of the batches that are decided."""
        self.restate: Callable[[Decided], Decided] | None = None
        """Has the ledger take a larger version for a decided batch, and returns what the ledger has then. None: this
        process does not run the query, so it must not put an old batch in front of what others wrote since."""
        self._unsent = ""
        """The attempt that this process has staged and nobody has sent."""

    def clean_up(self, attempts: Mapping[str, Outcome]) -> None:
        """Also remove the manifests of old batches, other than those of the attempts that the ledger knows."""
        self.staging.forget(KEPT, attempts)
        super().clean_up(attempts)

    # Before the decision

    def stage(self, job: Job, attempt: str) -> Committable:
        """Stage the documents of a batch.

        Raises:
            UsageError, InvalidRecordError: the index cannot take such rows.
            FileWriteError: they cannot be written, or the disk does not confirm it.
            RoundAbortedError: others aborted the batch.
            SearchUnavailableError, SearchAccessError: the store does not say what it takes.
        """
        options = self._options
        index = indices.describe(self._server, options.index, options.mode)
        documents.check_keys(job.schema, options.key_columns)
        planned = Documents(
            attempt,
            options.key_columns,
            max(wall_ms(), self.last_version + 1),
            tuple(fields.rules(job.schema, index)),
            options.request_bytes,
        )
        written = job.write(self.staging.begin(attempt), planned)
        reach(SearchCrashPoint.WRITTEN)
        self._refuse_too_large(written.largest)
        sha256 = self._kept(attempt, index, written) if written.rows else ""
        if not written.rows:
            self.discard(attempt)
        root, asked = self.staging.files.root, self._request
        decided = Decided(root, attempt, asked.prefix, asked.batch_id, planned.version, sha256)
        self._unsent = attempt
        return Committable(decided.parts(), written.rows)

    def validate(self, staged: Committable) -> None:
        """Make sure that what is to be decided is there.

        Raises:
            RoundAbortedError: the staging folder is gone.
        """
        batch = manifests.of_parts(staged.parts)
        if batch.sha256:
            self.staging.check(batch.attempt)

    # After the decision

    def commit(self, parts: Sequence[str]) -> None:
        """Send the documents of a decided batch, then move its manifest, and remove the staging folder.

        Raises:
            IndexChangedError: the index refuses a document, or is gone.
            StagingChangedError: documents are gone.
            SearchUnavailableError, SearchAccessError, FileUnavailableError: not now.
        """
        batch = manifests.of_parts(parts)
        if not batch.sha256:
            return
        with _carrying_out(batch):
            staging = self.staging.of(batch.path, batch.prefix)
            reach(SearchCrashPoint.SEND)
            text = staging.kept(batch.attempt)
            if text is not None:
                staged = staging.place_of(batch.attempt)
                self._send_as_newest(staging, batch, manifests.parse(text, batch.sha256, staged))
                reach(SearchCrashPoint.SENT)
                staging.publish(batch.batch_id, batch.attempt)
            if not staging.is_published(batch.batch_id, batch.attempt):
                raise _staging_is_gone(staging, batch)
            reach(SearchCrashPoint.PUBLISHED)
            staging.remove(batch.attempt)
        reach(SearchCrashPoint.REMOVED)

    # Steps

    def _kept(self, attempt: str, index: Index, written: Written) -> str:
        """Make what is staged durable, and its manifest; returns the hash of that."""
        asked, found = self._request, self.staging.written(attempt, written.rows)
        self._check_staged([self._path(self.staging, attempt, file.name) for file in found], written.rows)
        text = Manifest(asked.prefix, asked.batch_id, index.name, index.uuid, *written, tuple(found)).text()
        self.staging.keep(attempt, text)
        reach(SearchCrashPoint.LISTED)
        return hash_of(text)

    def _refuse_too_large(self, largest: int) -> None:
        """Refuse a document that is larger than the store's requests may be, however few documents are in one."""
        if largest > PROBED_BYTES and not self._server.takes(self._options.index, largest):
            raise InvalidRecordError(
                "a document is larger than the requests that the store takes; raise http.max_content_length of the "
                "store, and the limit of any proxy before it, or make the document smaller",
                bytes=largest,
            )

    def _check_staged(self, files: Sequence[str], rows: int) -> None:
        """Make sure that the files are what `_send` will want them to be, and that no key is twice."""
        keys = self._options.key_columns
        staged = self._job.staged(files, are_keyed=bool(keys))
        if staged.rows != rows:
            raise FileWriteError(
                "Spark counted other rows than there are in the files that the driver sees: tasks on other hosts wrote "
                "to their own disks, so give a path that all hosts share; or Spark ran tasks again and counted their "
                "rows twice, so restart the query; nothing was decided",
                staging=self.staging.files.root,
                counted=rows,
                found=staged.rows,
            )
        if staged.twice is not None:
            raise key_twice(columns=keys, id=documents.id_of(staged.twice))

    @staticmethod
    def _path(staging: StagingFolder, attempt: str, name: str) -> str:
        return staging.files.path(f"{staging.data_of(attempt)}/{name}")

    def _send_as_newest(self, staging: StagingFolder, batch: Decided, manifest: Manifest) -> None:
        """Have the store take all documents of a batch, with larger versions than those that it has."""
        is_staged = is_new = batch.attempt == self._unsent
        self._unsent = ""
        for _ in range(MOST_VERSIONS):
            newest = self._send(staging, batch, manifest, is_new=is_new, is_staged=is_staged)
            if newest < batch.version:
                return
            about = {"prefix": batch.prefix, "batch_id": batch.batch_id, "index": manifest.index, "newest": newest}
            if self.restate is None:
                _log.warning("the index has newer documents than the batch of a query that does not run: %s", about)
                return
            if newest >= LARGEST_VERSION:
                raise IndexChangedError(
                    "the index has a document of the largest version that there is, so nothing can replace it; "
                    "delete it, and wait until the store has forgotten it (index.gc_deletes)",
                    version=newest,
                    index=manifest.index,
                )
            _log.warning("others wrote newer documents of the same keys; the batch is sent again: %s", about)
            batch = self.restate(replace(batch, version=newest + 1))
            is_staged, is_new = False, True
        raise SearchUnavailableError(
            "others keep writing newer versions of the same documents", index=manifest.index, versions=MOST_VERSIONS
        )

    def _send(
        self, staging: StagingFolder, batch: Decided, manifest: Manifest, *, is_new: bool, is_staged: bool
    ) -> int:
        """Send all documents of a batch; returns the largest version of others that is in the way, -1 if there is none.

        Args:
            is_new, is_staged: see `SendTask`.
        """
        if not _is_whole(staging, batch, manifest):
            return -1
        self._check_uuid(manifest)
        options, files = self._options, [self._path(staging, batch.attempt, file.name) for file in manifest.files]
        task = SendTask(
            options.address,
            manifest.index,
            options.request_bytes,
            options.retry_timeout_ms,
            batch.version,
            is_new,
            is_staged,
        )
        try:
            sent = self._job.send(files, _at_a_time(manifest, options.request_bytes), task)
        except FAILURES:
            if _is_whole(staging, batch, manifest):
                raise
            return -1
        for each in sent:
            if each.problem is not None:
                raise each.problem
        if sum(each.records for each in sent) != manifest.rows:
            raise _staging_is_gone(staging, batch)
        self._check_uuid(manifest)
        if options.refreshes:
            self._server.post(f"/{quoted(manifest.index)}/_refresh", index=manifest.index)
        return max((each.newest for each in sent), default=-1)

    def _check_uuid(self, manifest: Manifest) -> None:
        """Refuse an index that took the place of that which the batch was decided for."""
        found = indices.uuid_now(self._server, manifest.index)
        if found not in {manifest.uuid, self._options.index_uuid or manifest.uuid}:
            raise IndexChangedError(
                "the index of a decided batch was removed, or another one has its name now. If the batch may go into "
                "the index that is there now, without what was lost, set indexUuid to its uuid",
                index=manifest.index,
                uuid=found,
                decided_uuid=manifest.uuid,
            )


def _is_whole(staging: StagingFolder, batch: Decided, manifest: Manifest) -> bool:
    """Whether all files of a batch are there. False: others were quicker, and have removed them.

    Others may lie next to them, which a task left that came late; nobody sends these.

    Raises:
        StagingChangedError: they are gone, or changed, and were not sent.
    """
    if set(manifest.files) <= set(staging.files.files(staging.data_of(batch.attempt))):
        return True
    if staging.is_published(batch.batch_id, batch.attempt):
        return False
    raise _staging_is_gone(staging, batch)


def _at_a_time(manifest: Manifest, request_bytes: int) -> int:
    """How many records a task has in its memory: those of an average request, but no more than it can hold."""
    average = request_bytes * manifest.rows // sum(file.size for file in manifest.files)
    return max(min(average, MOST_BYTES // manifest.largest, MOST_RECORDS), 1)


def _staging_is_gone(staging: StagingFolder, batch: Decided) -> StagingChangedError:
    return StagingChangedError(
        "documents of a decided batch are not in its staging folder, and were not all sent: somebody removed or "
        "changed files, or the path leads elsewhere; if they are lost, restore the folder, the ledger and the "
        "checkpoint of the same moment",
        staging=staging.place_of(batch.attempt),
    )


@contextmanager
def _carrying_out(batch: Decided) -> Iterator[None]:
    """Have an error say that the batch is decided."""
    about = {"prefix": batch.prefix, "batch_id": batch.batch_id}

    def told(problem: OncelogError, remedy: str, kind: type[OncelogError] | None = None) -> OncelogError:
        return (kind or type(problem))(problem.message + _DECIDED.format(remedy), **problem.fields, **about)

    try:
        yield
    except (SearchUnavailableError, SearchAccessError) as problem:
        raise told(problem, "see that the store is back, and lets this process in") from None
    except (FileUnavailableError, FileWriteError) as problem:
        raise told(problem, "see that the file system is back, and takes files", FileUnavailableError) from None
    except IndexChangedError as problem:
        raise told(problem, "fix the index, such as its mapping") from None
    except (StagingChangedError, CorruptDataError) as problem:
        raise type(problem)(problem.message, **problem.fields, **about) from None
