"""Names and places. All runs have the same ones, each below a root of its own."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import oncelog

FLIGHTS = "flights"
"""The topic that the loader writes and the query reads."""

DELAYED = "delayed"
"""The topic that the query writes, with oncelog's sink."""

GROUP = "delays"
"""The consumer group in which the query tells how far it is."""


@dataclass(frozen=True, slots=True)
class Folders:
    """Places of a run.

    Attributes:
        root: the folder of all others; absolute, since the programs of a run are started in it.
        znodes: where the log's metadata is, if not in its folder.
        bucket: the URL of the log, if it is in a bucket.
    """

    root: Path
    znodes: str | None = None
    bucket: str | None = None

    @classmethod
    def given(cls, argument: str) -> Folders:
        """Those that a program was started with."""
        root, znodes, bucket = json.loads(argument)
        return cls(Path(root), znodes, bucket)

    @property
    def argument(self) -> str:
        """What tells a program of them."""
        return json.dumps([str(self.root), self.znodes, self.bucket])

    @property
    def log(self) -> str:
        """The oncelog log: the topic `flights`, and `delayed` where the query writes to it."""
        return self.bucket or str(self.root / "log")

    @property
    def log_options(self) -> dict[str, str]:
        """What Spark is told of the log."""
        return {"path": self.log, **({"znodes": self.znodes} if self.znodes else {})}

    def open_log(self, *, create: bool = False) -> oncelog.Log:
        """Open the log."""
        return oncelog.open(self.log, self.znodes, create=create)

    @property
    def parquet(self) -> Path:
        """What the parquet twin appends to."""
        return self.root / "delayed.parquet"

    @property
    def checkpoint(self) -> Path:
        """Of the streaming query; it stays over all restarts."""
        return self.root / "checkpoint"

    @property
    def loader_report(self) -> Path:
        """A line of JSON per transaction of the loader."""
        return self.root / "loader.jsonl"

    @property
    def hurry(self) -> Path:
        """Exists when the loader is to write what is left at once."""
        return self.root / "hurry"

    def program_log(self, name: str) -> Path:
        """What a program prints."""
        return self.root / f"{name}.txt"

    def ready(self, attempt: int) -> Path:
        """Made by a query's process when its Spark session is up."""
        return self.root / f"ready-{attempt}"

    def mark(self, attempt: int) -> Path:
        """While this exists, the query's process passes the moment of its kill unharmed (see `kills`)."""
        return self.root / f"killed-{attempt}"

    def batch_in_flight(self) -> int | None:
        """The newest batch that Spark has begun: it logs the offsets before it runs the batch."""
        return max(_batches(self.checkpoint / "offsets"), default=None)

    @property
    def is_batch_running(self) -> bool:
        """Whether Spark has begun a batch that it has not finished."""
        begun = self.batch_in_flight()
        return begun is not None and not (self.checkpoint / "commits" / str(begun)).exists()

    def offsets_read(self) -> dict[int, int]:
        """The next offset to read of each partition of `flights`, after the newest batch that Spark has finished."""
        finished = max(_batches(self.checkpoint / "commits"), default=None)
        if finished is None:
            return {}
        _version, _metadata, source = (self.checkpoint / "offsets" / str(finished)).read_text().splitlines()
        offsets = json.loads(source)["topics"][FLIGHTS]["offsets"]
        return {int(partition): offset for partition, offset in offsets.items()}


def _batches(folder: Path) -> list[int]:
    """The batches that a folder of a checkpoint has a file of."""
    return [int(file.name) for file in folder.glob("*") if file.name.isdecimal()]
