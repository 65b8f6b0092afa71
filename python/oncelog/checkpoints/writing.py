"""Makes a new checkpoint folder beside a name that is free, and gives it the name when it is whole.

A folder that was not finished has a name that begins with a dot and ends with ``.partial``, and lacks the file with the
query's id. Nobody takes it for a checkpoint; it may be removed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from oncelog import folders
from oncelog.checkpoints.folder import METADATA, batches
from oncelog.crash_points import CrashPoint, reach
from oncelog.errors import UsageError
from oncelog.randomness import random_id


def write(source: Path, target: Path, replaced: Mapping[str, str], left_out: Collection[str]) -> None:
    """Make a copy of a checkpoint.

    Args:
        source: the checkpoint's folder; it is only read.
        target: the new folder, which must not exist.
        replaced: the content of files that are other ones there, by name.
        left_out: names of files that are not there.

    Raises:
        UsageError: the target exists, the source changed meanwhile, or the file system refuses.
    """
    if target == source or source in target.parents:
        raise UsageError("the new checkpoint must be outside of the old one", folder=str(source), new=str(target))
    _check_free(target)
    partial = target.with_name(f".{target.name}.{random_id()}.partial")
    before = batches(source)
    with _named_errors(target):
        try:
            folders.make(partial)
            for name in [*_files(source, replaced, left_out), METADATA]:
                _copy(source, partial, name, replaced.get(name))
            _sync(partial)
            reach(CrashPoint.CHECKPOINT_COPIED)
            if batches(source) != before:
                raise UsageError(
                    "the query ran while its checkpoint was copied: stop it, and copy again", folder=str(source)
                )
            _check_free(target)
            partial.rename(target)
            folders.sync(target.parent)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _check_free(target: Path) -> None:
    if os.path.lexists(target):
        raise UsageError("the new checkpoint's folder exists already: name another one", folder=str(target))


@contextmanager
def _named_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        _check_free(target)  # another one was faster
        raise UsageError(
            "the new checkpoint could not be written", folder=str(target), problem=str(problem)
        ) from problem


def _files(source: Path, replaced: Mapping[str, str], left_out: Collection[str]) -> list[str]:
    """The names of the files of the new folder, without the file with the query's id, which comes last."""
    found = {str(file.relative_to(source)) for file in source.rglob("*") if file.is_file()}
    other = {*replaced, *left_out}
    gone = {*other, *map(_checksum_of, other), METADATA}
    return sorted((found - gone) | set(replaced))


def _checksum_of(name: str) -> str:
    folder, slash, file = name.rpartition("/")
    return f"{folder}{slash}.{file}.crc"


def _copy(source: Path, target: Path, name: str, text: str | None) -> None:
    file = target / name
    file.parent.mkdir(parents=True, exist_ok=True)
    if text is None:
        shutil.copy2(source / name, file)
    else:
        file.write_text(text, encoding="utf-8", newline="")
    with file.open("rb") as opened:
        os.fsync(opened.fileno())


def _sync(root: Path) -> None:
    for folder, _, _ in os.walk(root):
        folders.sync(Path(folder))
