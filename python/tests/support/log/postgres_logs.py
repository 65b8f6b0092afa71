"""Logs on a real PostgreSQL, by a clock that the test drives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from oncelog.ports import Timing, Znode, ZnodeReader, ZnodeStore
from oncelog.znodes.clock import uniform_jitter
from oncelog.znodes.postgres import PostgresZnodeStore
from tests.support.log.logs import checked
from tests.support.log.server_logs import ServerLogWorld, ServerTime


class DrivenReader:
    """A reader, with the times of znodes read by the test's clock."""

    def __init__(self, reader: ZnodeReader, time: ServerTime) -> None:
        self._reader = reader
        self._time = time

    def get(self, path: str) -> Znode | None:
        return self.get_many([path])[0]

    def get_many(self, paths: Iterable[str]) -> list[Znode | None]:
        return [znode and self._time.driven(znode) for znode in self._reader.get_many(paths)]

    def children(self, path: str) -> list[str]:
        return self._reader.children(path)

    def children_data(self, path: str) -> list[tuple[str, Znode]]:
        return [(name, self._time.driven(znode)) for name, znode in self._reader.children_data(path)]


class DrivenPostgresStore(PostgresZnodeStore):
    """The store, with such readers."""

    def __init__(self, url: str, time: ServerTime) -> None:
        super().__init__(url, timing=Timing(time.now_ms, time, uniform_jitter))
        self._time = time
        self._live = DrivenReader(self._live, time)  # type: ignore[assignment]

    @contextmanager
    def snapshot(self) -> Iterator[ZnodeReader]:
        with super().snapshot() as reader:
            yield DrivenReader(reader, self._time)


class PostgresLogWorld(ServerLogWorld):
    """The znodes in a schema."""

    kind = "postgres"

    def opened_by(self, time: ServerTime, url: str) -> ZnodeStore:
        return DrivenPostgresStore(url, time)


def postgres_log_world(folder: Path, url: str) -> AbstractContextManager[PostgresLogWorld]:
    return checked(PostgresLogWorld(folder, url))
