"""What comes between two reads: on a store without snapshots, anything may.

Reads are in order of time there and no more. Each case carries out one operation of the real code over such a store,
once for every read that it makes, and lets something else happen just before that read: a settler, a roll, a commit.
The operation must answer as if it had come before or after, never with a mixture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from oncelog.clients.producer import Producer
from oncelog.coordinator import groups
from oncelog.coordinator.settler import Settler
from oncelog.log import partition_log, snapshot
from oncelog.log.index_files import IndexFiles
from oncelog.ports import Znode, ZnodeReader, ZnodeStore
from oncelog.testing import invariants
from oncelog.types import IsolationLevel, OffsetAndMetadata
from tests.support.log.logs import (
    TOPIC,
    LogWorld,
    log_world,
    partition,
    send,
    started,
    tp,
    values,
    write_aborted,
    write_committed,
    write_open,
)

T = TypeVar("T")


class LiveReads:
    """A store whose reads are not of one moment; just before read number `at` it lets `meanwhile` happen."""

    reads_are_atomic = False

    def __init__(self, store: ZnodeStore, at: int, meanwhile: Callable[[], object]) -> None:
        self._store = store
        self._at = at
        self._meanwhile = meanwhile
        self.reads = 0

    def get(self, path: str) -> Znode | None:
        self._count()
        return self._store.get(path)

    def get_many(self, paths: Iterable[str]) -> list[Znode | None]:
        return [self.get(path) for path in paths]

    def children(self, path: str) -> list[str]:
        self._count()
        return self._store.children(path)

    def children_data(self, path: str) -> list[tuple[str, Znode]]:
        self._count()
        return self._store.children_data(path)

    @contextmanager
    def snapshot(self) -> Iterator[ZnodeReader]:
        yield self

    def _count(self) -> None:
        self.reads += 1
        if self.reads == self._at:
            self._meanwhile()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class Scene:
    """A log, and the producer of the transaction that is open in it, if one is."""

    def __init__(self, world: LogWorld) -> None:
        self.log = world.log
        self.time = world.time
        self.store = world.log.services.store
        self.index_files = IndexFiles(world.log.services.files)
        self.partitions = [partition(world.log, number) for number in range(2)]
        self.producer: Producer | None = None


Happening = Callable[[Scene], None]


def answers(folder: Path, before: Happening, meanwhile: Happening, operation: Callable[[Scene, Any], T]) -> list[T]:
    """What `operation` answers when `meanwhile` comes before its first read, its second one, and so on to its last."""
    found: list[T] = []
    for at in range(1, 100):
        with log_world(folder / str(at)) as world:
            world.log.create_topic(TOPIC, partitions=2)
            scene = Scene(world)
            before(scene)
            store = LiveReads(scene.store, at, partial(meanwhile, scene))
            answer = operation(scene, store)
        if store.reads < at:
            assert found
            return found
        found.append(answer)
    raise AssertionError("the operation never ends")


# What happens meanwhile ---------------------------------------------------------------------------------------------


def settle(scene: Scene) -> None:
    invariants.settle_all(scene.log)


def roll(scene: Scene) -> None:
    for where in scene.partitions:
        partition_log.roll(scene.store, scene.index_files, where)


def settle_and_roll(scene: Scene) -> None:
    settle(scene)
    roll(scene)


# Rows -----------------------------------------------------------------------------------------------------------------


def an_aborted_and_a_committed_transaction(scene: Scene) -> None:
    producer = started(scene.log)
    write_aborted(producer, b"aborted", b"aborted")
    write_committed(producer, b"committed")


def the_same_rolled_and_its_markers_not(scene: Scene) -> None:
    an_aborted_and_a_committed_transaction(scene)
    roll(scene)
    settle(scene)


def rows(scene: Scene, store: Any, start: int) -> list[int]:
    """The offsets that are shown from `start` to the end of the committed transaction."""
    where = scene.partitions[0]
    found = snapshot.visible_range(store, scene.index_files, where, start, 3, IsolationLevel.READ_COMMITTED)
    return [piece.base_offset + row for piece in found.slices for row in range(piece.first_row, piece.end_row)]


@pytest.mark.parametrize("before", [an_aborted_and_a_committed_transaction, the_same_rolled_and_its_markers_not])
@pytest.mark.parametrize("meanwhile", [settle, roll, settle_and_roll])
@pytest.mark.parametrize("start", [0, 1])
def test_aborted_rows_stay_hidden_while_the_index_moves(
    tmp_path: Path, before: Happening, meanwhile: Happening, start: int
) -> None:
    """Also where the read begins within the aborted transaction. conformance: 29, 36, 38."""
    found = answers(tmp_path, before, meanwhile, partial(rows, start=start))

    assert found == [[2]] * len(found)


# Plans ----------------------------------------------------------------------------------------------------------------


def spanning(scene: Scene) -> None:
    """Transaction a, open over both partitions, and b, committed behind its record in partition 1."""
    a, b = started(scene.log, "a"), started(scene.log, "b")
    a.begin_transaction()
    send(a, b"a", number=0)
    send(a, b"a", number=1)
    write_committed(b, b"b", number=1)
    scene.producer = a


def commit(scene: Scene) -> None:
    assert scene.producer is not None
    scene.producer.commit_transaction()


def commit_and_settle(scene: Scene) -> None:
    commit(scene)
    settle(scene)


def commit_settle_and_go_on(scene: Scene) -> None:
    commit_and_settle(scene)
    write_committed(started(scene.log, "c"), b"c", number=0)
    settle_and_roll(scene)


def visible_counts(scene: Scene, store: Any) -> list[int]:
    """How many records each partition shows, planned together."""
    ends = snapshot.take(store, scene.partitions).plan.ends
    found = [
        snapshot.visible_range(store, scene.index_files, where, 0, ends[where], IsolationLevel.READ_COMMITTED)
        for where in scene.partitions
    ]
    return [shown.count for shown in found]


@pytest.mark.parametrize(
    ("meanwhile", "answered"),
    [(commit, [[0, 0], [1, 2]]), (commit_and_settle, [[1, 2]]), (commit_settle_and_go_on, [[2, 2]])],
)
def test_a_plan_shows_all_of_a_transaction_or_nothing_while_it_commits_and_is_settled(
    tmp_path: Path, meanwhile: Happening, answered: list[list[int]]
) -> None:
    """A settled transaction makes the reader start over, so that it sees what came meanwhile. conformance: 27."""
    found = answers(tmp_path, spanning, meanwhile, visible_counts)

    assert sorted(shown for at, shown in enumerate(found) if shown not in found[:at]) == answered


def half_written(scene: Scene) -> None:
    """Transaction a, open, with a record in partition 1."""
    scene.producer = started(scene.log)
    write_open(scene.producer, b"a", number=1)


def write_the_rest_and_commit(scene: Scene) -> None:
    assert scene.producer is not None
    send(scene.producer, b"a", number=0)
    scene.producer.commit_transaction()


def write_the_rest_commit_and_settle(scene: Scene) -> None:
    write_the_rest_and_commit(scene)
    settle(scene)


@pytest.mark.parametrize(
    ("meanwhile", "answered"),
    [(write_the_rest_and_commit, [[0, 0], [1, 1]]), (write_the_rest_commit_and_settle, [[1, 1]])],
)
def test_a_plan_that_read_one_partition_before_a_transaction_wrote_there_shows_nothing_of_it_or_starts_over(
    tmp_path: Path, meanwhile: Happening, answered: list[list[int]]
) -> None:
    """Settled in the other partition meanwhile, it is listed nowhere: only the trim tells. conformance: 27."""
    found = answers(tmp_path, half_written, meanwhile, visible_counts)

    assert sorted(shown for at, shown in enumerate(found) if shown not in found[:at]) == answered


# Group offsets --------------------------------------------------------------------------------------------------------


def offsets_committed(scene: Scene) -> None:
    producer = started(scene.log)
    producer.begin_transaction()
    send(producer, b"copied")
    producer.send_offsets_to_transaction({tp(): 5}, "g")
    producer.commit_transaction()


def fetched(scene: Scene, store: Any) -> list[OffsetAndMetadata]:
    return [*groups.fetch(store, "g", scene.partitions).values()]


def test_a_committed_offset_is_found_while_it_is_settled(tmp_path: Path) -> None:
    """conformance: 44, 45."""
    found = answers(tmp_path, offsets_committed, settle, fetched)

    assert found == [[OffsetAndMetadata(5)]] * len(found)


# Settling -------------------------------------------------------------------------------------------------------------


def settled(scene: Scene, store: Any) -> list[bytes | None]:
    Settler(store, scene.time).settle_now(scene.partitions[:1])
    return values(scene.log)


@pytest.mark.parametrize("meanwhile", [settle, commit, commit_and_settle, commit_settle_and_go_on])
def test_a_settler_whose_work_is_done_by_another_meanwhile_changes_nothing_that_is_shown(
    tmp_path: Path, meanwhile: Happening
) -> None:
    """conformance: 33."""
    committed: list[bytes | None] = [b"a", b"a", b"b"]
    shown: dict[Happening, list[bytes | None]] = {settle: [], commit_settle_and_go_on: [b"a", b"c", b"a", b"b"]}

    found = answers(tmp_path, spanning, meanwhile, settled)

    assert found == [shown.get(meanwhile, committed)] * len(found)
