"""What writes the rows of a batch, and what it tells of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from oncelog_kafka.protocol.extents import Extents, merged
from oncelog_kafka.protocol.participants import Participant

TaskSettings = Mapping[str, Any]
"""The fields of `io.oncelog.kafka.sink.SinkSettings`, except the columns."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a batch's tasks prepared.

    Attributes:
        participants: one for each task that had rows.
        is_retried: whether Spark ran a task or a stage more than once.
        extents_of: where the rows of each participant are, by transactional id.
    """

    participants: tuple[Participant, ...]
    is_retried: bool
    extents_of: Mapping[str, Extents] = field(default_factory=dict)

    @property
    def extents(self) -> Extents:
        """Where the rows of the batch are."""
        return merged(self.extents_of.values())


class Job(Protocol):
    """Writes the rows of a batch: its plan in Spark, whose tasks prepare participants."""

    def parallelism(self) -> int:
        """Spark's default parallelism."""

    def speculates(self) -> bool:
        """Whether Spark runs speculative copies, which may begin after their batch, under an id of a later batch."""

    def run(self, settings: TaskSettings, buckets: int | None) -> Written:
        """Run the plan once.

        Args:
            settings: what the tasks need to know.
            buckets: number of content-hash participants; None if Spark's partitions are the participants.
        """
