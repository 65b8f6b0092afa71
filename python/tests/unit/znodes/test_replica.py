"""What a command log's entries do: the same everywhere, once each, and never on a log that is not the one."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock, Thread, current_thread

import pytest

from oncelog.errors import CorruptDataError, OutcomeUnknownError, StoreUnavailableError, UnsupportedFormatError
from oncelog.limits import RECENT_MS, TOMBSTONE_MS
from oncelog.ports import Create, Delete, Op, Set
from oncelog.znodes.replicated import snapshot
from oncelog.znodes.replicated.command import Batch, Part, decode, encode, packed
from oncelog.znodes.replicated.port import BEGINNING, Entry, TrimmedError
from oncelog.znodes.replicated.replica import Replica
from oncelog.znodes.replicated.snapshot import load, parts
from oncelog.znodes.replicated.store import ReplicatedZnodeStore
from tests.support.harness.waiting import until

HISTORY: list[Sequence[Op]] = [
    [Create("/a", b"1"), Create("/a/b", bytes(range(256)))],
    [Set("/a", b"2", version=0)],
    [Set("/a", b"3", version=0)],  # refused: others were there before
    [Create("/c"), Delete("/a/b")],
]


BATCH = {"version": 1, "sender": "x", "number": 1, "seen": BEGINNING, "chain": 0}


class MemoryLog:
    """A command log in the memory. Its time is that of its entries, a second apart."""

    foreign = 0

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.first = 0

    def start(self) -> int:
        return self.first - 1

    def read(self, after: int) -> Sequence[Entry]:
        if after < self.start():
            raise TrimmedError("trimmed")
        return self.entries[after + 1 :]

    def append(self, after: int, body: bytes) -> None:
        self.entries.append(Entry(len(self.entries), 1_000 * len(self.entries), body))

    def trim(self, position: int) -> None:
        self.first = position + 1

    def close(self) -> None: ...


class Writer:
    """Who appends a batch after another, each by what it has replayed."""

    def __init__(self, log: MemoryLog, name: str) -> None:
        self.log, self.name, self.number = log, name, 0

    def write(self, *multis: Sequence[Op]) -> bytes:
        self.number += 1
        seen = load(self.log)
        body = encode(Batch(self.name, self.number, seen.position, seen.chain, multis))
        self.log.append(seen.position, body)
        return body

    def save(self, of: Replica, *, torn: bool = False) -> None:
        made = list(parts(of, self.name))
        for part in made[:-1] if torn else made:
            self.log.append(BEGINNING, encode(part))


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


@pytest.fixture
def writer(log: MemoryLog, monkeypatch: pytest.MonkeyPatch) -> Writer:
    monkeypatch.setattr(snapshot, "PART_BYTES", 50)
    return Writer(log, "writer")


def state(replica: Replica) -> object:
    tree = replica.tree
    return tree.znodes, tree.zxid, tree.last_ms, replica.position, replica.chain, replica.time_ms, replica.senders


def test_a_replica_from_a_snapshot_is_the_one_that_read_everything(log: MemoryLog, writer: Writer) -> None:
    writer.write(*HISTORY[:2])
    middle = load(log)
    writer.write(HISTORY[2])  # before the snapshot in the log, and after it in time
    writer.save(middle)
    writer.write(HISTORY[3])
    everything = Replica()
    for entry in log.entries:
        everything.apply(entry, decode(entry))

    assert state(load(log)) == state(everything)
    log.trim(middle.position)
    assert state(load(log)) == state(everything)
    assert [znode.data for znode in everything.tree.znodes.values()] == [b"", b"2", b""]


def test_who_appended_learns_from_a_snapshot_too_how_it_went(log: MemoryLog, writer: Writer) -> None:
    writer.write(HISTORY[0])
    writer.write(HISTORY[1], HISTORY[2])
    before = load(log).senders["writer"]
    writer.save(load(log))
    log.trim(1)

    found = load(log).senders["writer"]
    assert (found.number, found.failures) == (2, [None, [0, "/a", "bad version"]])
    assert [str(problem) for problem in found.problems()] == [str(problem) for problem in before.problems()]


def test_a_copy_does_nothing_whenever_it_comes(log: MemoryLog, writer: Writer) -> None:
    first = writer.write([Create("/a", b"1")])
    writer.write([Delete("/a")])
    expected = load(log).tree.znodes
    log.append(BEGINNING, first)

    assert load(log).tree.znodes == expected


def test_a_sender_is_forgotten_everywhere_at_the_same_entry(log: MemoryLog, writer: Writer) -> None:
    """By the log's time: a replica from a snapshot, which leaves forgotten senders out, decides as all others do."""
    copy = writer.write([Create("/a")])
    log.entries.append(Entry(1, TOMBSTONE_MS + 1, encode(Batch("other", 1, 0, load(log).chain, [[Delete("/a")]]))))
    saved = load(log)
    log.entries += [Entry(2 + n, TOMBSTONE_MS + 1, encode(part)) for n, part in enumerate(parts(saved, "other"))]
    log.entries.append(Entry(len(log.entries), TOMBSTONE_MS + 1, copy))
    everything = Replica()
    for entry in log.entries:
        everything.apply(entry, decode(entry))

    assert "/a" in everything.tree.znodes
    assert load(log).tree.znodes == everything.tree.znodes


