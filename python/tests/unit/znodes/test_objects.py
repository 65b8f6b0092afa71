"""The command log in a bucket: by the store's contract, and what processes meet that stood still."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from oncelog.errors import (
    CorruptDataError,
    OutcomeUnknownError,
    StoreAccessError,
    StoreUnavailableError,
)
from oncelog.limits import RECENT_MS
from oncelog.ports import Create, Timing, ZnodeReader, ZnodeStore, ZnodeView
from oncelog.testing.znode_store_contract import (
    AtomicReadsContract,
    FakeTime,
    ManyProcessesContract,
    StoreWorld,
    ZnodeStoreContract,
)
from oncelog.znodes.replicated import objects, snapshot
from oncelog.znodes.replicated.command import Batch, encode
from oncelog.znodes.replicated.objects import (
    LOOK_MS,
    REMOVED_AFTER_MS,
    Listed,
    NoAnswerError,
    ObjectLog,
    entry_name,
    probe,
)
from oncelog.znodes.replicated.port import BEGINNING, Entry, TrimmedError
from oncelog.znodes.replicated.replica import Replica
from oncelog.znodes.replicated.store import ReplicatedZnodeStore
from oncelog.znodes.transact import recently
from tests.unit.znodes.buckets import CarelessBucket, FolderBucket, LossyBucket, MemoryBucket
from tests.unit.znodes.worlds import increment

FIRST, SECOND = "entries/00000000000000000000", "entries/00000000000000000001"
LONG_MS = 2 * REMOVED_AFTER_MS

Two = tuple[ReplicatedZnodeStore, ReplicatedZnodeStore]


def opened(kind: type[FolderBucket], folder: Path) -> ObjectLog:
    return ObjectLog(kind(folder))


class FolderWorld(StoreWorld):
    def open(self, timing: Timing) -> ZnodeStore:
        return ReplicatedZnodeStore(partial(opened, FolderBucket, self.folder), timing, recent_ms=RECENT_MS)


class LossyWorld(StoreWorld):
    def open(self, timing: Timing) -> ZnodeStore:
        connect = partial(opened, LossyBucket, self.folder)
        return ReplicatedZnodeStore(connect, timing, saved_every=3, recent_ms=RECENT_MS)


@pytest.mark.slow
class TestStoreInABucket(ZnodeStoreContract, AtomicReadsContract, ManyProcessesContract):
    world_class = FolderWorld


@pytest.mark.slow
class TestStoreInABucketThatLosesAnswersAndIsTrimmedAllTheTime(
    ZnodeStoreContract, AtomicReadsContract, ManyProcessesContract
):
    """What is trimmed is removed at once, so that the floor is looked at each time."""

    world_class = LossyWorld

    @pytest.fixture(autouse=True)
    def _at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(objects, "LOOK_MS", 0)
        monkeypatch.setattr(objects, "REMOVED_AFTER_MS", 0)
        monkeypatch.setattr(objects, "PAUSE_MS", 1)
        monkeypatch.setattr(snapshot, "PART_BYTES", 100)


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def bucket(time: FakeTime) -> MemoryBucket:
    return MemoryBucket(time)


@pytest.fixture
def log(bucket: MemoryBucket, time: FakeTime) -> Callable[[], ObjectLog]:
    """Opens the log once more."""
    return lambda: ObjectLog(bucket, time)


def bodies(log: ObjectLog, after: int = BEGINNING) -> list[bytes]:
    return [entry.body for entry in log.read(after)]


def no_answer() -> None:
    raise NoAnswerError("lost")


def test_entries_are_numbered_and_have_the_buckets_time(log: Callable[[], ObjectLog], time: FakeTime) -> None:
    one, other = log(), log()
    one.append(BEGINNING, b"a")
    time.sleep_ms(5)
    other.append(BEGINNING, b"b")
    one.append(0, b"c")

    assert bodies(other) == [b"a", b"b", b"c"]
    expected = [Entry(0, time.wall_ms, b"a"), Entry(1, time.wall_ms + 5, b"b"), Entry(2, time.wall_ms + 5, b"c")]
    assert [one.read(BEGINNING), other.read(BEGINNING), log().read(BEGINNING)] == [expected] * 3
    assert one.read(2) == other.read(2) == []
    other.append(2, b"d")
    assert one.append(2, b"e") == one.read(2) == other.read(2)
    assert one.read(4) == []


# Lost answers


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_append_whose_answer_is_lost_is_in_the_log_once(
    log: Callable[[], ObjectLog], bucket: MemoryBucket, when: str
) -> None:
    getattr(bucket, when)["put_new"] = no_answer
    log().append(BEGINNING, b"a")

    assert bodies(log()) == [b"a"]


def test_where_another_was_put_meanwhile_the_next_position_is_tried(
    log: Callable[[], ObjectLog], bucket: MemoryBucket
) -> None:
    other = log()

    def overtaken() -> None:
        other.append(BEGINNING, b"other")
        raise NoAnswerError("lost")

    one = log()
    bucket.before["put_new"] = overtaken
    one.append(BEGINNING, b"a")

    assert bodies(one) == [b"other", b"a"]


def test_who_is_behind_comes_to_the_end_though_another_appends_with_two_of_three_requests(
    log: Callable[[], ObjectLog], bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = log(), log()
    one.append(BEGINNING, b"first")
    for _ in range(40):
        other.append(BEGINNING, b"before")
    get, put_new = bucket.get, bucket.put_new
    requests = itertools.count()

    def beside(request: Callable[..., Any], *arguments: Any) -> Any:
        """What comes of a request that another's append may have overtaken. In the end the other rests."""
        number = next(requests)
        if number < 200 and number % 3:
            bucket.objects[entry_name(len(bucket.objects))] = objects.data_of(Entry(0, 0, b"beside")), 0
        return request(*arguments)

    monkeypatch.setattr(bucket, "get", partial(beside, get))
    monkeypatch.setattr(bucket, "put_new", partial(beside, put_new))
    one.append(0, b"one")

    assert next(requests) < 30


