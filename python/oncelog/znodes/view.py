"""The view through which a step of `transact` reads and writes.

It never writes to the store. It records the reads, buffers the writes and shows them to later reads, and at the end
returns one multi for the whole step.

Why this multi succeeds only if nothing that the step read has changed (invariant I3):
- Every znode that the step read is in the multi with the version that it had: as a `Check`, or as the step's `Set` or
  `Delete`.
- A multi cannot check that a znode is absent, or which children there are. But every create or delete of a znode also
  sets, creates or deletes its parent. So if an absence or a child list changes, the version of the nearest existing
  ancestor changes. That ancestor is read, and therefore checked.
- A version is read before the absence or the children that it stands for. So if there is a change between the two
  reads, the check fails.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from oncelog.errors import ensure
from oncelog.ports import Check, Create, Delete, Op, Set, Stat, Znode, ZnodeReader
from oncelog.znodes.errors import NodeExistsError, NoNodeError
from oncelog.znodes.rules import ROOT, join_path, parent_of, split_path

NOT_YET: Final = -1
"""The zxid and the times in the Stat of a znode that this step wrote: they are not known yet."""


class BufferedView:
    """`ports.ZnodeView` over a reader.

    A znode that the step wrote has the version that it will get, and `NOT_YET` as zxid and time of the write.

    Args:
        reader: of a snapshot that stays open while the view is used.
        reads_are_atomic: whether all reads show one moment. Otherwise they are only in order of time.
    """

    def __init__(self, reader: ZnodeReader, *, reads_are_atomic: bool) -> None:
        self._reader = reader
        self._reads_are_atomic = reads_are_atomic
        self._read: dict[str, Znode | None] = {}
        self._listed: dict[str, list[str]] = {}
        self._created: dict[str, bytes] = {}
        self._set: dict[str, bytes] = {}
        self._blind: dict[str, bytes] = {}
        self._deleted: set[str] = set()
        self._touched: set[str] = set()  # parents of created and deleted znodes
        self.torn_path: str | None = None
        """A path that was absent, and appeared while its ancestor was read. The step cannot be committed."""

    # Reads

    def get(self, path: str) -> Znode | None:
        znode = self._read_once(path)
        if path in self._created:
            return Znode(self._created[path], Stat(NOT_YET, NOT_YET, NOT_YET, NOT_YET, version=0))
        if znode is None or path in self._deleted:
            return None
        if path in self._set or path in self._touched:
            stat = znode.stat._replace(mzxid=NOT_YET, mtime_ms=NOT_YET, version=znode.stat.version + 1)
            return Znode(self._set.get(path, znode.data), stat)
        return znode

    def get_many(self, paths: Iterable[str]) -> list[Znode | None]:
        wanted = list(paths)
        self._read_all([path for path in dict.fromkeys(wanted) if path not in self._read])
        return [self.get(path) for path in wanted]

    def children(self, path: str) -> list[str]:
        listed = {join_path(path, name) for name in self._list_once(path)}
        created = {below for below in self._created if parent_of(below) == path}
        return sorted(split_path(below)[1] for below in (listed | created) - self._deleted)

    def children_data(self, path: str) -> list[tuple[str, Znode]]:
        listed = self._listed.get(path)
        if listed is None or any(join_path(path, name) not in self._read for name in listed):
            found = self._reader.children_data(path) if self._read_once(path) is not None else []
            self._listed.setdefault(path, [name for name, _ in found])
            for name, znode in found:
                self._remember(join_path(path, name), znode)
        seen = [(name, self.get(join_path(path, name))) for name in self.children(path)]
        return [(name, znode) for name, znode in seen if znode is not None]

    # Writes

    def create(self, path: str, data: bytes = b"") -> None:
        if self.get(path) is not None:
            raise NodeExistsError("the znode to create exists", path=path)
        ensure(path not in self._deleted, "a step never recreates what it deleted: versions would repeat", path=path)
        parent = parent_of(path)
        if self.get(parent) is None:
            self.create(parent)
        self._created[path] = data
        self._touched.add(parent)

    def create_blind(self, path: str, data: bytes = b"") -> None:
        if path not in self._read and self.get(parent_of(path)) is not None:
            self._read[path] = None  # the caller guarantees it; the parent is in the read set
        self.create(path, data)

    def set(self, path: str, data: bytes) -> None:
        if self.get(path) is None:
            raise NoNodeError("the znode to set does not exist", path=path)
        (self._created if path in self._created else self._set)[path] = data

    def set_blind(self, path: str, data: bytes) -> None:
        if path in self._read:
            self.set(path, data)  # a znode that was read is always checked
        else:
            split_path(path)
            self._blind[path] = data

    def delete(self, path: str) -> None:
        if self.get(path) is None:
            raise NoNodeError("the znode to delete does not exist", path=path)
        parent = parent_of(path)
        self._read_once(parent)
        self._touched.add(parent)
        if path in self._created:
            del self._created[path]
        else:
            self._set.pop(path, None)
            self._deleted.add(path)

    # The multi

    @property
    def has_writes(self) -> bool:
        return bool(self._created or self._set or self._blind or self._deleted or self._touched)

    def read_set(self) -> dict[str, Stat]:
        """The existing znodes that the step read. Its result is valid as long as none of them changes."""
        return {path: znode.stat for path, znode in self._read.items() if znode is not None}

    def checks(self) -> list[Op]:
        """Operations that only check the read set."""
        return [Check(path, stat.version) for path, stat in self.read_set().items()]

    def ops(self) -> list[Op]:
        """Operations for the read set and the writes, one for each path.

        Children are deleted before parents, and created after them. Blind sets come last: one can only fail if
        everything that the step read is unchanged. Then the znode is really missing, and it is not a race.
        """
        self._ensure_parents_stay()
        versions = {path: znode.stat.version for path, znode in self._read.items() if znode is not None}
        sets = self._sets()
        return [
            *(Check(path, versions[path]) for path in versions if path not in sets and path not in self._deleted),
            *(Delete(path, versions[path]) for path in sorted(self._deleted, reverse=True)),
            *(Create(path, data) for path, data in sorted(self._created.items())),
            *(Set(path, data, versions[path]) for path, data in sets.items()),
            *(Set(path, data) for path, data in self._blind.items()),
        ]

    def _sets(self) -> dict[str, bytes]:
        """The step's sets, and sets to the same data for parents of created and deleted znodes."""
        touched = {path: self._read[path] for path in sorted(self._touched - self._deleted)}
        unchanged = {path: znode.data for path, znode in touched.items() if znode is not None}
        return unchanged | self._set

    def _ensure_parents_stay(self) -> None:
        for path in self._created:
            parent = parent_of(path)
            stays = parent in self._created or (self._read[parent] is not None and parent not in self._deleted)
            ensure(stays, "a step never deletes the parent of what it creates", path=path)

    # Reading each znode once

    def _read_once(self, path: str) -> Znode | None:
        if path not in self._read:
            self._read_all([path])
        return self._read[path]

    def _read_all(self, paths: list[str]) -> None:
        if not paths:
            return
        for path, znode in zip(paths, self._reader.get_many(paths), strict=True):
            self._remember(path, znode)

    def _remember(self, path: str, znode: Znode | None) -> None:
        if path in self._read:
            return
        self._read[path] = znode
        if path in self._blind:
            self._turn_blind_set_into_set(path)
        if znode is None:
            self._read_ancestor_of_absent(path)

    def _turn_blind_set_into_set(self, path: str) -> None:
        data = self._blind.pop(path)
        if self._read[path] is None:
            raise NoNodeError("the znode to set does not exist", path=path)
        self._set[path] = data

    def _read_ancestor_of_absent(self, path: str) -> None:
        """Add the nearest existing ancestor to the read set, and check that `path` is still absent after that read."""
        ensure(path != ROOT, "the root znode exists always")
        ancestor = parent_of(path)
        if ancestor in self._read or self._read_once(ancestor) is None or self._reads_are_atomic:
            return  # the ancestor was read before; or it is absent itself, and its own ancestor was read
        if self._reader.get(path) is not None:
            self.torn_path = path

    def _list_once(self, path: str) -> list[str]:
        if path not in self._listed:
            exists = self._read_once(path) is not None
            self._listed[path] = self._reader.children(path) if exists else []
        return self._listed[path]
