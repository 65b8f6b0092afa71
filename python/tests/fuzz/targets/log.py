"""A whole log, one of whose znodes is mutated: reading, describing, checking, writing, upkeep."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from oncelog import limits, randomness, runtime
from oncelog.clients.producer import Producer
from oncelog.errors import OncelogError
from oncelog.log.index_files import IndexFiles
from oncelog.log.partition_log import roll
from oncelog.ports import ANY_VERSION, Create, Set
from oncelog.runtime import Log
from oncelog.types import ConsumerRecord, IsolationLevel, OffsetAndMetadata
from oncelog.znodes import paths
from oncelog.znodes.memory import MemoryZnodeStore
from oncelog.znodes.walking import walk
from tests.fuzz.mutators import mutated_json, parsed
from tests.fuzz.target import Target, Verdict, expect
from tests.support.log.logs import TOPIC, DrivenTime, MemoryFiles, partitions, started, tp, write_committed

MOST_RECORDS = 1000


class PassingTime(DrivenTime):
    """Durations also pass when somebody looks at them: what is tried until a deadline ends."""

    def monotonic_ms(self) -> int:
        self.durations_ms += 10
        return self.durations_ms


class LogZnode(Target):
    """A log with transactions of every outcome, a rolled index, groups and settled owners, and one mutated znode.

    Oracle: a value that is another valid one cannot be told, so rows may be missing or shown that were not. But every
    call ends, in an answer or an error of ours that is no broken invariant; whatever record is read is one that was
    written, under the value it was written with; and no offset of a partition is shown twice.
    """

    name = "log-znode"
    weight = 0.03

    def prepare(self) -> None:
        self._time = PassingTime()
        self._files = MemoryFiles()
        store = self._store()
        with randomness.drawn_from(Random(0).randbytes):
            log = runtime.open_with("/fuzz", "memory", store, self._files, self._time)
            self._fill(log)
        self.znodes = [(path, znode.data) for path, znode in walk(store, "/") if path != "/"]
        self._writes = max(znode.stat.mzxid for _, znode in walk(store, "/"))
        self.payloads = [at for at, (_, data) in enumerate(self.znodes) if data]
        self.trees = [parsed(self.znodes[at][1]) for at in self.payloads]
        self.written = {record.value for record in _records(log, IsolationLevel.READ_UNCOMMITTED)}

    def _store(self) -> MemoryZnodeStore:
        return MemoryZnodeStore(now_ms=self._time.now_ms, clock=self._time, jitter=lambda: 0.5)

    def _fill(self, log: Log) -> None:
        log.create_topic(TOPIC, partitions=2)
        copier = started(log)
        copier.begin_transaction()
        _send(copier, b"a", b"b")
        copier.commit_transaction()
        copier.begin_transaction()
        _send(copier, b"aborted")
        copier.abort_transaction()
        for where in partitions(log):
            roll(log.services.store, IndexFiles(self._files), where)
        copier.begin_transaction()
        _send(copier, b"c", number=1)
        _send(copier, b"d")
        copier.send_offsets_to_transaction({tp(): OffsetAndMetadata(2, "me")}, "g")
        copier.commit_transaction()
        _send(log.producer(), b"plain", number=1)
        still = started(log, "open")
        still.begin_transaction()
        _send(still, b"open")
        still.send_offsets_to_transaction({tp(1): OffsetAndMetadata(1)}, "g")

    def valid(self) -> Iterable[bytes]:
        return [at.to_bytes(2, "big") + self.znodes[at][1] for at in self.payloads]

    def make(self, chance: Random) -> bytes:
        at = chance.choice(self.payloads)
        return at.to_bytes(2, "big") + mutated_json(chance, self.znodes[at][1], self.trees)

    def check(self, data: bytes) -> Verdict:
        at = int.from_bytes(data[:2], "big") % len(self.znodes)
        store = self._store()
        ops = [Create(path, data[2:] if at == number else znode) for number, (path, znode) in enumerate(self.znodes)]
        store.multi(ops)
        for _ in range(self._writes):  # trims of partitions name moments of the log as it was
            store.multi([Set(paths.COMMITS, b"", ANY_VERSION)])
        files = MemoryFiles()
        files.contents = dict(self._files.contents)
        refused = 0
        try:
            log = runtime.open_with("/fuzz", "memory", store, files, self._time)
        except OncelogError:
            return Verdict.REFUSED
        for call in (_read, _describe, _produce, _upkeep):
            refused += call(self, log)
        return Verdict.REFUSED if refused else Verdict.CORRECT

    def pass_ms(self, duration_ms: int) -> None:
        self._time.pass_ms(duration_ms)

    def expect_written(self, found: list[ConsumerRecord]) -> None:
        expect(all(record.value in self.written for record in found), "a record that nobody wrote", found=found)
        places = [(record.partition, record.offset) for record in found]
        expect(len(set(places)) == len(places), "an offset is shown twice", places=places)


def _send(producer: Producer, *values: bytes, number: int = 0) -> None:
    for value in values:
        producer.send(TOPIC, value, partition=number, timestamp_ms=1_700_000_000_000)
    producer.flush()


def _records(log: Log, isolation: IsolationLevel) -> list[ConsumerRecord]:
    found: list[ConsumerRecord] = []
    with log.consumer(isolation_level=isolation, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([TOPIC])
        while len(found) < MOST_RECORDS and (polled := consumer.poll(timeout_ms=0)):
            found += polled
    expect(len(found) < MOST_RECORDS, "reading does not end", count=len(found))
    return found


def _refused(calls: Iterable[Callable[[], object]]) -> int:
    """How many of the calls ended in an error of ours."""
    refused = 0
    for call in calls:
        try:
            call()
        except OncelogError:
            refused += 1
    return refused


def _read(target: LogZnode, log: Log) -> int:
    return _refused(
        lambda isolation=isolation: target.expect_written(_records(log, isolation))  # type: ignore[misc]
        for isolation in IsolationLevel
    )


def _describe(target: LogZnode, log: Log) -> int:
    admin = log.admin
    return _refused([
        admin.list_topics,
        lambda: admin.describe_topic(TOPIC),
        admin.list_groups,
        lambda: admin.describe_group("g"),
        admin.list_transactions,
        lambda: admin.describe_transaction("copier"),
        admin.find_hanging,
        admin.list_prefixes,
        admin.verify,
        admin.measure_metadata,
        lambda: list(admin.dump_metadata()),
    ])  # fmt: skip


def _produce(target: LogZnode, log: Log) -> int:
    return _refused([lambda: write_committed(started(log), b"a")])


def _upkeep(target: LogZnode, log: Log) -> int:
    target.pass_ms(limits.MAX_TRANSACTION_TIMEOUT_MS)
    admin = log.admin
    return _refused([admin.time_out, admin.settle, admin.enforce_retention, admin.expire_offsets, admin.collect])


TARGETS: dict[str, Callable[[], Target]] = {LogZnode.name: LogZnode}