def test_an_append_that_is_never_answered_may_have_been_made(
    log: Callable[[], ObjectLog], bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = log()
    with monkeypatch.context() as away:
        away.setattr(bucket, "put_new", lambda name, data: no_answer())
        with pytest.raises(OutcomeUnknownError, match="run the same step again"):
            one.append(BEGINNING, b"a")
        away.setattr(bucket, "names", lambda folder, after="": no_answer())
        with pytest.raises(StoreUnavailableError, match="cannot be reached"):
            one.read(BEGINNING)
        with pytest.raises(StoreUnavailableError, match="cannot be reached"):
            one.start()

    bucket.put_new(FIRST, bytes(8) + b"a")  # the request was on its way
    one.append(BEGINNING, b"b")
    assert bodies(log()) == [b"a", b"b"]


def test_an_append_that_is_refused_behind_a_lost_answer_may_have_been_made(
    log: Callable[[], ObjectLog], bucket: MemoryBucket
) -> None:
    def refused() -> None:
        raise StoreAccessError("the rights were taken away")

    def lost() -> None:
        bucket.before["put_new"] = refused
        raise NoAnswerError("lost")

    bucket.after["put_new"] = lost
    with pytest.raises(OutcomeUnknownError, match="rights were taken away"):
        log().append(BEGINNING, b"a")
    bucket.before["put_new"] = refused
    with pytest.raises(StoreAccessError):
        log().append(BEGINNING, b"b")
    assert bodies(log()) == [b"a"]


def test_who_is_interrupted_behind_an_append_misses_none_of_the_entries(
    log: Callable[[], ObjectLog], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ReplicatedZnodeStore(log)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Replica, "apply", interrupted)
        store.multi([Create("/a")])
    store.multi([Create("/b")])

    assert store.children("/") == ["a", "b"]


# Processes that stand still


@pytest.fixture
def elsewhere(log: Callable[[], ObjectLog], time: FakeTime) -> Callable[[], None]:
    """What others do meanwhile: they write, save, trim, and after a long time remove what was trimmed."""

    def work() -> None:
        store = ReplicatedZnodeStore(log, saved_every=2)
        for number in range(9):
            store.multi([Create(f"/other-{number}")])
        time.sleep_ms(LONG_MS)
        for number in range(9, 18):
            store.multi([Create(f"/other-{number}")])

    return work


def names_of(*own: str) -> list[str]:
    return [*own, *sorted(f"other-{number}" for number in range(18))]


def test_what_is_put_where_an_entry_was_removed_is_appended_again(
    log: Callable[[], ObjectLog], bucket: MemoryBucket, elsewhere: Callable[[], None]
) -> None:
    """By a process that had nothing to do for long, and reads nothing before it writes."""
    store = ReplicatedZnodeStore(log)
    store.multi([Create("/a")])
    elsewhere()
    assert SECOND not in bucket.objects
    before = bucket.puts
    store.multi([Create("/b")])

    assert SECOND in bucket.objects
    assert bucket.puts == before + 2
    for reader in (store, ReplicatedZnodeStore(log)):
        assert reader.children("/") == names_of("a", "b")


def test_a_machine_whose_own_clocks_stood_still_goes_by_those_of_the_bucket(
    log: Callable[[], ObjectLog], bucket: MemoryBucket, elsewhere: Callable[[], None]
) -> None:
    """A suspended one, whose clocks nobody has set since."""
    asleep = FakeTime()
    store = ReplicatedZnodeStore(lambda: ObjectLog(bucket, asleep))
    store.multi([Create("/a")])
    elsewhere()
    store.multi([Create("/b")])

    assert ReplicatedZnodeStore(log).children("/") == names_of("a", "b")


@pytest.mark.parametrize("hook", ["before", "after"])
def test_who_stands_still_in_a_put_is_not_told_that_it_counts_where_entries_were_removed(
    log: Callable[[], ObjectLog], bucket: MemoryBucket, elsewhere: Callable[[], None], hook: str
) -> None:
    """What it was about to write is no longer fresh, so it is not appended again either."""
    store = ReplicatedZnodeStore(log)
    store.multi([Create("/a")])
    getattr(bucket, hook)["put_new"] = elsewhere
    with pytest.raises(OutcomeUnknownError, match="run the same step again"):
        store.multi([Create("/b")])

    for reader in (store, ReplicatedZnodeStore(log)):
        assert reader.children("/") == names_of("a", *(["b"] if hook == "after" else []))
    store.multi([Create("/c")])
    assert ReplicatedZnodeStore(log).get("/c") is not None


@pytest.mark.parametrize("hook", ["before", "after"])
@pytest.mark.parametrize("method", ["get", "names"])
def test_a_reader_for_whom_entries_were_removed_reads_no_end_and_no_zombie(
    log: Callable[[], ObjectLog], bucket: MemoryBucket, elsewhere: Callable[[], None], hook: str, method: str
) -> None:
    log().append(BEGINNING, encode(Batch("other", 1, BEGINNING, 0, [[Create("/a")]])))
    reader = log()
    if method == "get":  # it has looked lately, and asks for the next entry
        assert len(reader.read(BEGINNING)) == 1

    def meanwhile() -> None:
        elsewhere()
        bucket.put_new(SECOND, bytes(8) + b"zombie")

    getattr(bucket, hook)[method] = meanwhile
    with pytest.raises(TrimmedError):
        reader.read(0)


def test_a_look_that_is_old_is_renewed_by_a_listing_and_the_floor(
    log: Callable[[], ObjectLog], bucket: MemoryBucket, time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = log()
    one.append(BEGINNING, b"a")
    assert len(one.read(BEGINNING)) == 1
    asked = listings(bucket, monkeypatch)
    time.sleep_ms(LOOK_MS - 1)
    assert one.read(0) == []
    assert asked == []
    time.sleep_ms(LOOK_MS)
    assert one.read(0) == []
    assert asked == ["entries", "floors"]

    time.sleep_ms(2 * LOOK_MS)
    one.append(0, b"b")
    assert one.read(1) == []
    assert asked == ["entries", "floors", "floors"]


def test_a_look_of_a_time_that_has_not_come_is_renewed(
    log: Callable[[], ObjectLog], bucket: MemoryBucket, time: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the bucket's first answer only the machine's clock is known, which may be ahead."""
    one = log()
    one.append(BEGINNING, b"a")
    assert len(one.read(BEGINNING)) == 1
    monkeypatch.setattr(bucket, "now_ms", lambda: time.now_ms() - 2 * LOOK_MS)
    asked = listings(bucket, monkeypatch)

    assert one.read(0) == []
    assert asked == ["entries", "floors"]


def listings(bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders that are listed from now on."""
    asked: list[str] = []
    names = bucket.names

    def listed(folder: str, after: str = "") -> Iterator[Listed]:
        asked.append(folder)
        return names(folder, after)

    monkeypatch.setattr(bucket, "names", listed)
    return asked


# Reads that cost nothing


@pytest.fixture
def stores(log: Callable[[], ObjectLog], time: FakeTime) -> Two:
    """Two processes' stores, which both know the counter."""
    ReplicatedZnodeStore(log).multi([Create("/counter", b"0")])
    timing = Timing(time.now_ms, time, lambda: 0.0)
    one, other = (ReplicatedZnodeStore(log, timing, recent_ms=RECENT_MS) for _ in range(2))
    return one, other


def count(reader: ZnodeReader) -> int:
    found = reader.get("/counter")
    assert found is not None
    return int(found.data)


def asked(bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is got from now on."""
    names: list[str] = []
    get = bucket.get

    def got(wanted: Sequence[str]) -> Sequence[bytes | None]:
        names.extend(wanted)
        return get(wanted)

    monkeypatch.setattr(bucket, "get", got)
    return names


def test_steps_of_one_writer_ask_for_nothing(
    stores: Two, bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = stores
    got = asked(bucket, monkeypatch)
    for _ in range(3):
        one.transact(increment)
    assert got == []
    assert bucket.puts == 4

    assert count(one) == 3
    assert len(got) == 1


def test_a_step_on_reads_that_others_changed_is_run_again(
    stores: Two,
) -> None:
    one, other = stores
    for store in (other, one, other, other, one):
        store.transact(increment)

    assert count(one) == count(other) == 5


def test_what_a_step_returns_or_raises_without_a_write_is_of_a_snapshot(
    stores: Two,
) -> None:
    one, other = stores
    other.transact(increment)

    def refused(view: ZnodeView) -> None:
        found = count(view)
        if found == 0:
            raise KeyError(found)
        view.create("/done", b"%d" % found)

    assert one.transact(count) == 1
    other.transact(increment)
    other.transact(lambda view: view.set("/counter", b"0"))
    with pytest.raises(KeyError):
        one.transact(refused)
    other.transact(increment)
    one.transact(refused)
    done = other.get("/done")
    assert done is not None
    assert done.data == b"1"


@pytest.mark.parametrize("clock", ["durations_ms", "wall_ms"])
def test_reads_are_no_longer_recent_when_either_clock_says_so(
    stores: Two,
    time: FakeTime,
    bucket: MemoryBucket,
    monkeypatch: pytest.MonkeyPatch,
    clock: str,
) -> None:
    """A version comes back when a znode was deleted long ago, and is created again."""
    one, _ = stores
    listed = listings(bucket, monkeypatch)
    setattr(time, clock, getattr(time, clock) + RECENT_MS - 1)
    one.transact(increment)
    assert listed == []
    for later_ms in (RECENT_MS, -1):
        setattr(time, clock, getattr(time, clock) + later_ms)
        one.transact(increment)
        assert listed == ["entries", "floors"]
        listed.clear()


def test_reads_that_cost_nothing_are_behind_all_that_the_process_did(
    stores: Two,
) -> None:
    one, other = stores
    other.transact(increment)
    with recently(one) as reader:
        assert count(reader) == 0
    assert count(one) == 1
    one.transact(increment)
    with recently(one) as reader:
        assert count(reader) == 2
        other.transact(increment)
        assert count(one) == 3
        assert count(reader) == 2
    with recently(ReplicatedZnodeStore(one._connect)) as reader:
        assert count(reader) == 3


# Trims


def filled(log: ObjectLog, count: int = 10) -> ObjectLog:
    for number in range(count):
        log.append(number - 1, b"%d" % number)
    return log


def test_of_two_that_trim_at_once_none_moves_the_floor_back(log: Callable[[], ObjectLog], bucket: MemoryBucket) -> None:
    one, other = filled(log()), log()
    bucket.before["put_new"] = lambda: other.trim(7)
    one.trim(4)

    assert log().start() == 7


def test_entries_are_removed_an_hour_after_they_were_trimmed(
    log: Callable[[], ObjectLog], bucket: MemoryBucket, time: FakeTime
) -> None:
    one = filled(log())
    one.trim(3)
    with pytest.raises(TrimmedError):
        log().read(2)
    assert bodies(log(), 3) == [b"4", b"5", b"6", b"7", b"8", b"9"]

    time.sleep_ms(REMOVED_AFTER_MS - 1)
    one.trim(5)
    assert FIRST in bucket.objects
    time.sleep_ms(1)
    one.trim(5)
    assert min(bucket.objects) == "entries/00000000000000000004"
    time.sleep_ms(LONG_MS)
    one.trim(5)
    assert min(bucket.objects) == "entries/00000000000000000006"
    assert [name for name in bucket.objects if name.startswith("floors")] == ["floors/00000000000000000005"]


def test_a_snapshot_whose_writer_was_killed_is_as_none(
    log: Callable[[], ObjectLog], bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot, "PART_BYTES", 20)
    store = ReplicatedZnodeStore(log, saved_every=3)
    put_new = bucket.put_new

    def killed(name: str, data: bytes) -> bool:
        if name.endswith("5"):
            raise KeyboardInterrupt
        return put_new(name, data)

    with monkeypatch.context() as killing:
        killing.setattr(bucket, "put_new", killed)
        with pytest.raises(KeyboardInterrupt):
            for number in range(3):
                store.multi([Create(f"/{number}")])

    another = ReplicatedZnodeStore(log, saved_every=3)
    for number in range(3, 20):
        another.multi([Create(f"/{number}")])
    assert log().start() > BEGINNING
    assert len(ReplicatedZnodeStore(log).children("/")) == len(store.children("/")) == 20


# Damage


def test_a_listing_that_leaves_out_what_is_put_meanwhile_makes_no_hole(
    log: Callable[[], ObjectLog], bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(log(), 3)
    names = bucket.names
    monkeypatch.setattr(
        bucket, "names", lambda folder, after="": iter([one for one in names(folder, after) if one.name[-1] != "1"])
    )

    assert bodies(log()) == [b"0", b"1", b"2"]


def test_an_object_that_somebody_removed_is_named(log: Callable[[], ObjectLog], bucket: MemoryBucket) -> None:
    filled(log())
    bucket.delete([SECOND])

    with pytest.raises(CorruptDataError, match="lifecycle rule") as refused:
        log().read(BEGINNING)
    assert refused.value.fields["missing"] == SECOND


@pytest.mark.parametrize("expired", [4, 8, 10])
def test_what_a_lifecycle_rule_expires_is_an_error_to_who_opens_the_log_and_nothing_to_who_has_read_it(
    log: Callable[[], ObjectLog], bucket: MemoryBucket, time: FakeTime, expired: int
) -> None:
    """It removes what is old, the floor included, and what is new stays."""
    one = filled(log())
    one.trim(3)
    bucket.delete(sorted(bucket.objects)[:expired])
    bucket.delete([name for name in bucket.objects if name.startswith("floors/")])

    time.sleep_ms(LONG_MS)
    assert one.read(9) == []
    one.append(9, b"10")
    with pytest.raises(CorruptDataError, match="lifecycle rule") as refused:
        log().read(log().start())
    assert refused.value.fields["missing"] == FIRST


def test_an_object_that_is_too_short_is_named(log: Callable[[], ObjectLog], bucket: MemoryBucket) -> None:
    bucket.put_new(FIRST, b"short")

    with pytest.raises(CorruptDataError, match="damaged") as refused:
        log().read(BEGINNING)
    assert refused.value.fields["name"] == FIRST


def test_what_others_keep_in_the_folder_is_no_entry(log: Callable[[], ObjectLog], bucket: MemoryBucket) -> None:
    bucket.put_new("entries/README", b"")
    assert log().is_new()
    filled(log(), 1)

    assert not log().is_new()
    assert bodies(log()) == [b"0"]


# The probe


def test_a_store_that_lets_one_put_win_passes_and_is_left_empty(bucket: MemoryBucket) -> None:
    probe(bucket)

    assert bucket.objects == {}


def test_a_store_that_lets_several_puts_win_is_refused(time: FakeTime) -> None:
    with pytest.raises(StoreAccessError, match="lets several writers put the same object"):
        probe(CarelessBucket(time))