@pytest.mark.parametrize("damage", ["lost", "changed", "other"])
def test_a_log_that_is_not_the_one_its_writers_read_is_refused(log: MemoryLog, writer: Writer, damage: str) -> None:
    for ops in HISTORY:
        writer.write(ops)
    if damage == "lost":
        del log.entries[-2]
    elif damage == "changed":
        log.entries[1] = log.entries[1]._replace(body=encode(Batch("writer", 2, 0, load(log).chain, [[]])))
    else:
        log.entries[:2] = [Entry(0, 0, encode(Batch("x", 1, -1, 0, [])))] * 2

    with pytest.raises(CorruptDataError, match="not the one that its writers read"):
        load(log)


def test_a_log_of_which_only_the_end_of_a_snapshot_is_left_is_no_empty_one(log: MemoryLog, writer: Writer) -> None:
    """So compaction leaves it: it takes all entries out that have no key, and the start of the topic stays."""
    for ops in HISTORY:
        writer.write(ops)
    writer.save(load(log))
    log.entries = log.entries[-1:]

    with pytest.raises(CorruptDataError, match="not the one that its writers read"):
        load(log)


def test_a_change_is_noticed_though_what_was_changed_is_never_compared_itself(log: MemoryLog, writer: Writer) -> None:
    writer.write(HISTORY[0])
    writer.save(load(log), torn=True)
    writer.write(HISTORY[1])
    assert isinstance(decode(log.entries[2]), Part), "the batch compares what was read last: another part"
    log.entries[1] = log.entries[1]._replace(body=encode(Part(0, "writer", 0, 9, b"changed")))

    with pytest.raises(CorruptDataError, match="not the one that its writers read"):
        load(log)


