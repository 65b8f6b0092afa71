"""Kafka beside other targets under one decision: a query that writes to simulated brokers and to simulated places.

``python -m simulation.kafka.together`` runs seeds. The query, its places and most laws are those of
`simulation.targets`; of Kafka itself hold the laws of `GuardedCluster` and `Auditor`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from oncelog.batches.attempt import Target
from oncelog.batches.ledger import RoundRecord
from oncelog.batches.offsets import GroupProgress
from oncelog.batches.rules import BatchRequest
from oncelog.errors import OncelogError
from oncelog.ports import ZnodeStore
from oncelog.types import TopicPartition
from oncelog_kafka.errors import ParticipantLostError
from oncelog_kafka.ledger.ledger import KAFKA_LEDGERS
from oncelog_kafka.operations import inspection
from oncelog_kafka.options import sink_options as options
from oncelog_kafka.protocol.kafka_rounds import KafkaRound
from oncelog_kafka.protocol.participants import ONGOING, Participant
from oncelog_kafka.protocol.ports import CommittedOffset
from oncelog_kafka.sinks.target import KafkaTarget
from simulation.__main__ import run_command
from simulation.clients import number_of, persevere
from simulation.faults import Fault, NoFaults, RandomFaults
from simulation.kafka.brokers import SHARDS, Settings
from simulation.kafka.cluster import PREFIX, GuardedCluster, brokers_of
from simulation.kafka.jobs import Executors, Place, SimulatedJob
from simulation.kafka.laws import Auditor
from simulation.kafka.transactions import Identity
from simulation.laws import Cast
from simulation.processes import Process
from simulation.sinks import Told
from simulation.swarm import Outcome
from simulation.targets.books import Books
from simulation.targets.destinations import Destination, Rows
from simulation.targets.places import Database, Folder, Lake, OwnStore
from simulation.targets.queries import TargetQuery
from simulation.targets.swarm import SPECULATIVE, Staging, play

PROGRAM = "simulation.kafka.together"

GROUP = "progress"
SOURCE = TopicPartition("source", 0)

TIMEOUTS_MS = (20_000, 60_000, 600_000)
"""Of transactions. What times out behind its decision is written again."""


class KafkaDestination(Destination):
    """A topic of simulated brokers.

    Args:
        more: options of the sink.
        copies: see `SimulatedJob`.
    """

    kind = KAFKA_LEDGERS

    def __init__(
        self, place: Place, executors: Executors, more: Mapping[str, object], *, is_choosy: bool, copies: float
    ) -> None:
        super().__init__("kafka", is_choosy=is_choosy, speculative=copies)
        self.options = options.parse(
            {
                "kafka.bootstrap.servers": "simulated:1",
                "znodes": "simulated",
                "topic": place.topic,
                "transactionalIdPrefix": PREFIX,
                **more,
            }
        )
        self._topic = place
        self._executors = executors
        self._prepared: dict[str, list[int]] = {}
        self._may_be_lost: set[Identity] = set()

    @property
    def prefix(self) -> str:
        return PREFIX

    def opened(self, process: Process, store: ZnodeStore) -> Target[Any]:
        return KafkaTarget(store, brokers_of(self._topic.cluster, process), self.options)  # type: ignore[arg-type]

    def job(self, process: Process, request: BatchRequest, rows: Rows, told: Told) -> SimulatedJob:
        is_calm = isinstance(process.world.faults, NoFaults)
        copies = 0.0 if is_calm else self._speculative
        return SimulatedJob(
            process.world, process, self._topic, self._executors, rows, self._prepared, copies=copies, is_calm=is_calm
        )

    def progress(self, start: int | None, end: int) -> GroupProgress[Any] | None:
        if self.options.group_id is None:
            return None
        return GroupProgress(GROUP, {} if start is None else {SOURCE: start}, {SOURCE: end})

    def mend(self, query: TargetQuery, process: Process, error: OncelogError) -> bool:
        """Give up what timed out behind its decision if the checkpoint is lost; otherwise a restart must do."""
        if not isinstance(error, ParticipantLostError):
            return False
        if not query.checkpoint.formers:
            return "restart the query" in str(error)
        query.stop_others(process)
        self._may_be_lost |= {_identity(part) for one in self._topic.cluster.unfinished() for part in one.participants}
        brokers, store = brokers_of(self._topic.cluster, process), process.store()
        found = persevere(process, lambda: inspection.accept_loss(brokers, store, PREFIX))
        process.world.counts["participants given up"] += sum(len(lost.missing) for lost in found)
        return True

    def given_up(self) -> set[int]:
        lost = (one.transactional_id for one in self._may_be_lost if one not in self._topic.cluster.committed)
        return {number for name in lost for number in self._prepared.get(name, ())}

    def shows(self, record: RoundRecord) -> bool:
        if not isinstance(record, KafkaRound):
            raise TypeError(record)
        participants = self._topic.cluster.newest(record).participants
        shown = self._may_be_lost | set(self._topic.cluster.committed)
        return all(_identity(part) in shown for part in participants)

    def seen(self, in_log: Sequence[tuple[int, int]]) -> list[list[int]]:
        self._topic.cluster.settle()
        values = self._topic.cluster.values(self._topic.topic)
        partitions = range(self._topic.partitions)
        return [[number_of(value) for at, _, value in values if at == partition] for partition in partitions]

    def left(self, end: int) -> Iterator[str]:
        cluster = self._topic.cluster
        if found := cluster.list_ids([ONGOING]):
            yield f"{self.name}: transactions are left open: {found}"
        place = SOURCE.topic, SOURCE.partition
        held = cluster.offsets(GROUP, [place])
        at = held.get(place) if isinstance(held, dict) else held
        is_at_end = isinstance(at, CommittedOffset) and at.offset == end
        if self.options.group_id is not None and not is_at_end and not self._may_be_lost:
            yield f"{self.name}: the group is at {at}, and the last batch ends at {end}"


def _identity(part: Participant) -> Identity:
    return Identity(part.transactional_id, part.producer_id, part.epoch)


class KafkaStaging(Staging):
    """Kafka's topic, and one or two other targets."""

    def destinations(self, books: Books, partitions: int) -> list[Destination]:
        chance = self._chance
        kinds = chance.sample((None, Folder, Database, Lake, OwnStore), chance.choice((1, 1, 2)))
        found = [self.destination(books, kind, at, partitions) for at, kind in enumerate(kinds)]
        return [*found, self._kafka()] if chance.random() < 0.5 else [self._kafka(), *found]

    def cast(self, faults: RandomFaults) -> Cast:
        self._has_sound_clocks = Fault.CLOCK_JUMP not in faults.kinds
        return super().cast(faults)

    def _kafka(self) -> KafkaDestination:
        chance, world = self._chance, self._world
        version = chance.choice((1, 2))
        settings = Settings(version=version, max_epoch=chance.choice((3, 2**15 - 1)), is_kafka_3=version == 1)
        longest_ms = chance.choice((0, 20, 500))
        cluster = GuardedCluster(world, settings, marker_delay_ms=lambda: chance.randint(0, longest_ms))
        place = Place(cluster, "out", chance.randint(1, 2))
        cluster.create_topic(place.topic, place.partitions)
        Auditor(world, cluster, lambda decided: None, has_sound_clocks=self._has_sound_clocks)
        for _ in range(chance.choice((0, 0, 3))):
            move = chance.randrange(SHARDS), chance.randrange(2_000), chance.randrange(2_000)
            world.scheduler.start(lambda move=move: cluster.move_coordinators(*move), chance.randrange(5_000))  # type: ignore[misc]
        more: dict[str, object] = {
            "transactionTimeoutMs": chance.choice(TIMEOUTS_MS),
            "onTimedOutParticipant": "rewrite",
            "participants": chance.randint(1, 3),
        }
        if chance.random() < 0.5:
            more["groupId"] = GROUP
        executors = Executors(Random(chance.random()))
        return KafkaDestination(place, executors, more, is_choosy=False, copies=chance.choice(SPECULATIVE))


def run(seed: int, *, steps_kept: int | None = None, is_on_log: bool | None = None) -> Outcome:
    """Run one seed and check the result; see `simulation.targets.swarm.play`."""
    return play(seed, KafkaStaging, PROGRAM, steps_kept=steps_kept, is_on_log=is_on_log)


if __name__ == "__main__":
    sys.exit(run_command(sys.argv[1:], run, None, PROGRAM, __doc__))
