"""Copies all metadata of a log from its store into another, empty one, and proves that the copy is equal.

*Offline*: from the beginning of the copy on, no process uses the log, neither its clients nor its tools, and once the
copy is done none ever uses the old store again. Transactions and micro-batches may be open: they are znodes, and their
clients go on in the new store. Nobody can see from outside whether a process is about to write. What can be known is
whether anything was written between the beginning and the end, and then the copy fails.

Crash points. ``/format`` is what makes a store a log.
  begin    ``/format`` of the target holds a mark, by which nobody takes it for a log (`cluster_id_of`)
  copy     batches of znodes, each one multi that checks the mark; a crash leaves the mark and a part of them
  compare  every znode of both stores; nothing is written
  finish   one multi sets ``/commits`` and replaces the mark by the source's ``/format``: now the target is the log
The next copy into a target with a mark puts its own there, removes everything else, and starts from scratch.

What does not carry over, and what is done about it. A store's zxids, versions and times are its own:

Decisions. Write d for the zxid of the write that decided an owner (mzxid of its znode) and S for mzxid of ``/commits``.
Assumptions: the old store rests; every decision set ``/commits`` in the same multi, so that d <= S for every decided
owner and a plan there takes all of them as decided; an owner's outcome is in its data, which is copied as it is; in the
new store the last multi sets ``/commits`` after every owner was created, and every plan reads S after that. Hence d < S
again for every decided owner: what was committed is visible, what was aborted is gone. An open owner says open in its
data, whatever its zxid, and holds back what it held back before. The spans that partitions list are copied as they are,
hence last stable offsets are equal, too. What was settled before is in the index as markers, and no zxid plays a part.

Trim. A partition's trim is a zxid of the old store. There it makes readers with an S from before a settle start over.
Assumption: no reader of the new store has an S from before the last multi, when all those settles were long done. Hence
0 is right; the old number would be wrong, since a reader whose S never reaches it would start over for ever.

Orders. Offsets of a group are ordered by the version that the group's znode had when they were written, and versions
begin again at 0. Every order is lowered by the group's version. Assumption: an order is at most that version. Hence all
orders are 0 or less and stand to each other as before, and the next commit, whose order is 1 or more, comes after them.

Times. The age of open transactions and rounds, of idle ids, producers and groups, and of the collection generation
counts from the copy. Hence everything times out or expires later than it would have, and nothing earlier. What must not
look younger than it is, a round over Kafka, has the time in its data (oncelog_kafka/ledger.py).

A SQLite store records its host outside of the znodes, when it is created: nothing of that is copied.
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
"""Of a batch's multi beside its creates or deletes: the check of the mark, and sets of parents, which are one at each
depth at most, since a batch is a piece of one walk."""

DELETES_PER_BATCH = 400

Progress = Callable[[int, int], None]
"""Called with the znodes done and in total; each counts twice, when it is copied and when it is compared."""


@dataclass(frozen=True, slots=True)
class Copied:
    """What was copied and compared.

    Attributes:
        cluster_id: of the log.
        znodes, size_bytes: that were created in the target; bytes are those of their data.
        compared: znodes that were read in both stores, with the names of their children, and found equal.
        adapted: those among them that hold a trim or orders, which are the store's own and were translated.
    """

    cluster_id: str
    znodes: int
    size_bytes: int
    compared: int
    adapted: int


def cluster_id_of(data: bytes) -> str:
    """The identity of the log in whose store ``/format`` holds `data`.

    Raises:
        UsageError: it is the target of a copy that was not finished.
        CorruptDataError, UnsupportedFormatError: see `paths.decode`.
    """
    found = decode_format(data)
    if found.unfinished_copy is not None:
        raise UsageError(
            "a copy of metadata into this store was not finished, and it is no log yet: run `oncelog meta copy` again"
        )
    return found.cluster_id


def copy(source: ZnodeStore, target: ZnodeStore, *, on_progress: Progress = lambda done, total: None) -> Copied:
    """Copy all metadata of a log into another store. The source is only read.

    Args:
        source: of the log, which nobody uses.
        target: empty, or left by a copy that was not finished.
        on_progress: told of every batch.

    Raises:
        UsageError: the source holds no log, or the target holds something.
        UnsupportedFormatError: either store has another layout.
        LogInUseError: something was written to the source or the target meanwhile.
        CorruptDataError: a znode of the source cannot be read, or the target does not return what was written.
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
    """The source at the beginning.

    Attributes:
        format: data of ``/format``.
        znodes: how many there are to copy.
        newest_zxid: of the last write; a younger one came after this look.
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
    """All znodes but the root and ``/format``, which has no children."""
    return ((path, znode) for path, znode in walk_below(reader, ROOT) if path != paths.FORMAT)


class _Run:
    """One copy.

    Args:
        source, target: the stores.
        seen: the source at the beginning.
        nonce: of this copy's mark; another copy into the same target has another.
        on_progress: told of every batch.
    """

    def __init__(self, source: ZnodeStore, target: ZnodeStore, seen: _Seen, nonce: str, on_progress: Progress) -> None:
        self._source = source
        self._target = target
        self._seen = seen
        self._mark = encode_format(LogFormat(unfinished_copy=nonce))
        self._on_progress = on_progress

    def begin(self) -> None:
        """Mark the target, and remove what a copy that was not finished left in it."""
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
        """Read both stores from end to end: the same paths, hence the same children everywhere, with the same data."""
        self._source.sync()
        self._target.sync()
        count = _Count()
        translate = _Translation()
        for ours, theirs in zip_longest(_content(self._source), _content(self._target)):
            if ours is not None:
                self._check_unmoved(*ours)
            if ours is None or theirs is None or ours[0] != theirs[0]:
                raise _unequal("one store has a znode that the other has not", ours, theirs)
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
                "the target is not empty, and nothing of oncelog: copy into an empty store", znodes=names[:5]
            )
        view.create(paths.FORMAT, self._mark)

    def _check_mark(self, view: ZnodeView) -> None:
        znode = view.get(paths.FORMAT)
        if znode is None or znode.data != self._mark:
            raise LogInUseError("another copy into the same target began; let one of them run alone")

    def _delete(self, view: ZnodeView, doomed: list[str]) -> None:
        self._check_mark(view)
        for path, znode in zip(doomed, view.get_many(doomed), strict=True):
            if znode is not None:
                view.delete(path)

    def _create(self, view: ZnodeView, batch: list[tuple[str, bytes]]) -> None:
        self._check_mark(view)
        created = [path for path, _ in batch]
        view.get_many(sorted({parent_of(path) for path in created} - set(created)))  # first: see znodes/view.py
        for (path, data), found in zip(batch, view.get_many(created), strict=True):
            if found is None:
                view.create(path, data)
            elif found.data != data:
                raise LogInUseError("somebody else writes to the target; find out who, then copy again", path=path)

    def _replace_mark(self, view: ZnodeView) -> None:
        znode = view.get(paths.FORMAT)
        if znode is not None and znode.data == self._seen.format:
            return  # an earlier try of this step won
        self._check_mark(view)
        commits = view.get(paths.COMMITS)
        if commits is None:
            raise CorruptDataError("the source holds no log", path=paths.COMMITS)
        view.set(paths.COMMITS, commits.data)
        view.set(paths.FORMAT, self._seen.format)

    def _check_unmoved(self, path: str, znode: Znode) -> None:
        """Every write of a znode, and every create or delete below it, gives it a younger zxid (invariant I3)."""
        if znode.stat.mzxid > self._seen.newest_zxid:
            raise LogInUseError(
                "the log was used while it was copied, and the copy is void: stop every process that uses it, then "
                "copy again",
                changed=path,
            )


class _Translation:
    """What the data of each znode must be in another store. It follows one walk over the source.

    Attributes:
        adapted: how many it changed.
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
    """Rows of a walk in pieces that one multi takes, with the sets of those parents that earlier pieces created.

    A parent that is not in the piece itself contains its first row, so the ancestors of that row are all there are.
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
    """Paths in pieces that one multi takes; half of its bytes are left to the parents that it sets."""
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
    """Run an idempotent step again, also while its store is away for a moment."""
    return resolving(step, also=(StoreUnavailableError,))


def _unequal(law: str, ours: tuple[str, Znode] | None, theirs: tuple[str, Znode] | None) -> CorruptDataError:
    return CorruptDataError(
        f"the copy is void: {law}; copy again",
        source=None if ours is None else ours[0],
        target=None if theirs is None else theirs[0],
    )
