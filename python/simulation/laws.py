"""What must be true at the end of a run: of the log, of what its clients saw, and of what is left over.

The aftermath runs without faults. Transactions that are still prepared end as their other database says. Queries and
copiers continue until they have caught up. Overdue transactions time out, and everything decided is settled. Then new
readers read the log, and it is checked. Then time passes until everything that may be removed is removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from oncelog import limits
from oncelog.coordinator import groups, owners, settler
from oncelog.errors import UnknownTopicError
from oncelog.log import collection
from oncelog.log.index_files import IndexFiles
from oncelog.testing import checker, invariants
from oncelog.testing.history import End, Ending
from oncelog.types import IsolationLevel, TopicPartition
from oncelog.znodes import paths
from simulation.clients import number_of
from simulation.copiers import CopyingClient
from simulation.errors import LawBrokenError
from simulation.faults import NoFaults
from simulation.producers import TransactionalClient
from simulation.readers import ALL, ReadingClient, RecordedConsumer, fetch
from simulation.sinks import QueryClient
from simulation.targets.queries import TargetQuery
from simulation.world import World

COLLECTIONS = 4
"""After this many collections, a generation apart, every file that nothing names is gone."""


Records = dict[str, list[tuple[int, int, int]]]
"""Partition, offset and number of each record, by topic."""


@dataclass(slots=True)
class Cast:
    """The clients and topics of a run.

    Attributes:
        topics: with their numbers of partitions.
        doomed: topics that will be deleted, with their numbers of partitions.
        producers, readers, copiers, queries: the clients that are checked at the end.
        targets: queries that write to places, and the topic that their rows may be in, too.
    """

    topics: dict[str, int]
    doomed: dict[str, int] = field(default_factory=dict)
    producers: list[TransactionalClient] = field(default_factory=list)
    readers: list[ReadingClient] = field(default_factory=list)
    copiers: list[CopyingClient] = field(default_factory=list)
    queries: list[QueryClient] = field(default_factory=list)
    targets: list[tuple[TargetQuery, str]] = field(default_factory=list)

    def partitions(self, *names: str) -> list[TopicPartition]:
        """The partitions of these topics, or of all topics that are not deleted."""
        counts = self.topics | self.doomed
        return [TopicPartition(name, at) for name in names or sorted(self.topics) for at in range(counts[name])]


def judge(world: World, cast: Cast) -> None:
    """Bring the run to its end and check everything.

    Raises:
        LawBrokenError: laws are broken; names those that the first failing check found.
    """
    world.faults = NoFaults()
    world.scheduler.start(lambda: _Aftermath(world, cast).run())
    world.scheduler.run()


class _Aftermath:
    """The end of one run."""

    def __init__(self, world: World, cast: Cast) -> None:
        self._world = world
        self._cast = cast
        self._process, self._log = world.open("aftermath")

    def run(self) -> None:
        """See `judge`."""
        self._world.set_clock_right()
        self._delete_doomed()
        self._end_prepared()
        self._time_out()
        self._catch_up()
        self._time_out()
        self._hold(invariants.violations(self._log))
        self._hold(self._removed_too_early())
        self._read_all(IsolationLevel.READ_UNCOMMITTED)
        before = self._read_all(IsolationLevel.READ_COMMITTED)
        self._fetch_groups()
        self._hold_history()
        self._hold_copies(before)
        self._look_into_recreated()
        self._remove_all_that_may_go()
        self._hold(invariants.violations(self._log, has_files=False))
        self._hold(self._leaks())
        if self._read_all(IsolationLevel.READ_COMMITTED) != before:
            raise LawBrokenError("I10: upkeep changed what a reader sees")

    def _delete_doomed(self) -> None:
        """Delete the topics that clients may not have managed to delete."""
        for name in self._cast.doomed:
            self._world.leaving.add(name)
            with suppress(UnknownTopicError):
                self._log.admin.delete_topic(name)
            self._world.gone.add(name)

    def _end_prepared(self) -> None:
        for client in self._cast.producers:
            process, log = self._world.open(client.name)
            client.finish(process, log)
            recorder = self._world.recorder(process)
            for name in client.promised.values():  # the other database has decided, whoever commits it
                recorder.ok(recorder.invoke(End(name, Ending.COMMIT)))

    def _catch_up(self) -> None:
        targets = [query for query, _ in self._cast.targets]
        clients: list[QueryClient | CopyingClient | TargetQuery] = [*self._cast.queries, *self._cast.copiers, *targets]
        for client in clients:
            client.catch_up(self._world.process(client.name))

    def _time_out(self) -> None:
        """Let time-outs pass, so that everything open is aborted and everything decided is settled."""
        self._process.sleep_ms(2 * max(limits.MAX_TRANSACTION_TIMEOUT_MS, limits.ROUND_TIMEOUT_MS))
        self._log.admin.time_out()
        self._hold([f"{owner}: open, and overdue" for owner in owners.open_owners(self._log.services.store)])
        invariants.settle_all(self._log)

    def _removed_too_early(self) -> Iterable[str]:
        """Only retention moves a log start."""
        for topic in self._log.admin.list_topics():
            if topic.retention_ms is None and topic.retention_bytes is None:
                for partition in self._log.admin.describe_topic(topic.topic).partitions:
                    if partition.log_start:
                        yield f"{topic.topic}-{partition.partition}: begins at {partition.log_start}, without retention"

    # What clients see -------------------------------------------------------------------------------------------------

    def _read_all(self, isolation: IsolationLevel) -> Records:
        """What a final reader finds in one poll; the check of the history notices what is missing."""
        process, log = self._world.open(f"final-{isolation}")
        reader = RecordedConsumer(self._world, process, log, self._cast.partitions(), isolation)
        found: Records = {name: [] for name in self._cast.topics}
        for record in reader.poll(ALL, is_final=isolation is IsolationLevel.READ_COMMITTED):
            found[record.topic].append((record.partition, record.offset, number_of(record.value)))
        return found

    def _fetch_groups(self) -> None:
        recorder = self._world.recorder(self._process)
        clients: list[TransactionalClient | ReadingClient] = [*self._cast.producers, *self._cast.readers]
        for client in clients:
            staying = [partition for partition in client.partitions if partition.topic in self._cast.topics]
            if client.group is not None and staying:
                with self._log.consumer(group_id=client.group) as consumer:
                    fetch(recorder, consumer, client.group, staying)
        for copier in self._cast.copiers:
            with self._log.consumer(group_id=copier.group) as consumer:
                fetch(recorder, consumer, copier.group, [copier.source])

    def _hold_history(self) -> None:
        report = checker.judge(self._world.history)
        for name in ("transactions", "committed", "aborted", "of unknown outcome"):
            self._world.counts[name] += report.counts[name]
        if not report.is_clean:
            raise LawBrokenError(str(report))

    def _hold_copies(self, records: Records) -> None:
        """Whatever went wrong, a copy has exactly the records of its source."""
        read = {name: sorted(number for _, _, number in some) for name, some in records.items()}
        for query in self._cast.queries:
            self._compare(query.name, read[query.source], read[query.target])
        if self._cast.copiers:
            first = self._cast.copiers[0]
            self._compare("the copiers", read[first.source.topic], read[first.targets[0].topic])
        for query_of_targets, topic in self._cast.targets:
            query_of_targets.judge([(partition, number) for partition, _, number in sorted(records[topic])])

    def _compare(self, name: str, source: Sequence[int], target: Sequence[int]) -> None:
        if source != target:
            missing, extra = set(source) - set(target), set(target) - set(source)
            raise LawBrokenError(f"{name}: {missing=} {extra=} doubled={len(target) - len(set(target))}")

    def _look_into_recreated(self) -> None:
        """A new topic shares nothing with a deleted topic of the same name."""
        for name, partitions in self._cast.doomed.items():
            self._log.create_topic(name, partitions=partitions)
            new = self._log.consumer(auto_offset_reset="earliest", isolation_level=IsolationLevel.READ_UNCOMMITTED)
            new.subscribe([name])
            if new.poll() or any(new.end_offsets(new.assignment()).values()):
                raise LawBrokenError(f"{name}: a new topic has records of a deleted one")
            self._log.admin.delete_topic(name)

    # What is left over ------------------------------------------------------------------------------------------------

    def _remove_all_that_may_go(self) -> None:
        settler.forget_unlisted(self._log.services.store)
        if self._cast.doomed:
            self._process.sleep_ms(limits.TOMBSTONE_MS + 1)
            self._log.admin.expire_offsets()
        for _ in range(COLLECTIONS):
            self._process.sleep_ms(limits.GENERATION_MIN_AGE_MS + 1)
            collected = self._log.admin.collect()
            if not collected.removed and not collected.waiting:
                return  # every file is named, so another collection would change nothing

    def _leaks(self) -> Iterable[str]:
        yield from invariants.leaks(self._log, before_upkeep=False)
        store = self._log.services.store
        for name in sorted(set(map(paths.name_of, store.children(paths.TOPICS))) - self._cast.topics.keys()):
            yield f"{name}: a znode of a deleted topic is left"
        for group_id, group in groups.describe(store, groups.list_groups(store)).items():
            for name in sorted({partition.topic for partition in group.offsets} - self._cast.topics.keys()):
                yield f"{group_id}: an offset of a deleted topic {name} is left"
        named = collection.referenced_files(store, IndexFiles(self._log.services.files))
        for name in sorted(self._world.disk.contents.keys() - named):
            yield f"{name}: a file that nothing names is left"
        for name in sorted(named - self._world.disk.contents.keys()):
            yield f"{name}: a file that the index names is gone"

    def _hold(self, broken: Iterable[str]) -> None:
        found = list(broken)
        if found:
            raise LawBrokenError("\n".join(found))
