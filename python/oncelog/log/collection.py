"""Collection of files that no znode names: orphans of crashed writers, and what retention let go.

Assumptions: a file's name carries the generation its writer read before the first byte; the step that first names a
file refuses names older than the previous generation; a generation lasts at least limits.GENERATION_MIN_AGE_MS, and for
as long as a writer from before it is at work (holds.py). Hence a file older than the previous generation that no index
names can never be named again. A reader may still hold a plan that retention overtook, so a file must in addition have
been found so, and that old, by a collection at least that long ago: one that was younger may have been named, and read,
since. That time counts from after the look at the indexes.

Crash points: after the generation was raised, after each removal, after the candidates were stored: each leaves less
work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from oncelog import limits
from oncelog.crash_points import CrashPoint, reach
from oncelog.errors import FileUnavailableError, UnknownTopicError
from oncelog.log import candidates, generations, holds, partition_reads, topics
from oncelog.log.holds import Hold
from oncelog.log.index_files import IndexFiles
from oncelog.ports import FileStore, Stat, ZnodeStore, ZnodeView
from oncelog.znodes import paths
from oncelog.znodes.log_payloads import encode_generation

FAILURES_TO_STOP = 10
"""So many removals may fail before the others are left to the next collection."""

FOLDERS = (generations.DATA, generations.INDEX, generations.MANIFESTS)


@dataclass(frozen=True, slots=True)
class Collected:
    """What a collection did, or would do.

    Attributes:
        generation: the collection generation afterwards.
        removed: names of the files removed (with `dry_run`, that would be removed now).
        waiting: unreferenced files whose time has not come.
        foreign: files whose names oncelog does not give; they are left alone.
        size_bytes: of `removed`.
        held_by: writers for which the generation was not raised though it was old enough: files of it stay.
    """

    generation: int
    removed: tuple[str, ...]
    waiting: tuple[str, ...]
    foreign: tuple[str, ...]
    size_bytes: int
    held_by: tuple[Hold, ...] = ()


def collect(
    store: ZnodeStore,
    files: FileStore,
    *,
    now_ms: Callable[[], int],
    dry_run: bool = False,
    on_file: Callable[[str], None] = lambda name: None,
) -> Collected:
    """Remove files that nothing names and nobody can still be about to name or read.

    Args:
        store, files: of the log.
        now_ms: asks for the store's time.
        dry_run: say what would be removed, and change nothing.
        on_file: called for each file of the log as it is looked at; for progress.

    Raises:
        FileUnavailableError: some file cannot be removed now; the others were.
    """
    began_ms = now_ms()
    seen = _next_generation(store, began_ms)
    generation = seen.next if dry_run else _raise_generation(store, seen)
    found_before = candidates.read(store)
    referenced = referenced_files(store, IndexFiles(files))
    looked_ms = now_ms()
    due, waiting, young, foreign = {}, {}, [], []
    for name, size, _ in _all_files(files):
        on_file(name)
        if name in referenced:
            continue
        if not generations.is_name(name):
            foreign.append(name)
            continue
        if generations.generation_of(name) >= generation - 1:
            young.append(name)  # somebody may be about to name it
            continue
        found_ms = min(found_before.get(name, looked_ms), looked_ms)
        if name in found_before and looked_ms - found_ms >= limits.GENERATION_MIN_AGE_MS:
            due[name] = size
        else:
            waiting[name] = found_ms
    reach(CrashPoint.COLLECT)
    if not dry_run:
        holds.release_overdue(store, looked_ms)
        failures = _remove(files, due)
        candidates.write(store, waiting | {name: found_before[name] for name in failures})
        for failure in failures.values():
            raise failure
    reach(CrashPoint.COLLECTED)
    return Collected(generation, tuple(due), (*waiting, *young), tuple(foreign), sum(due.values()), seen.held_by)


def _remove(files: FileStore, names: Iterable[str]) -> dict[str, FileUnavailableError]:
    """Remove what can be removed: one file that cannot does not keep the others. Returns why, by name.

    After some failures it is the store that cannot, and the rest is not tried; it counts as failed for the same reason.
    """
    failures: dict[str, FileUnavailableError] = {}
    for name in names:
        try:
            if len(failures) < FAILURES_TO_STOP:
                files.delete(name)
            else:
                failures[name] = next(iter(failures.values()))
        except FileUnavailableError as failure:
            failures[name] = failure
    return failures


def count_files(files: FileStore) -> int:
    """Files that a collection looks at."""
    return sum(1 for _ in _all_files(files))


def referenced_files(store: ZnodeStore, index_files: IndexFiles) -> set[str]:
    """Every file that an index of the log names. Reads all of every index."""
    named: set[str] = set()
    for partition in topics.all_partitions(store):
        with suppress(UnknownTopicError):  # deleted meanwhile
            _, found = partition_reads.walk_index(
                store, partition, lambda _, index: set(index.files_named(index_files))
            )
            named |= found
    return named


def _all_files(files: FileStore) -> Iterable[tuple[str, int, int]]:
    for folder in FOLDERS:
        yield from files.names(folder)


@dataclass(frozen=True, slots=True)
class _Seen:
    """The generation as a collection found it: `next` is what it works at, the present one or the one behind it."""

    present: int
    next: int
    version: int
    held_by: tuple[Hold, ...]


def _next_generation(store: ZnodeStore, now_ms: int) -> _Seen:
    """What to raise the generation to: it stays until it is old enough and no writer from before it is at work.

    The generation is read first: whoever began before it was set last has a znode by then.
    """
    with store.snapshot() as reader:
        present = generations.current(reader)
        znode = reader.get(paths.GENERATION)
        stat = znode.stat if znode is not None else Stat(0, 0, now_ms, now_ms, 0)
        if now_ms - stat.mtime_ms < limits.GENERATION_MIN_AGE_MS:
            return _Seen(present, present, stat.version, ())
        held_by = holds.before(reader, stat, now_ms)
    return _Seen(present, present if held_by else present + 1, stat.version, held_by)


def _raise_generation(store: ZnodeStore, seen: _Seen) -> int:
    def step(view: ZnodeView) -> int:
        znode = view.get(paths.GENERATION)
        if seen.next == seen.present or znode is None or znode.stat.version != seen.version:
            return generations.current(view)  # another collection may have raised it
        view.set(paths.GENERATION, encode_generation(seen.next))
        return seen.next

    return store.transact(step)