def test_a_log_that_cannot_be_read_is_closed(log: MemoryLog, writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    writer.write(HISTORY[0])
    log.trim(0)
    closed: list[bool] = []
    monkeypatch.setattr(log, "close", lambda: closed.append(True))

    with pytest.raises(CorruptDataError, match="has no whole snapshot"):
        ReplicatedZnodeStore(lambda: log)
    assert closed == [True]


def test_a_torn_snapshot_is_as_none(log: MemoryLog, writer: Writer) -> None:
    for ops in HISTORY:
        writer.write(ops)
    writer.save(load(log), torn=True)
    assert load(log).snapshots == []

    log.trim(2)
    with pytest.raises(CorruptDataError, match="has no whole snapshot"):
        load(log)


@pytest.mark.parametrize("part_bytes", [50, snapshot.PART_BYTES], ids=["in parts", "in one"])
def test_snapshots_of_two_writers_at_a_time_are_both_whole(
    log: MemoryLog, writer: Writer, part_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "PART_BYTES", part_bytes)
    writer.write(HISTORY[0])
    saved = load(log)
    for ours, others in zip(parts(saved, "writer"), parts(saved, "other"), strict=True):
        for part in (ours, others, ours):  # the last one is a copy, whose acknowledgement was lost
            log.append(BEGINNING, encode(part))

    assert load(log).snapshots == [0, 0]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00\x00\x00\x02{}",
        b"\x00\x00\x00\xff{}",
        b"\x00\x00\x00\x04null",
        packed({**BATCH, "multis": [[["create", "/a", 9]]]}, []),
        packed({**BATCH, "multis": [[["move", "/a"]]]}, []),
        packed({**BATCH, "multis": []}, [b"more"]),
        encode(Part(5, "x", 0, 1, b"no snapshot")),
    ],
)
def test_a_damaged_entry_is_named(log: MemoryLog, body: bytes) -> None:
    log.append(BEGINNING, body)

    with pytest.raises(CorruptDataError) as refused:
        load(log)
    assert refused.value.fields["position"] == 0


def test_an_entry_of_a_newer_oncelog_is_refused(log: MemoryLog) -> None:
    log.append(BEGINNING, packed({"version": 2}, []))

    with pytest.raises(UnsupportedFormatError, match="a newer oncelog"):
        load(log)


def waiting(store: ReplicatedZnodeStore) -> int:
    """Multis that the next append will take along."""
    group = store._connection._group
    return 0 if group is None else len(group.members)


def test_multis_that_wait_together_share_an_append_and_nobody_overtakes_them() -> None:
    class CrowdedLog(MemoryLog):
        """Takes an entry once everyone waits whose multi is not in it."""

        def append(self, after: int, body: bytes) -> None:
            batch = decode(Entry(0, 0, body))
            assert isinstance(batch, Batch)
            until(lambda: waiting(store) >= len(busy) - len(batch.multis))
            super().append(after, body)

    def create(name: int) -> None:
        for number in range(10):
            store.multi([Create(f"/{name}-{number}")])
        busy.remove(name)

    busy = set(range(8))
    crowded = CrowdedLog()
    store = ReplicatedZnodeStore(lambda: crowded)
    threads = [Thread(target=create, args=(name,)) for name in busy]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(store.children("/")) == 80
    appends = len(crowded.entries)
    assert appends <= 80 / 3


class LogOfTwo(MemoryLog):
    """At the append of /a two threads come, which create /b and /c and wait together.

    Attributes:
        told: what the threads' calls raised.
    """

    def __init__(self) -> None:
        super().__init__()
        self.told: list[BaseException] = []
        self.threads = [Thread(target=self.create, args=(path,), daemon=True) for path in ("/b", "/c")]
        self.store = ReplicatedZnodeStore(lambda: self)

    def create(self, path: str) -> None:
        try:
            self.store.multi([Create(path)])
        except BaseException as problem:  # noqa: BLE001 - the test looks at it
            self.told.append(problem)

    def append(self, after: int, body: bytes) -> None:
        if not self.entries:
            for thread in self.threads:
                thread.start()
            until(lambda: waiting(self.store) == 2)
        super().append(after, body)

    def run(self) -> None:
        self.store.multi([Create("/a")])
        for thread in self.threads:
            thread.join(10)
        assert not any(thread.is_alive() for thread in self.threads)


def test_an_append_that_is_interrupted_leaves_nobody_waiting() -> None:
    """Two multis share an append. The thread that makes it is interrupted; the other hears that nobody knows."""

    class InterruptedLog(LogOfTwo):
        def append(self, after: int, body: bytes) -> None:
            if self.entries:
                raise KeyboardInterrupt
            super().append(after, body)

    log = InterruptedLog()
    log.run()

    assert {type(one) for one in log.told} == {KeyboardInterrupt, OutcomeUnknownError}


