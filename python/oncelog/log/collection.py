"""Collection: removes files that no index names, which crashed writers, retention or deletions left.

Assumptions: a file's name contains the generation that its writer read before it wrote the first byte. The step that
first names a file refuses files older than the previous generation. A generation lasts at least
limits.GENERATION_MIN_AGE_MS, and until all writers that began before it are done (generations.py). Hence a file that no
index names, and that is older than the previous generation, can never be named again.

A reader may still hold a plan that retention overtook. So a file is only deleted if an earlier collection, at least
limits.GENERATION_MIN_AGE_MS ago, already found it unreferenced and older than the previous generation: a younger file
may have been named and read since. That time starts after the earlier collection had read the indexes. Between
collections it is kept in znodes, the *candidates*.

Crash points: after the generation was raised, after each removal, after the candidates were stored. The next collection
does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from oncelog import limits
from oncelog.crash_points import CrashPoint, reach
from oncelog.errors import FileUnavailableError, UnknownTopicError
from oncelog.log import generations, partition_reads, topics
from oncelog.log.generations import Hold
from oncelog.log.index_files import IndexFiles
from oncelog.ports import FileStore, ZnodeStore, ZnodeView
from oncelog.randomness import random_id
from oncelog.znodes import paths
from oncelog.znodes.log_payloads import Candidates, decode_candidates, encode_candidates

FAILURES_TO_STOP = 10
"""After this many failures, the other removals are left to the next collection."""

NAMES_PER_ZNODE = 3000
"""Bounds a znode of names to about 200 kB."""

MAX_PARTS = 99
"""Bounds the candidates to 300,000 names, about as many as collections can remove in an hour."""

FOLDERS = (generations.DATA, generations.INDEX, generations.MANIFESTS)


@dataclass(frozen=True, slots=True)
class Collected:
    """What a collection did, or with `dry_run` would do.

    Attributes:
        generation: the collection generation afterwards.
        removed: names of the removed files.
        waiting: unreferenced files that may not be removed yet.
        foreign: files whose names are not oncelog's; they are ignored.
        size_bytes: total size of `removed`.
        held_by: running writers that kept the generation from being raised, so that its files are kept.
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
    """Remove files that nothing names, and that nobody can still name or read.

    Args:
        now_ms: returns the store's time.
        dry_run: return what would be removed, and change nothing.
        on_file: called with the name of each file that is checked, for progress.

    Raises:
        FileUnavailableError: a file could not be removed; the others were.
    """
    began_ms = now_ms()
    generation, held_by = generations.raised(store, began_ms, dry_run=dry_run)
    found_before = read_candidates(store)
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
            young.append(name)  # its writer may still name it
            continue
        found_ms = min(found_before.get(name, looked_ms), looked_ms)
        if name in found_before and looked_ms - found_ms >= limits.GENERATION_MIN_AGE_MS:
            due[name] = size
        else:
            waiting[name] = found_ms
    reach(CrashPoint.COLLECT)
    if not dry_run:
        generations.release_overdue(store, looked_ms)
        failures = _remove(files, due)
        _keep_candidates(store, waiting | {name: found_before[name] for name in failures})
        for failure in failures.values():
            raise failure
    reach(CrashPoint.COLLECTED)
    return Collected(generation, tuple(due), (*waiting, *young), tuple(foreign), sum(due.values()), held_by)


def _remove(files: FileStore, names: Iterable[str]) -> dict[str, FileUnavailableError]:
    """Remove the files; returns the failures, by name. A failure does not stop the other removals.

    After `FAILURES_TO_STOP` failures the file store itself is the problem. The rest is not tried, and counts as failed
    for the same reason.
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
    """The number of files that a collection checks."""
    return sum(1 for _ in _all_files(files))


def size_of(files: FileStore, names: Collection[str]) -> int:
    """The total size of these files, in bytes. Lists all files of the log, unless there are no names."""
    return sum(size for name, size, _ in _all_files(files) if name in names) if names else 0


def referenced_files(store: ZnodeStore, index_files: IndexFiles) -> set[str]:
    """All files that any index of the log names. Reads all indexes completely."""
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


# Candidates -----------------------------------------------------------------------------------------------------------
#
# The first znode has the oldest candidates, and names the parts, which are znodes with the others. A part is written
# before the first znode names it, and removed after that. So a reader gets what one collection wrote, or less if
# another one writes at the same time. A candidate that is missing is found again, and its file is only removed later.


def read_candidates(store: ZnodeStore) -> dict[str, int]:
    """When each candidate was first found, in milliseconds of the store's time, by file name."""
    first = _read(store, paths.CANDIDATES)
    found_ms = dict(first.found_ms)
    for part in first.parts:
        found_ms |= _read(store, paths.candidates_part(part)).found_ms
    return found_ms


def _keep_candidates(store: ZnodeStore, found_ms: Mapping[str, int]) -> None:
    """Replace the stored candidates. If there are too many, keep those that were found first."""
    rows = sorted(found_ms.items(), key=lambda row: (row[1], row[0]))
    oldest, *others = [dict(rows[at : at + NAMES_PER_ZNODE]) for at in range(0, max(len(rows), 1), NAMES_PER_ZNODE)]
    parts = {f"{random_id()}-{number}": chunk for number, chunk in enumerate(others[:MAX_PARTS])}
    for part, chunk in parts.items():
        _put(store, paths.candidates_part(part), encode_candidates(Candidates(chunk), is_first=False))
    _put(store, paths.CANDIDATES, encode_candidates(Candidates(oldest, list(parts)), is_first=True))
    for left_over in sorted(set(store.children(paths.CANDIDATES)) - parts.keys()):
        _put(store, paths.candidates_part(left_over), None)


def _read(store: ZnodeStore, path: str) -> Candidates:
    znode = store.get(path)
    return Candidates({}) if znode is None else decode_candidates(path, znode.data)


def _put(store: ZnodeStore, path: str, data: bytes | None) -> None:
    """Create or set a znode; delete it if `data` is None."""

    def step(view: ZnodeView) -> None:
        is_there = view.get(path) is not None
        if data is not None:
            (view.set if is_there else view.create)(path, data)
        elif is_there:
            view.delete(path)

    store.transact(step)
