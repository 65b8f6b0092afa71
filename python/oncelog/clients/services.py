"""What every client of one log shares: the stores, the coordinator, the clock. Built by runtime.py."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from oncelog.coordinator import sweeper
from oncelog.coordinator.producer_ids import ProducerIds
from oncelog.coordinator.rounds import RoundServices
from oncelog.coordinator.settler import Settler
from oncelog.coordinator.transactions import TransactionCoordinator
from oncelog.errors import OutcomeUnknownError, RetriableError
from oncelog.log.index_files import IndexFiles
from oncelog.ports import Clock, FileStore, ZnodeStore
from oncelog.types import TopicIdPartition


@dataclass(frozen=True)
class LogServices:
    """The parts of one open log.

    Attributes:
        cluster_id: of the log; offsets of another log are never mistaken for this one's.
    """

    cluster_id: str
    store: ZnodeStore
    files: FileStore
    clock: Clock
    producer_ids: ProducerIds
    coordinator: TransactionCoordinator

    def new_settler(self) -> Settler:
        """A settler for one client."""
        return Settler(self.store, self.clock)

    def new_index_files(self) -> IndexFiles:
        """Index files with a cache for one client."""
        return IndexFiles(self.files)

    def new_round_services(self) -> RoundServices:
        """What a sink's driver needs to run rounds."""
        return RoundServices(self.store, self.new_index_files(), self.producer_ids)

    def settle_quietly(self, settler: Settler, partitions: Iterable[TopicIdPartition]) -> None:
        """Settle if it is due. Only upkeep: what fails is left to the next settler."""
        with suppress(RetriableError, OutcomeUnknownError):
            settler.settle_if_due(partitions)

    def unblock(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Time out what is overdue in `partitions`, then settle what is decided."""
        blocked = list(partitions)
        sweeper.sweep(self.store, self.coordinator, blocked)
        self.new_settler().settle_now(blocked)
