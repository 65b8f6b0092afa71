"""Targets that need no Spark: a log of two partitions, and a folder of text files."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from oncelog.batches.committables import CommittableRound, CommitterTarget, committable_ledgers
from oncelog.batches.committer import Committable, Committer
from oncelog.batches.ledger import LedgerKind
from oncelog.metadata import open_metadata
from oncelog.ports import ZnodeStore
from oncelog.spark.kit.options import Use
from oncelog.spark.log_target import Job, LogTarget
from oncelog.spark.options import parse_sink_options
from oncelog.spark.writing import WriteTask, Written
from oncelog.testing.target_contract import PREFIX, TargetWorld
from tests.support.log.logs import TOPIC, log_world, values
from tests.support.log.rounds import written


class LogTargetWorld(TargetWorld):
    """Two partitions of a log."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._logs = log_world(folder)
        self._world = self._logs.__enter__()
        self._world.log.create_topic(TOPIC, partitions=2)

    def target(self) -> LogTarget:
        given = {"path": self._world.log.path, "topic": TOPIC, "transactionalIdPrefix": PREFIX}
        return LogTarget(self._world.log, parse_sink_options(given, Use.FOREACH_BATCH))

    def job(self, values: Sequence[str]) -> Job:
        def run(_: WriteTask) -> Iterable[Written]:
            rows: dict[int, list[bytes]] = {}
            for number, value in enumerate(values):
                rows.setdefault(number % 2, []).append(value.encode())
            found = written(self._world.log, rows)
            return [Written(TOPIC, place.partition, block) for place, blocks in found.items() for block in blocks]

        return run

    def broken_job(self) -> Job:
        broken = super().broken_job()
        return lambda _: broken.anything

    def visible(self) -> list[str]:
        return [value.decode() for number in (0, 1) for value in values(self._world.log, number) if value is not None]

    def close(self) -> None:
        self._logs.__exit__(None, None, None)


class TextFolder(Committer[Callable[[], Sequence[str]]]):
    """A folder of text files, one line a row."""

    def __init__(self, folder: Path) -> None:
        self.shown = folder / "shown"
        self.hidden = folder / "hidden"
        self.shown.mkdir(exist_ok=True)

    def stage(self, job: Callable[[], Sequence[str]], attempt: str) -> Committable:
        (self.hidden / attempt).mkdir(parents=True)
        lines = job()
        names = tuple(f"{attempt}.{number}" for number, _ in enumerate(lines))
        for name, line in zip(names, lines, strict=True):
            (self.hidden / attempt / name).write_text(line)
        return Committable(names, len(lines))

    def commit(self, parts: Sequence[str]) -> None:
        for name in parts:
            source, target = self.hidden / name.partition(".")[0] / name, self.shown / name
            if source.exists() or not target.exists():
                source.replace(target)

    def discard(self, attempt: str) -> None:
        shutil.rmtree(self.hidden / attempt, ignore_errors=True)

    def list_staged(self) -> list[str]:
        return sorted({path.parent.name for path in self.left_over})

    @property
    def left_over(self) -> list[Path]:
        return list(self.hidden.glob("*/*"))


TEXTS: LedgerKind[CommittableRound] = committable_ledgers("/texts")


class TextFolderWorld(TargetWorld):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.place = TextFolder(folder)
        self.store: ZnodeStore = open_metadata(str(folder / "ledger"))

    def target(self) -> CommitterTarget[Any]:
        return CommitterTarget(self.store, TEXTS, lambda _: self.place)

    def job(self, values: Sequence[str]) -> Callable[[], Sequence[str]]:
        return lambda: values

    def visible(self) -> list[str]:
        return [path.read_text() for path in self.place.shown.iterdir()]

    def broken_job(self) -> Any:
        broken = super().broken_job()
        return lambda: broken.anything

    def close(self) -> None:
        self.store.close()
