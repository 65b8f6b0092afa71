"""Collection of files that no znode names: orphans of crashed writers, and what retention let go.

Assumptions: a file's name carries the generation its writer read before the first byte; the step that first names a
file refuses names older than the previous generation; a generation lasts at least limits.GENERATION_MIN_AGE_MS, and for
as long as a writer from before it is at work (generations.py). Hence a file older than the previous generation that no
index names can never be named again. A reader may still hold a plan that retention overtook, so a file must in addition
have been found so, and that old, by a collection at least that long ago: one that was younger may have been named, and
read, since. That time counts from after the look at the indexes, and is kept in znodes between two collections: the
*candidates*.

Crash points: after the generation was raised, after each removal, after the candidates were stored: each leaves less
work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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
"""So many removals may fail before the others are left to the next collection."""

NAMES_PER_ZNODE = 3000
"""Bounds a znode of names to about 200 kB."""

MAX_PARTS = 99
"""Bounds what is kept to 300,000 names: collections can remove as many in an hour."""

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
            young.append(name)  # somebody may be about to name it
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


# Candidates -----------------------------------------------------------------------------------------------------------
#
# The first znode has the oldest finds, and names those that have the others. A part is written before the znode that
# names it, and removed once none does: what is read is what one collection wrote, or less of it, where another one
# writes at the same time. What is missing is found anew, and only goes later.


def read_candidates(store: ZnodeStore) -> dict[str, int]:
    """When the files that nothing names were found first, in milliseconds of the store's time, by name."""
    first = _read(store, paths.CANDIDATES)
    found_ms = dict(first.found_ms)
    for part in first.parts:
        found_ms |= _read(store, paths.candidates_part(part)).found_ms
    return found_ms


def _keep_candidates(store: ZnodeStore, found_ms: Mapping[str, int]) -> None:
    """Keep these in place of what is kept; of more than can be kept, those that were found first."""
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
    """Create or set a znode; remove it where there is no data."""

    def step(view: ZnodeView) -> None:
        is_there = view.get(path) is not None
        if data is not None:
            (view.set if is_there else view.create)(path, data)
        elif is_there:
            view.delete(path)

    store.transact(step)
