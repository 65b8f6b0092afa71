"""Collection of files that no znode names: orphans of crashed writers, and what retention let go.

Assumptions: a file's name carries the generation its writer read before the first byte; the step that first names a
file refuses names older than the previous generation; a generation lasts at least limits.GENERATION_MIN_AGE_MS. Hence a
file older than the previous generation that no index names can never be named again. A reader may still hold a plan
that retention overtook, so a file must in addition have been found unreferenced in an earlier generation.

Crash points: after the generation was raised, after candidates were stored, after each removal: each leaves less work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from oncelog import limits
from oncelog.crash_points import CrashPoint, reach
from oncelog.errors import UnknownTopicError
from oncelog.log import generations, partition_log, topics
from oncelog.log.index_files import IndexFiles
from oncelog.ports import FileStore, ZnodeReader, ZnodeStore, ZnodeView
from oncelog.znodes import fields, paths

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
    """

    generation: int
    removed: tuple[str, ...]
    waiting: tuple[str, ...]
    foreign: tuple[str, ...]
    size_bytes: int


def collect(
    store: ZnodeStore,
    files: FileStore,
    *,
    now_ms: int,
    dry_run: bool = False,
    on_file: Callable[[str], None] = lambda name: None,
) -> Collected:
    """Remove files that nothing names and nobody can still be about to name or read.

    Args:
        store, files: of the log.
        now_ms: the store's time.
        dry_run: say what would be removed, and change nothing.
        on_file: called for each file of the log as it is looked at; for progress.
    """
    generation = _next_generation(store, now_ms) if dry_run else _raise_generation(store, now_ms)
    found_before = _read_candidates(store)
    referenced = referenced_files(store, IndexFiles(files))
    removed, waiting, foreign, size_bytes = [], {}, [], 0
    for name, size, _ in _all_files(files):
        on_file(name)
        if name in referenced:
            continue
        if not generations.is_name(name):
            foreign.append(name)
            continue
        found_in = found_before.get(name, generation)
        if generations.generation_of(name) < generation - 1 and found_in < generation:
            removed.append(name)
            size_bytes += size
        else:
            waiting[name] = found_in
    reach(CrashPoint.COLLECT)
    if not dry_run:
        _write_candidates(store, waiting)
        for name in removed:
            files.delete(name)
    reach(CrashPoint.COLLECTED)
    return Collected(generation, tuple(removed), tuple(waiting), tuple(foreign), size_bytes)


def count_files(files: FileStore) -> int:
    """Files that a collection looks at."""
    return sum(1 for _ in _all_files(files))


def referenced_files(store: ZnodeStore, index_files: IndexFiles) -> set[str]:
    """Every file that an index of the log names. Reads all of every index."""
    named: set[str] = set()
    for partition in topics.all_partitions(store):
        with suppress(UnknownTopicError):  # deleted meanwhile
            _, index = partition_log.read_with_index(store, partition)
            named.update(index.files_named(index_files))
    return named


def _all_files(files: FileStore) -> Iterable[tuple[str, int, int]]:
    for folder in FOLDERS:
        yield from files.names(folder)


def _raise_generation(store: ZnodeStore, now_ms: int) -> int:
    def step(view: ZnodeView) -> int:
        generation = _next_generation(view, now_ms)
        if generation != generations.current(view):
            view.set(paths.GENERATION, paths.encode({"generation": generation}))
        return generation

    return store.transact(step)


def _next_generation(reader: ZnodeReader, now_ms: int) -> int:
    """The generation that a collection works at: the present one until it is old enough, then the next."""
    generation = generations.current(reader)
    znode = reader.get(paths.GENERATION)
    is_young = znode is None or now_ms - znode.stat.mtime_ms < limits.GENERATION_MIN_AGE_MS
    return generation if is_young else generation + 1


CANDIDATES = "/files/candidates"
MAX_CANDIDATES = 3000
"""Bounds the znode; what does not fit waits one collection longer."""


def _read_candidates(store: ZnodeStore) -> dict[str, int]:
    znode = store.get(CANDIDATES)
    if znode is None:
        return {}
    return paths.decode(
        CANDIDATES,
        znode.data,
        lambda payload: {name: fields.number(generation) for name, generation in payload["files"].items()},
    )


def _write_candidates(store: ZnodeStore, waiting: dict[str, int]) -> None:
    kept = dict(sorted(waiting.items(), key=lambda item: (item[1], item[0]))[:MAX_CANDIDATES])

    def step(view: ZnodeView) -> None:
        data = paths.encode({"files": kept})
        if view.get(CANDIDATES) is None:
            view.create(CANDIDATES, data)
        else:
            view.set(CANDIDATES, data)

    store.transact(step)
