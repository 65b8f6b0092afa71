"""Copies all metadata of a log from its store into another, empty store, and checks that the copy is equal.

*Offline*: during the copy, no process may use the log, neither clients nor tools. After the copy, none may ever use the
old store again. Transactions and micro-batches may be open: they are znodes, and their clients continue in the new
store. Nobody can know whether a process is about to write. But the copy notices if anything was written between its
beginning and its end, and fails then.

Crash points. ``/format`` makes a store a log.
  begin    ``/format`` of the target gets a mark; a store with a mark cannot be opened as a log (`cluster_id_of`)
  copy     batches of znodes, each one multi that checks the mark; a crash leaves the mark and some of them
  compare  reads all znodes of both stores; nothing is written
  finish   one multi sets ``/commits`` and replaces the mark with the source's ``/format``: now the target is the log
The next copy into a target with a mark writes its own mark, removes everything else, and starts from scratch.

Each store has its own zxids, versions and times. They are handled as follows:

Decisions. Let d be the zxid of the write that decided an owner (the mzxid of its znode), and S the mzxid of
``/commits``. Assumptions: nothing writes to the old store. Every decision set ``/commits`` in the same multi, so d <= S
for every decided owner, and a plan in the old store takes all of them as decided. An owner's outcome is in its data,
which is copied unchanged. In the new store, the last multi sets ``/commits`` after all owners were created, and every
plan reads S after that. Hence d < S for every decided owner in the new store: what was committed is visible, and what
was aborted is not. An open owner is open by its data, whatever its zxid, and holds back readers as before. The spans
that partitions list are copied unchanged, so last stable offsets are equal, too. Settled data has its markers in the
index, which does not depend on zxids.

Trim. A partition's trim is a zxid of the old store. It makes readers whose S is older than a settle start over.
Assumption: every reader of the new store has an S from the last multi or later, when all these settles were done. Hence
a trim of 0 is right. The old number would be wrong: a reader whose S never reaches it would start over forever.

Orders. A group's offsets are ordered by the version that the group's znode had when they were written, and in the new
store versions start at 0 again. So the group's version is subtracted from every order. Assumption: no order is greater
than that version. Hence all orders are 0 or less and keep their sequence, and the next commit, with an order of 1 or
more, comes after them.

Times. The ages of open transactions and rounds, of idle ids, producers and groups, and of the collection generation
start at the copy. Hence everything times out or expires later than without the copy, and nothing earlier. A round over
Kafka must not look younger than it is, so it has the time in its data (oncelog_kafka/ledger/ledger.py).

A SQLite store records its host outside of the znodes, when it is created. That is not copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TypeVar

from oncelog.errors import (
    CorruptDataError,
    LogInUseError,
    StoreUnavailableError,
    UsageError,
    ensure,
)
from oncelog.limits import MULTI_MAX_BYTES, MULTI_MAX_OPS
from oncelog.ports import Znode, ZnodeReader, ZnodeStore, ZnodeView
from oncelog.protocol.group_offsets import GroupPartitionState
from oncelog.randomness import random_id
from oncelog.znodes import paths, payloads
from oncelog.znodes.log_payloads import LogFormat, decode_format, encode_format
from oncelog.znodes.rules import ROOT, parent_of
from oncelog.znodes.transact import resolving
from oncelog.znodes.walking import paths_upwards, walk_below

T = TypeVar("T")

OTHER_OPERATIONS = 20
"""Operations in a batch's multi besides its creates or deletes: the check of the mark, and sets of parents. There is at
most one parent at each depth, since a batch is a piece of one walk."""

DELETES_PER_BATCH = 400

Progress = Callable[[int, int], None]
"""Called with the number of znodes done and in total. Each counts twice: when it is copied, and when it is compared."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What was copied and compared.

    Attributes:
        cluster_id: of the log.
        znodes: number of znodes that were created in the target.
        size_bytes: size of their data.
        compared: number of znodes that are equal in both stores, including the names of their children.
        adapted: how many of them contain a trim or orders, which were translated for the new store.
    """

    cluster_id: str
    znodes: int
    size_bytes: int
    compared: int
    adapted: int


def cluster_id_of(data: bytes) -> str:
    """The cluster id in the `data` of ``/format``.

    Raises:
        UsageError: the store is the target of an unfinished copy.
        CorruptDataError, UnsupportedFormatError: see `paths.decode`.
    """
    found = decode_format(data)
    if found.unfinished_copy is not None:
        raise UsageError(
            "a copy of metadata into this store was not finished, so it is not a log yet: run `oncelog meta copy` again"
        )
    return found.cluster_id


def copy(source: ZnodeStore, target: ZnodeStore, *, on_progress: Progress = lambda done, total: None) -> Copied:
    """Copy all metadata of a log into another store: see `runtime.copy_metadata`.

    Args:
        source: the store of a log that nobody uses; it is only read.
        target: an empty store, or the target of an unfinished copy.
        on_progress: called after every batch.
    """
    source.sync()
    target.sync()
    seen = _look(source)
    run = _Run(source, target, seen, random_id(), on_progress)
    run.begin()
    created = run.copy()
    compared = run.compare()
    run.finish()
    return Copied(cluster_id_of(seen.format), created.znodes, created.size_bytes, compared.znodes, compared.adapted)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The source at the beginning of the copy.

    Attributes:
        format: data of ``/format``.
        znodes: number of znodes to copy.
        newest_zxid: of the last write; a later write has a higher one.
    """

    format: bytes
    znodes: int
    newest_zxid: int


