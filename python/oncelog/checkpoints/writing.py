"""Makes the folder of a new checkpoint. The file with the query's id comes last: without it, it is none."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from oncelog.checkpoints.folder import METADATA, batches, checksums_of
from oncelog.checkpoints.storage import Storage, exists_error
from oncelog.crash_points import CrashPoint, reach
from oncelog.errors import UsageError


def write(source: Storage, target: Storage, replaced: Mapping[str, str], left_out: Collection[str]) -> None:
    """Make a copy of a checkpoint.

    Args:
        source: the checkpoint's folder; it is only read.
        target: the new folder, which must not exist.
        replaced: the content of files that are other ones there, by name.
        left_out: names of files that are not there.

    Raises:
        UsageError: the target exists, the source changed meanwhile, or the file system refuses.
    """
    if source.contains(target):
        raise UsageError(
            "the new checkpoint must be outside of the old one", folder=source.location, new=target.location
        )
    with _named_errors(target):
        if not target.is_free():
            raise exists_error(target)
        before = source.times()
        with target.made() as new:
            for name, content in source.contents(_kept(before, replaced, left_out)):
                new.put(name, content)
            for name, text in replaced.items():
                new.put(name, text.encode())
            reach(CrashPoint.CHECKPOINT_COPIED)
            _check_stands(source, batches(before))
            for name, content in source.contents([METADATA]):
                new.put(name, content)
            new.keep_access(source)


def _check_stands(source: Storage, before: tuple[int | None, int | None]) -> None:
    if batches(source.times()) != before:
        raise UsageError(
            "the query ran while its checkpoint was copied: stop it, and copy again", folder=source.location
        )


@contextmanager
def _named_errors(target: Storage) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise UsageError(
            "the new checkpoint could not be written", folder=target.location, problem=str(problem)
        ) from problem


def _kept(found: Collection[str], replaced: Collection[str], left_out: Collection[str]) -> list[str]:
    """The files that are there as they are, without the one with the query's id."""
    other = {*replaced, *left_out}
    return sorted(set(found) - {*other, *map(checksums_of, other), METADATA})