def test_who_is_interrupted_before_the_append_leaves_it_to_the_others() -> None:
    """One of two threads that wait together is to append for both, and is interrupted on the way. The other does it."""

    class InterruptedLock:
        """Its first use by one of the two is interrupted."""

        def __init__(self, log: LogOfTwo) -> None:
            self.log = log
            self.lock = Lock()
            self.is_armed = True

        def __enter__(self) -> None:
            if self.is_armed and current_thread() in self.log.threads:
                self.is_armed = False
                raise KeyboardInterrupt
            self.lock.acquire()

        def __exit__(self, *error: object) -> None:
            self.lock.release()

    class LockedLog(LogOfTwo):
        def append(self, after: int, body: bytes) -> None:
            if not self.entries:
                self.store._connection._using = InterruptedLock(self)
            super().append(after, body)

    log = LockedLog()
    log.run()

    assert [type(one) for one in log.told] == [KeyboardInterrupt]
    assert log.store.children("/") == ["a", "b", "c"]


def test_a_trim_beyond_what_a_client_read_is_no_loss_to_it(log: MemoryLog, writer: Writer) -> None:
    store = ReplicatedZnodeStore(lambda: log)
    for ops in HISTORY:
        writer.write(ops)
    writer.save(load(log))
    log.trim(3)

    assert store.children("/") == ["a", "c"]
    assert log.start() > BEGINNING


def test_a_snapshot_that_is_whole_late_does_not_count_as_the_newest(log: MemoryLog, writer: Writer) -> None:
    """So the log is trimmed up to the one before the newest, and not further."""
    writer.write(HISTORY[0])
    late = load(log)
    writer.write(HISTORY[1])
    writer.save(load(log))
    Writer(log, "who stood still").save(late)

    assert load(log).snapshots == [0, 1]


def test_a_log_that_is_trimmed_whenever_it_is_read_is_unavailable_and_an_append_to_it_unknown() -> None:
    class HastyLog(MemoryLog):
        def read(self, after: int) -> Sequence[Entry]:
            if self.entries:
                raise TrimmedError("trimmed meanwhile")
            return []

    store = ReplicatedZnodeStore(HastyLog)
    with pytest.raises(OutcomeUnknownError):
        store.multi([Create("/a")])
    with pytest.raises(StoreUnavailableError, match="trimmed faster than it can be read"):
        store.get("/a")


def test_no_reads_are_recent_behind_an_append_of_unknown_outcome_until_the_log_was_read() -> None:
    class UnreadableLog(MemoryLog):
        is_away = False

        def append(self, after: int, body: bytes) -> None:
            super().append(after, body)
            self.is_away = True

        def read(self, after: int) -> Sequence[Entry]:
            if self.is_away:
                raise StoreUnavailableError("away")
            return super().read(after)

    log = UnreadableLog()
    store = ReplicatedZnodeStore(lambda: log, recent_ms=RECENT_MS)
    assert store.recent() is not None
    with pytest.raises(OutcomeUnknownError):
        store.multi([Create("/a")])
    assert store.recent() is None

    log.is_away = False
    assert store.children("/") == ["a"]
    assert store.recent() is not None


def test_who_stood_still_until_it_was_forgotten_does_not_know_how_its_append_went(writer: Writer) -> None:
    class SlowLog(MemoryLog):
        def append(self, after: int, body: bytes) -> None:
            super().append(after, body)
            if len(self.entries) == 1:
                later = encode(Batch("other", 1, 0, load(self).chain, [[Create("/b")]]))
                self.entries.append(Entry(1, TOMBSTONE_MS + 1, later))
                Writer(self, "other").save(load(self))
                self.trim(1)

    store = ReplicatedZnodeStore(SlowLog)
    with pytest.raises(OutcomeUnknownError, match="was suspended until"):
        store.multi([Create("/a")])
    assert store.children("/") == ["a", "b"]