@dataclass(slots=True)
class _Count:
    znodes: int = 0
    size_bytes: int = 0
    adapted: int = 0


def _look(source: ZnodeReader) -> _Seen:
    found = source.get(paths.FORMAT)
    if found is None:
        raise UsageError("there is no log in the store to copy from")
    cluster_id_of(found.data)
    znodes, newest_zxid = 0, found.stat.mzxid
    for _, znode in _content(source):
        znodes += 1
        newest_zxid = max(newest_zxid, znode.stat.mzxid)
    return _Seen(found.data, znodes, newest_zxid)


def _content(reader: ZnodeReader) -> Iterator[tuple[str, Znode]]:
    """All znodes except the root and ``/format``, which has no children."""
    return ((path, znode) for path, znode in walk_below(reader, ROOT) if path != paths.FORMAT)


class _Run:
    """One copy.

    Args:
        seen: the source at the beginning.
        nonce: makes this copy's mark differ from that of another copy into the same target.
    """

    def __init__(self, source: ZnodeStore, target: ZnodeStore, seen: _Seen, nonce: str, on_progress: Progress) -> None:
        self._source = source
        self._target = target
        self._seen = seen
        self._mark = encode_format(LogFormat(unfinished_copy=nonce))
        self._on_progress = on_progress

    def begin(self) -> None:
        """Mark the target, and remove what an unfinished copy left in it."""
        _resolving(lambda: self._target.transact(self._put_mark))
        left = (path for path in paths_upwards(self._target, ROOT) if path != paths.FORMAT)
        for some in _delete_batches(left):
            _resolving(lambda some=some: self._target.transact(lambda view: self._delete(view, some)))  # type: ignore[misc]

    def copy(self) -> _Count:
        """Create all znodes."""
        count = _Count()
        translate = _Translation()
        rows = ((path, translate(path, znode)) for path, znode in _content(self._source))
        for batch in _create_batches(rows):
            _resolving(lambda batch=batch: self._target.transact(lambda view: self._create(view, batch)))  # type: ignore[misc]
            count.znodes += len(batch)
            count.size_bytes += sum(len(data) for _, data in batch)
            self._on_progress(count.znodes, 2 * max(self._seen.znodes, count.znodes))
        return count

    def compare(self) -> _Count:
        """Read both stores completely, and check that they have the same paths with the same data."""
        self._source.sync()
        self._target.sync()
        count = _Count()
        translate = _Translation()
        for ours, theirs in zip_longest(_content(self._source), _content(self._target)):
            if ours is not None:
                self._check_unmoved(*ours)
            if ours is None or theirs is None or ours[0] != theirs[0]:
                raise _unequal("one store has a znode that the other does not have", ours, theirs)
            path, znode = ours
            data = translate(path, znode)
            if theirs[1].data != data:
                raise _unequal("a znode of the copy does not hold what was written", ours, theirs)
            count.znodes += 1
            count.size_bytes += len(data)
            self._on_progress(self._seen.znodes + count.znodes, 2 * max(self._seen.znodes, count.znodes))
        count.adapted = translate.adapted
        return count

    def finish(self) -> None:
        """Make the target the log."""
        _resolving(lambda: self._target.transact(self._replace_mark))
        self._target.sync()
        found, commits = self._target.get_many([paths.FORMAT, paths.COMMITS])
        if found is None or commits is None or found.data != self._seen.format or commits.stat.mzxid < found.stat.mzxid:
            raise CorruptDataError("the target does not return what was written last", path=paths.FORMAT)

    # Steps ------------------------------------------------------------------------------------------------------------

    def _put_mark(self, view: ZnodeView) -> None:
        znode = view.get(paths.FORMAT)
        if znode is not None and decode_format(znode.data).unfinished_copy is not None:
            view.set(paths.FORMAT, self._mark)
            return
        names = view.children(ROOT)
        if znode is not None:
            raise UsageError("the target holds a log: copy into an empty store", cluster_id=cluster_id_of(znode.data))
        if names:
            raise UsageError(
                "the target is not empty, and not a log of oncelog: copy into an empty store", znodes=names[:5]
            )
        view.create(paths.FORMAT, self._mark)

    def _check_mark(self, view: ZnodeView) -> None:
        znode = view.get(paths.FORMAT)
        if znode is None or znode.data != self._mark:
            raise LogInUseError("another copy into the same target has begun; run only one at a time")

    def _delete(self, view: ZnodeView, doomed: list[str]) -> None:
        self._check_mark(view)
        for path, znode in zip(doomed, view.get_many(doomed), strict=True):
            if znode is not None:
                view.delete(path)

    def _create(self, view: ZnodeView, batch: list[tuple[str, bytes]]) -> None:
        self._check_mark(view)
        created = [path for path, _ in batch]
        view.get_many(sorted({parent_of(path) for path in created} - set(created)))  # before children: see view.py
        for (path, data), found in zip(batch, view.get_many(created), strict=True):
            if found is None:
                view.create(path, data)
            elif found.data != data:
                raise LogInUseError("another process writes to the target; stop it, then copy again", path=path)

    def _replace_mark(self, view: ZnodeView) -> None:
        znode = view.get(paths.FORMAT)
        if znode is not None and znode.data == self._seen.format:
            return  # an earlier try of this step succeeded
        self._check_mark(view)
        commits = view.get(paths.COMMITS)
        if commits is None:
            raise CorruptDataError("the source holds no log", path=paths.COMMITS)
        view.set(paths.COMMITS, commits.data)
        view.set(paths.FORMAT, self._seen.format)

    def _check_unmoved(self, path: str, znode: Znode) -> None:
        """Check that the source has not changed: all writes, creates and deletes give a newer zxid (invariant I3)."""
        if znode.stat.mzxid > self._seen.newest_zxid:
            raise LogInUseError(
                "the log was used while it was copied, so the copy is invalid: stop every process that uses it, then "
                "copy again",
                changed=path,
            )


