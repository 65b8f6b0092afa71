"""Copying all znodes into another store: complete or no log at all, bounded, compared, and refused where it must be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest

from oncelog import runtime
from oncelog.errors import CorruptDataError, LogInUseError, OutcomeUnknownError, UnsupportedFormatError, UsageError
from oncelog.limits import MULTI_MAX_BYTES, MULTI_MAX_OPS
from oncelog.ports import Op, Set, ZnodeStore
from oncelog.protocol.group_offsets import CommittedOffset, GroupPartitionState, PendingOffset
from oncelog.protocol.partition import PartitionState
from oncelog.types import OffsetAndMetadata
from oncelog.znodes import copying, paths, payloads
from oncelog.znodes.memory import MemoryZnodeStore
from oncelog.znodes.rules import size_of
from oncelog.znodes.transact import IsFresh, always_fresh
from tests.support.log.faulty import HICCUPS, Crashed, Fault, FaultyStore, InterruptedStore
from tests.support.log.logs import DrivenTime, MemoryFiles
from tests.unit.znodes.worlds import LiveReadsStore, doing, dump

PARTITION = "/topics/t/id/0"
OFFSET = "/groups/g/t/id/0"


def open_log(store: ZnodeStore, *, create: bool = False) -> runtime.Log:
    return runtime.open_with("/log", None, store, MemoryFiles(), DrivenTime(), create=create)


def write(store: ZnodeStore, *calls: tuple[object, ...]) -> None:
    store.transact(doing(*calls))


@pytest.fixture
def source() -> MemoryZnodeStore:
    """A small log: a partition with a trim, a group with an order, an owner, and enough tails for several batches."""
    store = MemoryZnodeStore()
    open_log(store, create=True)
    write(
        store,
        ("create", "/topics/t", b"{}"),
        ("create", PARTITION, payloads.encode_partition(PartitionState(log_end=9, trim=4))),
        ("create", "/transactions/a", b"{}"),
        ("create", "/transactions/a/1.0", b"{}"),
        ("create", "/groups/g", b"{}"),
    )
    for _ in range(3):
        write(store, ("set", "/groups/g", b"{}"))
    state = GroupPartitionState(
        CommittedOffset(OffsetAndMetadata(5), 1), (PendingOffset("/transactions/a/1.0", OffsetAndMetadata(6), 3),)
    )
    write(store, ("create", OFFSET, payloads.encode_group_partition(state)))
    for at in range(20):
        write(store, ("create", f"{PARTITION}/tail/{at:02d}", b"x" * 100))
    write(store, ("set", paths.COMMITS, b""))
    return store


@pytest.fixture(params=["memory", "live-reads"])
def target(request: pytest.FixtureRequest) -> MemoryZnodeStore:
    return LiveReadsStore() if request.param == "live-reads" else MemoryZnodeStore()


def data_of(store: ZnodeStore) -> dict[str, bytes]:
    return {path: znode.data for path, znode in dump(store).items()}


def small_batches(monkeypatch: pytest.MonkeyPatch, operations: int = 4) -> None:
    monkeypatch.setattr(copying, "MULTI_MAX_OPS", operations + copying.OTHER_OPERATIONS)
    monkeypatch.setattr(copying, "DELETES_PER_BATCH", operations)


class RecordingStore(MemoryZnodeStore):
    """Remembers what it was asked to write."""

    def __init__(self) -> None:
        super().__init__()
        self.multis: list[list[Op]] = []

    def multi(self, ops: Sequence[Op], *, is_fresh: IsFresh = always_fresh) -> None:
        self.multis.append(list(ops))
        super().multi(ops, is_fresh=is_fresh)


# What is copied -------------------------------------------------------------------------------------------------------


def test_everything_is_copied_as_it_is_but_the_numbers_that_belong_to_a_store(
    source: MemoryZnodeStore, target: MemoryZnodeStore
) -> None:
    before = dump(source)
    done = copying.copy(source, target)

    ours, theirs = data_of(source), data_of(target)
    assert {path for path in ours if ours[path] != theirs[path]} == {PARTITION, OFFSET}
    assert ours.keys() == theirs.keys()
    assert payloads.decode_partition(PARTITION, theirs[PARTITION]) == PartitionState(log_end=9, trim=0)
    assert (done.znodes, done.compared, done.adapted) == (len(ours) - 2, len(ours) - 2, 2), "but / and /format"
    assert done.size_bytes == sum(map(len, theirs.values())) - len(theirs[paths.FORMAT])
    assert dump(source) == before, "the source is only read"


def test_orders_of_a_group_stay_in_order_and_come_before_the_next_commit(
    source: MemoryZnodeStore, target: MemoryZnodeStore
) -> None:
    copying.copy(source, target)

    znode, group = target.get(OFFSET), target.get("/groups/g")
    assert znode is not None
    assert group is not None
    state = payloads.decode_group_partition(OFFSET, znode.data)
    assert state.current is not None
    assert state.current.order < state.pending[0].order < group.stat.version + 1


def test_commits_is_set_last_and_in_the_multi_that_makes_the_target_a_log(source: MemoryZnodeStore) -> None:
    target = RecordingStore()
    copying.copy(source, target)

    assert {op.path for op in target.multis[-1]} == {paths.FORMAT, paths.COMMITS}
    assert all(isinstance(op, Set) for op in target.multis[-1])
    found = dump(target)
    assert found[paths.COMMITS].stat.mzxid == max(znode.stat.mzxid for znode in found.values())


def test_multis_are_bounded_also_where_parents_are_large(source: MemoryZnodeStore) -> None:
    large = payloads.encode_partition(PartitionState()) + b" " * (MULTI_MAX_BYTES // 3)
    write(source, ("set", PARTITION, large))
    for at in range(12):
        write(source, ("create", f"{PARTITION}/child-{at}", b"x" * (MULTI_MAX_BYTES // 8)))
    for first in range(0, 3 * MULTI_MAX_OPS, 500):
        write(source, *(("create", f"/queries/{at:06d}") for at in range(first, first + 500)))
    target = RecordingStore()

    copying.copy(source, target)

    assert max(len(ops) for ops in target.multis) > MULTI_MAX_OPS * 0.9, "and not smaller than need be"
    assert all(len(ops) <= MULTI_MAX_OPS for ops in target.multis)
    assert all(sum(map(size_of, ops)) <= MULTI_MAX_BYTES for ops in target.multis)


def test_progress_goes_up_to_the_total(source: MemoryZnodeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    small_batches(monkeypatch)
    told: list[tuple[int, int]] = []

    done = copying.copy(source, MemoryZnodeStore(), on_progress=lambda at, total: told.append((at, total)))

    assert told == sorted(told)
    assert told[-1] == (2 * done.znodes, 2 * done.znodes)


# What is refused ------------------------------------------------------------------------------------------------------

MARK = paths.encode({"unfinished_copy": "of somebody"})


@pytest.mark.parametrize(
    ("content", "kind", "complaint"),
    [
        ({paths.FORMAT: paths.encode({"cluster_id": "c2"})}, UsageError, "holds a log"),
        ({"/zookeeper": b""}, UsageError, "not empty"),
        ({paths.FORMAT: b'{"version":99}'}, UnsupportedFormatError, "newer"),
        ({paths.FORMAT: b"of another program"}, CorruptDataError, "not hold what oncelog writes"),
    ],
)
def test_a_target_that_holds_anything_is_refused_and_left_alone(
    source: MemoryZnodeStore, content: dict[str, bytes], kind: type[Exception], complaint: str
) -> None:
    target = MemoryZnodeStore()
    write(target, *(("create", path, data) for path, data in content.items()))
    before = dump(target)

    with pytest.raises(kind, match=complaint):
        copying.copy(source, target)

    assert dump(target) == before


def test_a_log_is_not_copied_into_itself(source: MemoryZnodeStore) -> None:
    before = dump(source)
    with pytest.raises(UsageError, match="holds a log"):
        copying.copy(source, source)
    assert dump(source) == before


@pytest.mark.parametrize(
    ("data", "kind", "complaint"),
    [
        (None, UsageError, "no log"),
        (MARK, UsageError, "not finished"),
        (b'{"version":99,"cluster_id":"c1"}', UnsupportedFormatError, "newer"),
        (b"{}", CorruptDataError, "not hold what oncelog writes"),
    ],
)
def test_a_source_that_is_no_log_of_this_layout_is_refused_and_the_target_stays_empty(
    data: bytes | None, kind: type[Exception], complaint: str
) -> None:
    source, target = MemoryZnodeStore(), MemoryZnodeStore()
    if data is not None:
        write(source, ("create", paths.FORMAT, data))

    with pytest.raises(kind, match=complaint):
        copying.copy(source, target)

    assert target.children("/") == []


def test_a_znode_of_the_source_that_cannot_be_read_stops_the_copy(
    source: MemoryZnodeStore, target: MemoryZnodeStore
) -> None:
    write(source, ("set", PARTITION, b"rubbish"))

    with pytest.raises(CorruptDataError, match=PARTITION):
        copying.copy(source, target)

    assert_is_no_log(target)


def assert_is_no_log(store: ZnodeStore) -> None:
    for create in (False, True):
        with pytest.raises(UsageError, match="not finished"):
            open_log(store, create=create)


@pytest.mark.parametrize(
    "use",
    [
        ("set", paths.COMMITS, b""),
        ("set", paths.CLOCK, b""),
        ("create", f"{PARTITION}/tail/99", b"x"),
        ("delete", f"{PARTITION}/tail/00"),
    ],
)
def test_a_log_that_is_used_while_it_is_copied_is_found_out(
    source: MemoryZnodeStore, monkeypatch: pytest.MonkeyPatch, use: tuple[object, ...]
) -> None:
    """Whenever it happens: before any multi but the last, after which nothing is compared any more."""
    small_batches(monkeypatch)
    multis = len(recorded(source).multis)
    for at in range(multis - 1):
        used, target = copied_tree(source), MemoryZnodeStore()
        watched = InterruptedStore(target, lambda used=used: write(used, use))  # type: ignore[misc]
        watched.interrupt(at)

        with pytest.raises(LogInUseError, match="changed="):
            copying.copy(used, watched)

        assert_is_no_log(target)
        copying.copy(used, target)
        open_log(target)


def recorded(source: ZnodeStore) -> RecordingStore:
    target = RecordingStore()
    copying.copy(source, target)
    return target


def copied_tree(source: ZnodeStore) -> MemoryZnodeStore:
    """Another log with the same znodes."""
    twin = MemoryZnodeStore()
    write(twin, *(("create", path, data) for path, data in data_of(source).items() if path != "/"))
    return twin


def test_of_two_copies_into_one_target_the_older_one_fails(
    source: MemoryZnodeStore, target: MemoryZnodeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_batches(monkeypatch)
    watched = InterruptedStore(target, lambda: copying.copy(source, target))
    watched.interrupt(3)

    with pytest.raises(LogInUseError, match="another copy"):
        copying.copy(source, watched)

    assert data_of(target).keys() == data_of(source).keys()
    open_log(target)


def test_a_foreign_znode_in_the_way_is_never_overwritten(
    source: MemoryZnodeStore, target: MemoryZnodeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_batches(monkeypatch)
    watched = InterruptedStore(target, lambda: write(target, ("create", "/transactions/a", b"foreign")))
    watched.interrupt(3)

    with pytest.raises(LogInUseError, match="another process writes to the target"):
        copying.copy(source, watched)

    assert_is_no_log(target)


# Comparing ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("harm", "complaint"),
    [
        (("set", f"{PARTITION}/tail/07", b"y"), f"target='{PARTITION}/tail/07'"),
        (("create", f"{PARTITION}/tail/99", b""), f"target='{PARTITION}/tail/99'"),
        (("create", "/zzz", b""), "target='/zzz'"),
        (("delete", f"{PARTITION}/tail/19"), f"source='{PARTITION}/tail/19'"),
        (("delete", "/transactions/a/1.0"), "source='/transactions/a/1.0'"),
    ],
)
def test_a_target_that_differs_in_anything_is_no_log(
    source: MemoryZnodeStore, harm: tuple[object, ...], complaint: str
) -> None:
    """Harmed after the last batch was written, before the comparison."""
    target = MemoryZnodeStore()
    written = len(dump(source)) - 2

    def harm_it(done: int, total: int) -> None:
        if done == written and not harmed:
            harmed.append(True)
            write(target, harm)

    harmed: list[bool] = []
    with pytest.raises(CorruptDataError, match="the copy is invalid") as caught:
        copying.copy(source, target, on_progress=harm_it)

    assert harmed
    assert complaint in str(caught.value)
    assert_is_no_log(target)


# Death and lost answers -----------------------------------------------------------------------------------------------


def faulty_copies(source: ZnodeStore, fault: Fault) -> Iterator[tuple[ZnodeStore, FaultyStore]]:
    """A fresh target for each multi of a copy that meets `fault` there."""
    at = 0
    while True:
        target = MemoryZnodeStore()
        faulty = FaultyStore(target, fault, at)
        yield target, faulty
        if not faulty.has_struck:
            assert at > 5, "the copy has many multis"
            return
        at += 1


@pytest.mark.parametrize("fault", [Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
def test_a_copy_that_dies_at_any_multi_leaves_no_log_or_all_of_it_and_the_next_one_does_it_all(
    source: MemoryZnodeStore, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    small_batches(monkeypatch)
    expected = data_of(recorded(source))
    for target, faulty in faulty_copies(source, fault):
        with suppress(Crashed):
            copying.copy(source, faulty)

        left = target.get(paths.FORMAT)
        if left is not None and left.data == expected[paths.FORMAT]:
            assert data_of(target) == expected
            continue
        if left is not None:
            assert_is_no_log(target)
        else:
            assert target.children("/") == []
        copying.copy(source, target)
        assert data_of(target) == expected


def test_the_next_copy_may_die_too_while_it_removes_what_the_first_left(
    source: MemoryZnodeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the log may have become another meanwhile."""
    small_batches(monkeypatch)
    expected = data_of(recorded(source))
    dies_late = len(recorded(source).multis) - 1
    at, has_struck = 0, True
    while has_struck:
        target = MemoryZnodeStore()
        other = copied_tree(source)
        write(other, ("create", "/topics/t/id/1/tail/00", b"of another log"), ("delete", "/transactions/a/1.0"))
        write(other, ("set", "/topics/t/id/1", payloads.encode_partition(PartitionState())))
        with pytest.raises(Crashed):
            copying.copy(other, FaultyStore(target, Fault.CRASH_BEFORE, dies_late))
        second = FaultyStore(target, Fault.CRASH_AFTER, at)
        with suppress(Crashed):
            copying.copy(source, second)
        has_struck = second.has_struck

        if data_of(target)[paths.FORMAT] != expected[paths.FORMAT]:
            assert_is_no_log(target)
            copying.copy(source, target)
        assert data_of(target) == expected
        at += 1
    assert at > 10


@pytest.mark.parametrize("fault", HICCUPS)
def test_a_copy_that_gets_no_answer_goes_on(
    source: MemoryZnodeStore, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    small_batches(monkeypatch)
    expected = data_of(recorded(source))
    for target, faulty in faulty_copies(source, fault):
        done = copying.copy(source, faulty)

        assert data_of(target) == expected
        assert done.compared == len(expected) - 2


def test_a_target_that_never_answers_ends_the_copy_with_its_error(
    source: MemoryZnodeStore, target: MemoryZnodeStore
) -> None:
    faulty = FaultyStore(target)
    faulty.fail_next(*[Fault.LOST_REQUEST] * 100)

    with pytest.raises(OutcomeUnknownError):
        copying.copy(source, faulty)
