"""A znode store in one JSON file, for the processes of one host: the example of docs/guides/extending-store.md."""

from __future__ import annotations

import fcntl
import json
import os
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from oncelog import folders
from oncelog.errors import CorruptDataError, IllegalStateTransitionError, OutcomeUnknownError, StoreUnavailableError
from oncelog.ports import Op, Stat, Timing, Znode, ZnodeReader
from oncelog.znodes.clock import SYSTEM_TIMING
from oncelog.znodes.rules import ensure_acceptable
from oncelog.znodes.schemes import Scheme
from oncelog.znodes.transact import IsFresh, Transacting, always_fresh, ensure_fresh
from oncelog.znodes.tree import Tree


class JsonFileStore(Transacting):
    """All znodes in one file, which every write replaces."""

    reads_are_atomic = True

    def __init__(self, file: Path, timing: Timing = SYSTEM_TIMING) -> None:
        self.timing = timing
        self._file = file
        self._is_closed = False
        folders.make(file.parent)
        with self._locked():
            if not file.exists():
                self._save(Tree())

    def get(self, path: str) -> Znode | None:
        return self._load().get(path)

    def get_many(self, paths: Iterable[str]) -> list[Znode | None]:
        return self._load().get_many(paths)

    def children(self, path: str) -> list[str]:
        return self._load().children(path)

    def children_data(self, path: str) -> list[tuple[str, Znode]]:
        return self._load().children_data(path)

    @contextmanager
    def snapshot(self) -> Iterator[ZnodeReader]:
        yield self._load()

    def multi(self, ops: Sequence[Op], *, is_fresh: IsFresh = always_fresh) -> None:
        ensure_acceptable(ops)
        with self._locked():
            tree = self._load()
            ensure_fresh(is_fresh)
            if tree.apply(ops, self.timing.now_ms()):
                self._save(tree)

    def sync(self) -> None:
        """Nothing to do: a read sees every write that was acknowledged."""

    def close(self) -> None:
        self._is_closed = True

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One writer at a time, over all threads and processes; each opens the lock file itself."""
        with self._file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(lock, fcntl.LOCK_UN)  # closing is not enough if a child was forked in between

    def _load(self) -> Tree:
        if self._is_closed:
            raise IllegalStateTransitionError("the znode store is closed", file=str(self._file))
        try:
            found = json.loads(self._file.read_bytes())
            znodes = {path: Znode(b64decode(data), Stat(*stat)) for path, (data, stat) in found["znodes"].items()}
            return Tree(znodes, found["zxid"], found["last_ms"])
        except OSError as error:
            raise StoreUnavailableError("the file cannot be read", file=str(self._file), reason=str(error)) from error
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptDataError("the file holds no znodes", file=str(self._file), reason=str(error)) from error

    def _save(self, tree: Tree) -> None:
        znodes = {path: (b64encode(znode.data).decode(), znode.stat) for path, znode in tree.znodes.items()}
        new = self._file.with_suffix(".new")
        try:
            with new.open("w") as output:
                json.dump({"zxid": tree.zxid, "last_ms": tree.last_ms, "znodes": znodes}, output)
                output.flush()
                os.fsync(output.fileno())
        except OSError as error:
            raise StoreUnavailableError("nothing was written", file=str(self._file), reason=str(error)) from error
        try:
            new.replace(self._file)  # a crash leaves the old file or the new one, and both are complete
            folders.sync(self._file.parent)
        except OSError as error:
            raise OutcomeUnknownError("run the step again", file=str(self._file), reason=str(error)) from error


def _file(url: str) -> Path:
    return Path(url.removeprefix("json:"))


SCHEME = Scheme(
    open=lambda url, create: JsonFileStore(_file(url)),
    normalised=lambda url, root: f"json:{_file(url).absolute()}",
    is_there=lambda url: _file(url).exists(),
)
