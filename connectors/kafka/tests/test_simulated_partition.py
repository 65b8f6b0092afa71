"""The command log in a simulated partition: answers that say nothing, pages, trims, topics that are created again."""

from __future__ import annotations

from collections import deque
from functools import partial
from random import Random
from typing import cast

import pytest

from oncelog.errors import CorruptDataError, OutcomeUnknownError
from oncelog.limits import RECENT_MS
from oncelog.ports import Create
from oncelog.testing.znode_store_contract.worlds import FakeTime
from oncelog.znodes.errors import MultiFailedError
from oncelog.znodes.replicated import store
from oncelog.znodes.replicated.command import Part, encode
from oncelog.znodes.replicated.store import ReplicatedZnodeStore
from oncelog_kafka.errors import BrokerAccessError, BrokerUnavailableError, ForeignTopicError
from oncelog_kafka.ledger.partition_log import PartitionLog
from oncelog_kafka.protocol.ports import Appended, Fetched, LedgerTopic, PartitionRequests, Record, RecordBatch


class Partition:
    """Partition 0 of a topic. It gives out two records at a time.

    Attributes:
        answers: to the next requests to append; later ones are acknowledged.
        is_asked_by_id: as brokers of Kafka 4.1 and later are; older ones are asked for a topic's name.
        time_ms: of the appends, as the leader tells it.
        fetches: so far.
        compacted: offsets whose records are gone.
        of_producers: offsets of records whose producer has an id.
        damaged: offsets of records whose checksum does not hold.
        largest: body that it takes, in bytes.
        may_trim: whether its users may delete records.
        is_deleted: whether its topic was deleted.
        stale_end: where the log ends for a leader that was deposed, and that a client asks until it looks for another.
        lookups: of the leader, so far.
        trimmed_behind: the partition is trimmed up to here once the first page of a read was given out.
    """

    def __init__(self) -> None:
        self.topic_id = "first"
        self.is_asked_by_id = True
        self.time_ms = 0
        self.fetches = 0
        self.bodies: list[bytes | None] = []
        self.first = 0
        self.compacted: frozenset[int] = frozenset()
        self.of_producers: set[int] = set()
        self.damaged: set[int] = set()
        self.largest = 1 << 20
        self.may_trim = True
        self.is_deleted = False
        self.stale_end: int | None = None
        self.lookups = 0
        self.answers: deque[str] = deque()
        self.trimmed_behind = 0

    def fetch(self, topic: str, offset: int) -> Fetched | str:
        self.fetches += 1
        if self.stale_end is not None:
            return Fetched(self.topic_id, [self._batch(at) for at in range(offset, self.stale_end)], self.stale_end)
        if self.is_deleted:
            return "UNKNOWN_TOPIC_OR_PARTITION"
        if not self.first <= offset <= len(self.bodies):
            return "OFFSET_OUT_OF_RANGE"
        left = [at for at in range(offset, len(self.bodies)) if at not in self.compacted]
        found = [self._batch(at) for at in left[:2]]
        self.first = max(self.first, self.trimmed_behind)
        return Fetched(self.topic_id, found, len(self.bodies))

    def _batch(self, at: int) -> RecordBatch:
        records = () if at in self.of_producers else (Record(at, 0, self.bodies[at]),)
        return RecordBatch(1, at + 1, records, lambda: at not in self.damaged)

    def take_foreign(self, value: bytes | None, *, has_id: bool) -> None:
        """Append a record of another program."""
        if has_id:
            self.of_producers.add(len(self.bodies))
        self.bodies.append(value)

    def produce(self, topic: str, topic_id: str, body: bytes) -> Appended | str:
        answer = self.answers.popleft() if self.answers else "NONE"
        if self.is_deleted:
            answer = "no answer"
        if len(body) > self.largest:
            return "MESSAGE_TOO_LARGE"
        if answer == "no answer":
            raise BrokerUnavailableError("no answer")
        if topic_id != self.topic_id:
            return "INCONSISTENT_TOPIC_ID"
        if answer in ("NONE", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"):
            self.bodies.append(body)
        if answer != "NONE":
            return answer
        return Appended(topic_id if self.is_asked_by_id else None, len(self.bodies) - 1, self.time_ms)

    def earliest(self, topic: str) -> int:
        return self.first

    def describe(self, topic: str) -> LedgerTopic:
        answer = "UNKNOWN_TOPIC_OR_PARTITION" if self.is_deleted else "NONE"
        return LedgerTopic(answer, self.topic_id, 0, 7, 1, frozenset())

    def delete_before(self, topic: str, offset: int) -> None:
        if not self.may_trim:
            raise BrokerAccessError("the brokers do not allow this")
        self.first = max(self.first, offset)

    def forget_leader(self, topic: str) -> None:
        self.lookups += 1
        self.stale_end = None

    def close(self) -> None: ...

    def opened(self, time: FakeTime | None = None, *, is_read_only: bool = False) -> ReplicatedZnodeStore:
        """A client's store."""
        requests = cast(PartitionRequests, self)
        clock = time or FakeTime()
        connect = partial(PartitionLog, requests, "ledger", self.topic_id, clock, is_read_only=is_read_only)
        return ReplicatedZnodeStore(connect, recent_ms=RECENT_MS)


@pytest.fixture
def partition() -> Partition:
    return Partition()


def test_an_append_whose_answer_says_nothing_is_sent_again_and_counts_once(partition: Partition) -> None:
    partition.answers.extend(["NOT_ENOUGH_REPLICAS_AFTER_APPEND", "no answer", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"])
    partition.opened().multi([Create("/a")])

    assert len(partition.bodies) == 3
    assert partition.opened().children("/") == ["a"]


@pytest.mark.parametrize("answer", ["NOT_LEADER_FOR_PARTITION", "NOT_LEADER_OR_FOLLOWER"])
def test_an_append_to_a_broker_that_no_longer_leads_is_sent_to_the_next(partition: Partition, answer: str) -> None:
    """kafka-python and Java's client have different names for the same answer."""
    partition.answers.append(answer)
    partition.opened().multi([Create("/a")])

    assert partition.opened().children("/") == ["a"]


def test_an_append_that_is_refused_at_its_first_try_was_not_made(partition: Partition) -> None:
    partition.answers.append("TOPIC_AUTHORIZATION_FAILED")

    with pytest.raises(BrokerAccessError, match="takes no entry"):
        partition.opened().multi([Create("/a")])


def test_an_append_that_is_refused_behind_a_try_without_an_answer_may_have_been_made(partition: Partition) -> None:
    partition.answers.extend(["NOT_ENOUGH_REPLICAS_AFTER_APPEND", "TOPIC_AUTHORIZATION_FAILED"])

    with pytest.raises(OutcomeUnknownError, match="was sent before without an answer"):
        partition.opened().multi([Create("/a")])
    assert partition.opened().children("/") == ["a"]


def test_an_append_is_not_tried_for_longer_than_what_was_checked_before_it_holds(partition: Partition) -> None:
    time = FakeTime()
    client = partition.opened(time)
    partition.answers.extend(["no answer"] * 1_000)

    with pytest.raises(OutcomeUnknownError, match="did not acknowledge"):
        client.multi([Create("/a")])
    assert time.monotonic_ms() < 20_000


def test_who_appends_right_behind_what_it_read_knows_the_outcome_without_a_fetch(partition: Partition) -> None:
    client, other = partition.opened(), partition.opened()
    client.multi([Create("/a")])
    before = partition.fetches
    client.multi([Create("/b")])
    with pytest.raises(MultiFailedError, match="/b"):
        client.multi([Create("/b")])
    assert partition.fetches == before

    client.transact(lambda view: view.create("/e"))  # nothing is read anew for a step that writes
    assert partition.fetches == before

    other.multi([Create("/c")])
    before = partition.fetches
    client.multi([Create("/d")])  # behind what it has not read
    assert partition.fetches > before
    assert client.children("/") == other.children("/") == ["a", "b", "c", "d", "e"]


@pytest.mark.parametrize(("is_asked_by_id", "time_ms"), [(False, 0), (True, -1)])
def test_who_is_not_told_which_topic_has_its_entry_or_when_it_was_appended_fetches_it(
    partition: Partition, is_asked_by_id: bool, time_ms: int
) -> None:
    partition.is_asked_by_id, partition.time_ms = is_asked_by_id, time_ms
    client = partition.opened()
    before = partition.fetches
    client.multi([Create("/a")])

    assert partition.fetches == before + 1


def test_an_entry_is_not_appended_to_another_topic_of_the_name(partition: Partition) -> None:
    client = partition.opened()
    client.multi([Create("/a")])
    partition.topic_id, partition.bodies = "second", partition.bodies[:]

    with pytest.raises(CorruptDataError, match="created again"):
        client.multi([Create("/b")])
    assert len(partition.bodies) == 1


def test_a_read_goes_on_to_the_end_though_it_is_trimmed_between_two_pages(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SAVED_EVERY", 3)
    reader, writer = partition.opened(), partition.opened()
    names = [str(number) for number in range(9)]
    for name in names[:2]:
        writer.multi([Create(f"/{name}")])
    start = partition.first
    for name in names[2:]:
        writer.multi([Create(f"/{name}")])
    partition.first, partition.trimmed_behind = start, partition.first

    assert reader.children("/") == names
    assert partition.first == partition.trimmed_behind > start


@pytest.mark.parametrize("entries", [1, 2, 5])
def test_another_topic_of_the_name_is_refused_however_long_it_is(partition: Partition, entries: int) -> None:
    """Two entries were read of the first one."""
    client = partition.opened()
    for name in ("a", "b"):
        client.multi([Create(f"/{name}")])
    partition.topic_id, partition.bodies = "second", []
    stranger = partition.opened()
    for number in range(entries):
        stranger.multi([Create(f"/{number}")])

    with pytest.raises(CorruptDataError, match="created again"):
        client.children("/")


@pytest.mark.parametrize("gone", [{0}, {1}, {0, 1, 2}])
def test_a_topic_that_was_compacted_is_no_ledger_though_its_start_is_where_it_was(
    partition: Partition, gone: set[int]
) -> None:
    client = partition.opened()
    for name in ("a", "b", "c"):
        client.multi([Create(f"/{name}")])
    partition.compacted = frozenset(gone)

    with pytest.raises(CorruptDataError, match=r"compacted for a while|not the one that its writers read"):
        partition.opened()
    assert client.children("/") == ["a", "b", "c"]


def test_a_topic_that_lost_its_newest_entries_is_refused_by_whoever_read_them(partition: Partition) -> None:
    client = partition.opened()
    client.multi([Create("/a")])
    client.multi([Create("/b")])
    del partition.bodies[1:]

    with pytest.raises(CorruptDataError, match="lost its newest entries"):
        client.children("/")


# Records of other programs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_records_of_other_programs_change_nothing_for_anybody(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same steps, with foreign records at any place and without: snapshots, trims, late readers."""
    monkeypatch.setattr(store, "SAVED_EVERY", 4)
    alone, crowded = Partition(), Partition()
    assert played(alone, seed, is_crowded=False) == played(crowded, seed, is_crowded=True)
    assert len(crowded.bodies) > len(alone.bodies)
    assert crowded.first > 0, "the topic was trimmed"


def played(partition: Partition, seed: int, *, is_crowded: bool) -> object:
    """Two clients write, and others begin to read now and then; returns all that they saw."""
    chance = Random(seed)
    clients = [partition.opened(), partition.opened()]
    seen: list[object] = []
    for number in range(30):
        for _ in range(chance.choice((0, 0, 1, 3))):
            value, has_id = chance.choice(FOREIGN)
            if is_crowded and partition.bodies:
                partition.take_foreign(value, has_id=has_id)
        client = chance.choice(clients)
        try:
            client.multi([Create(f"/{chance.randrange(20)}", b"%d" % number)])
        except MultiFailedError as refused:
            seen.append(str(refused))
        reader = chance.choice([*clients, partition.opened()])
        seen.append([(name, znode.data) for name, znode in reader.children_data("/")])
    return seen


COPIED = encode(Part(5, "x", 0, 1, b""))
FOREIGN = [(b"order 17", False), (None, False), (b"", False), (b"order 18", True), (COPIED, True)]


def test_foreign_records_are_counted_once_and_reported(partition: Partition, caplog: pytest.LogCaptureFixture) -> None:
    client = partition.opened()
    client.multi([Create("/a")])
    for value, has_id in FOREIGN:
        partition.take_foreign(value, has_id=has_id)

    assert client.children("/") == client.children("/") == ["a"]
    assert client.foreign == len(FOREIGN)
    assert [record.getMessage() for record in caplog.records] == [
        "the topic ledger of the ledger has records of another program, which are left out: 5 more up to offset 6. "
        "Find out who writes to it, such as a copy of all topics of the cluster"
    ]
    before = partition.fetches
    client.multi([Create("/b")])
    assert partition.fetches == before, "it appended right after the foreign records"


@pytest.mark.parametrize("has_id", [False, True])
def test_a_record_whose_checksum_does_not_hold_is_never_taken_for_a_foreign_one(
    partition: Partition, has_id: bool
) -> None:
    """Its mark or its producer's id may be what was damaged."""
    client = partition.opened()
    for name in ("a", "b", "c"):
        client.multi([Create(f"/{name}")])
    partition.bodies[1] = b"\xff" * 40
    partition.damaged.add(1)
    if has_id:
        partition.of_producers.add(1)

    with pytest.raises(CorruptDataError, match="checksum does not hold") as refused:
        partition.opened()
    assert refused.value.fields["offset"] == 1


@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_entry_that_is_damaged_after_its_mark_is_no_foreign_record(partition: Partition, at: int) -> None:
    client = partition.opened()
    for name in ("a", "b", "c"):
        client.multi([Create(f"/{name}")])
    body = partition.bodies[at]
    assert body is not None
    partition.bodies[at] = body[:-30]

    with pytest.raises(CorruptDataError, match="is damaged"):
        partition.opened()


def test_a_topic_that_has_foreign_records_only_is_no_ledger(partition: Partition) -> None:
    partition.take_foreign(b"order 17", has_id=False)
    partition.take_foreign(COPIED, has_id=True)

    with pytest.raises(ForeignTopicError, match="it belongs to another program") as refused:
        partition.opened()
    assert refused.value.fields == {"topic": "ledger"}


# What others do to the topic ------------------------------------------------------------------------------------------


def test_no_step_fails_because_the_topic_takes_no_snapshot_any_more(
    partition: Partition, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(store, "SAVED_EVERY", 20)
    client = partition.opened()
    client.multi([Create("/0", random_bytes(3_000))])
    partition.largest = 2_000
    for number in range(1, 31):
        client.multi([Create(f"/{number}")])

    tries = [record.getMessage() for record in caplog.records]
    assert len(tries) == 6, "each second entry after the twentieth"
    assert "the metadata's log was not shortened" in tries[0]
    assert "raise it with kafka-configs.sh" in tries[0]
    partition.largest = 1 << 20
    client.multi([Create("/31")])
    client.multi([Create("/32")])
    assert partition.opened().children("/") == sorted(str(number) for number in range(33))
    assert len(caplog.records) == 6, "the snapshot was written"


def test_no_step_fails_because_its_user_may_not_trim_the_topic_any_more(
    partition: Partition, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(store, "SAVED_EVERY", 5)
    client = partition.opened()
    partition.may_trim = False
    for number in range(20):
        client.multi([Create(f"/{number:02}")])
    assert partition.first == 0
    assert "the brokers do not allow this" in caplog.records[-1].getMessage()

    partition.may_trim = True
    for number in range(20, 30):
        client.multi([Create(f"/{number:02}")])
    assert partition.first > 0
    assert len(partition.opened().children("/")) == 30


def random_bytes(size: int) -> bytes:
    return Random(size).randbytes(size)


@pytest.mark.parametrize("is_written", [False, True])
def test_a_topic_that_was_deleted_is_noticed_in_seconds(partition: Partition, is_written: bool) -> None:
    time = FakeTime()
    client = partition.opened(time)
    client.multi([Create("/a")])
    partition.is_deleted = True

    with pytest.raises(CorruptDataError, match="was deleted, and with it the history"):
        client.multi([Create("/b")]) if is_written else client.children("/")
    assert time.monotonic_ms() < 10_000
    assert client.is_broken


def test_a_partition_that_does_not_answer_for_a_while_is_not_taken_for_deleted(partition: Partition) -> None:
    time = FakeTime()
    client = partition.opened(time)
    partition.answers.extend(["no answer"] * 20)
    client.multi([Create("/a")])

    assert time.monotonic_ms() > 7_000
    assert client.children("/") == ["a"]
    assert not client.is_broken


def test_a_reader_that_never_appends_does_not_believe_a_deposed_leader(partition: Partition) -> None:
    """A whole batch is only whole if the ledger that is read has each decision of which a row can be seen."""
    writer, reader = partition.opened(), partition.opened(is_read_only=True)
    writer.multi([Create("/a")])
    assert reader.children("/") == ["a"]
    writer.multi([Create("/b")])
    partition.stale_end = 1

    assert reader.children("/") == ["a", "b"]
    before = partition.lookups
    writer.multi([Create("/c")])
    assert partition.lookups == before, "an append tells by itself who leads"
