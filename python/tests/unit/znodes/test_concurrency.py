"""Many writers at once, on every backend: nothing is lost, and a snapshot is of one moment.

Writers are processes where the backend reaches them, else threads.
"""

from __future__ import annotations

import threading

import pytest

from oncelog.ports import Create, Set, ZnodeView
from tests.unit.znodes.worlds import SqliteWorld, World, doing, forked, in_parallel, increment, wait_for

WORKERS = 6
ROUNDS = 40


def number_at(world: World, path: str) -> int:
    znode = world.client().get(path)
    assert znode is not None
    return int(znode.data)


def test_increments_of_one_counter_by_many_are_all_counted(world: World) -> None:
    store = world.client()
    store.multi([Create("/counter", b"0")])

    def work(_: int) -> None:
        for _ in range(ROUNDS):
            store.transact(increment)

    in_parallel(world, WORKERS, work)
    assert number_at(world, "/counter") == WORKERS * ROUNDS


def test_creators_of_siblings_agree_on_their_numbers(world: World) -> None:
    """Each takes the next free name by listing the children: only their parent's version keeps them apart."""
    store = world.client()

    def create_next(view: ZnodeView) -> str:
        name = f"/p/{len(view.children('/p')):04}"
        view.create(name)
        return name

    def work(_: int) -> None:
        for _ in range(10):
            store.transact(create_next)

    in_parallel(world, WORKERS, work)
    assert world.client().children("/p") == [f"{number:04}" for number in range(WORKERS * 10)]


def test_money_moved_between_accounts_is_never_seen_missing(world: World) -> None:
    accounts = [f"/accounts/{number}" for number in range(4)]
    store = world.client()
    store.transact(doing(*(("create", path, b"100") for path in accounts)))

    def move(view: ZnodeView, source: str, target: str) -> None:
        increment(view, target)
        znode = view.get(source)
        assert znode is not None
        view.set(source, b"%d" % (int(znode.data) - 1))

    def total(view: ZnodeView) -> int:
        return sum(int(znode.data) for _, znode in view.children_data("/accounts"))

    def work(number: int) -> None:
        for round_number in range(15):
            source, target = accounts[number % 4], accounts[(number + 1 + round_number % 3) % 4]
            store.transact(lambda view, s=source, t=target: move(view, s, t))  # type: ignore[misc]
            assert store.transact(total) == 400

    in_parallel(world, WORKERS, work)
    assert store.transact(total) == 400


def test_blind_sets_of_many_all_count_and_none_makes_another_run_again(world: World) -> None:
    store = world.client()
    store.multi([Create("/commits"), *(Create(f"/{number}") for number in range(WORKERS))])

    def work(number: int) -> None:
        runs = 0

        def step(view: ZnodeView) -> None:
            nonlocal runs
            runs += 1
            view.set(f"/{number}", b"")
            view.set_blind("/commits", b"")

        for _ in range(ROUNDS):
            store.transact(step)
        assert runs == ROUNDS

    in_parallel(world, WORKERS, work)
    commits = store.get("/commits")
    assert commits is not None
    assert commits.stat.version == WORKERS * ROUNDS


@pytest.mark.parametrize("world", ["memory", "sqlite"], indirect=True)
def test_a_snapshot_of_an_atomic_backend_is_of_one_moment_while_others_write(world: World) -> None:
    store = world.client()
    store.multi([Create("/a", b"0"), Create("/b", b"0")])
    is_over = threading.Event()

    def write() -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            store.multi([Set("/a", b"%d" % number), Set("/b", b"%d" % number)])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(100):
            with store.snapshot() as reader:
                first = [reader.get("/a"), reader.get("/b")]
                again = [znode for _, znode in reader.children_data("/")]
            assert first == again
            assert len({znode.data for znode in first if znode}) == 1
    finally:
        is_over.set()
        writer.join()


def test_threads_and_processes_may_mix_on_one_file(sqlite: SqliteWorld) -> None:
    store = sqlite.client()
    store.multi([Create("/counter", b"0")])

    def work() -> None:
        threads = [threading.Thread(target=lambda: [store.transact(increment) for _ in range(10)]) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        store.close()

    children = [forked(work) for _ in range(3)]
    own = threading.Thread(target=lambda: [store.transact(increment) for _ in range(10)])
    own.start()
    wait_for(children)
    own.join()
    assert number_at(sqlite, "/counter") == 100
