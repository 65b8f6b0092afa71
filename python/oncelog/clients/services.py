"""What all clients of one log share: the stores, the coordinator, the clock. runtime.py builds it."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.coordinator.producer_ids import ProducerIds
from oncelog.coordinator.rounds import RoundServices
from oncelog.coordinator.transactions import TransactionCoordinator
from oncelog.log.index_files import IndexFiles
from oncelog.ports import Background, Clock, FileStore, ZnodeStore


@dataclass(frozen=True)
class LogServices:
    """The parts of one open log.

    Attributes:
        cluster_id: identifies the log, so that offsets of another log are not mistaken for its own.
        background: runs background work of the clients.
    """

    cluster_id: str
    store: ZnodeStore
    files: FileStore
    clock: Clock
    producer_ids: ProducerIds
    coordinator: TransactionCoordinator
    background: Background

    def __repr__(self) -> str:
        return f"LogServices(cluster_id={self.cluster_id!r})"

    def new_index_files(self) -> IndexFiles:
        """Index files, with a cache, for one client."""
        return IndexFiles(self.files)

    def new_round_services(self) -> RoundServices:
        """The parts with which a sink's driver runs rounds."""
        return RoundServices(self.store, self.new_index_files(), self.producer_ids)