class _Translation:
    """Translates the data of each znode for the new store, in the order of one walk over the source.

    Attributes:
        adapted: how many znodes it changed.
    """

    def __init__(self) -> None:
        self._group = ("", 0)
        self.adapted = 0

    def __call__(self, path: str, znode: Znode) -> bytes:
        data = self._translated(path, znode)
        if data != znode.data:
            self.adapted += 1
        return data

    def _translated(self, path: str, znode: Znode) -> bytes:
        if paths.is_partition(path):
            state = payloads.decode_partition(path, znode.data)
            return payloads.encode_partition(replace(state, trim=0)) if state.trim else znode.data
        if paths.is_group(path):
            self._group = (path, znode.stat.version)
        if paths.is_group_partition(path):
            group, version = self._group
            ensure(path.startswith(f"{group}/"), "a group is read before its offsets", path=path)
            offsets = payloads.decode_group_partition(path, znode.data)
            return payloads.encode_group_partition(_lowered(offsets, version)) if version else znode.data
        return znode.data


def _lowered(state: GroupPartitionState, by: int) -> GroupPartitionState:
    current = state.current
    return GroupPartitionState(
        None if current is None else replace(current, order=current.order - by),
        tuple(replace(pending, order=pending.order - by) for pending in state.pending),
    )


def _create_batches(rows: Iterable[tuple[str, bytes]]) -> Iterator[list[tuple[str, bytes]]]:
    """Divide the rows of a walk into batches that fit into one multi, with the sets of parents from earlier batches.

    Such a parent is always an ancestor of the batch's first row.
    """
    batch: list[tuple[str, bytes]] = []
    size = 0
    ancestors: list[tuple[str, int]] = []
    for path, data in rows:
        while ancestors and ancestors[-1][0] != parent_of(path):
            ancestors.pop()
        row_size = len(path.encode()) + len(data)
        if batch and (len(batch) + OTHER_OPERATIONS >= MULTI_MAX_OPS or size + row_size > MULTI_MAX_BYTES):
            yield batch
            batch = []
        if not batch:
            size = len(paths.FORMAT) + len(ROOT) + sum(ancestor_size for _, ancestor_size in ancestors)
        batch.append((path, data))
        size += row_size
        ancestors.append((path, row_size))
    if batch:
        yield batch


def _delete_batches(found: Iterable[str]) -> Iterator[list[str]]:
    """Divide paths into batches that fit into one multi; half of its bytes are left for sets of parents."""
    batch: list[str] = []
    size = 0
    for path in found:
        size += len(path.encode())
        if batch and (len(batch) == DELETES_PER_BATCH or size > MULTI_MAX_BYTES // 2):
            yield batch
            batch, size = [], len(path.encode())
        batch.append(path)
    if batch:
        yield batch


def _resolving(step: Callable[[], T]) -> T:
    """Run an idempotent step again after an unknown outcome, or while its store is unavailable for a moment."""
    return resolving(step, also=(StoreUnavailableError,))


def _unequal(law: str, ours: tuple[str, Znode] | None, theirs: tuple[str, Znode] | None) -> CorruptDataError:
    return CorruptDataError(
        f"the copy is invalid: {law}; copy again",
        source=None if ours is None else ours[0],
        target=None if theirs is None else theirs[0],
    )
