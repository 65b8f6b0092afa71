"""Many writers at the same time, on every store: nothing is lost, and a snapshot shows one moment."""

from __future__ import annotations

import pickle

from oncelog.ports import Create, Set, ZnodeStore, ZnodeView
from oncelog.testing.znode_store_contract.worlds import (
    StoreFixtures,
    StoreWorld,
    doing,
    forked,
    in_threads,
    increment,
    number_at,
    present,
    wait_for,
)

WORKERS = 6
ROUNDS = 40

BETWEEN = 1_000
"""Znodes that a reader asks for between two others."""


class ConcurrencyContract(StoreFixtures):
    """Writers in processes if the store supports that, else in threads."""

    def test_increments_of_one_counter_by_many_are_all_counted(self, world: StoreWorld) -> None:
        store = world.client()
        store.multi([Create("/counter", b"0")])

        def work(_: int) -> None:
            for _ in range(ROUNDS):
                store.transact(increment)

        world.in_parallel(WORKERS, work)
        assert number_at(world.client(), "/counter") == WORKERS * ROUNDS

    def test_creators_of_siblings_agree_on_their_numbers(self, world: StoreWorld) -> None:
        """Each takes the next free name by listing the children: only their parent's version keeps them apart."""
        store = world.client()

        def create_next(view: ZnodeView) -> str:
            name = f"/p/{len(view.children('/p')):04}"
            view.create(name)
            return name

        def work(_: int) -> None:
            for _ in range(10):
                store.transact(create_next)

        world.in_parallel(WORKERS, work)
        assert world.client().children("/p") == [f"{number:04}" for number in range(WORKERS * 10)]

    def test_money_moved_between_accounts_is_never_seen_missing(self, world: StoreWorld) -> None:
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

        world.in_parallel(WORKERS, work)
        assert store.transact(total) == 400

    def test_blind_sets_of_many_all_count_and_none_makes_another_run_again(self, world: StoreWorld) -> None:
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

        world.in_parallel(WORKERS, work)
        commits = store.get("/commits")
        assert commits is not None
        assert commits.stat.version == WORKERS * ROUNDS

    def test_znodes_that_are_read_together_are_read_in_their_order(self, world: StoreWorld) -> None:
        """Also if they are so many that a store asks for them by several requests."""
        store = world.client()
        first, last = "/a", "/b"
        store.multi([Create(first, b"0"), Create(last, b"0")])
        between = [f"/{number}" for number in range(BETWEEN)]

        def write() -> None:
            for _ in range(ROUNDS):
                store.transact(lambda view: increment(view, first))
                store.transact(lambda view: increment(view, last))

        def read() -> None:
            for _ in range(ROUNDS):
                later, *_, earlier = store.get_many([last, *between, first])
                assert int(present(later).data) <= int(present(earlier).data)

        world.in_parallel(2, lambda number: read() if number else write())
        assert number_at(store, first) == number_at(store, last) == ROUNDS


class AtomicReadsContract(StoreFixtures):
    """For stores whose `reads_are_atomic`."""

    def test_a_snapshot_is_of_one_moment_while_others_write(self, world: StoreWorld) -> None:
        store = world.client()
        store.multi([Create("/a", b"0"), Create("/b", b"0")])

        def write(number: int) -> None:
            for value in range(ROUNDS):
                data = b"%d of %d" % (value, number)
                store.multi([Set("/a", data), Set("/b", data)])

        def read() -> None:
            for _ in range(ROUNDS):
                with store.snapshot() as reader:
                    first = [reader.get("/a"), reader.get("/b")]
                    again = [znode for _, znode in reader.children_data("/")]
                assert first == again
                assert len({present(znode).data for znode in first}) == 1

        assert store.reads_are_atomic
        world.in_parallel(WORKERS, lambda number: write(number) if number % 2 else read())


class ManyProcessesContract(StoreFixtures):
    """For stores that several processes can use."""

    def test_what_was_acknowledged_is_there_after_its_writer_is_gone(self, world: StoreWorld) -> None:
        """The writer neither closes its store nor ends in order."""
        wait_for([forked(lambda: world.client().multi([Create("/a", b"written")]))])

        assert present(world.client().get("/a")).data == b"written"

    def test_a_forked_child_goes_on_with_its_parents_store_beside_it(self, store: ZnodeStore) -> None:
        store.multi([Create("/counter", b"0")])
        children = [forked(lambda: store.transact(increment)) for _ in range(3)]
        store.transact(increment)
        wait_for(children)

        assert number_at(store) == 4

    def test_a_pickled_store_is_the_same_one_in_another_process(self, world: StoreWorld) -> None:
        store = world.client()
        store.multi([Create("/counter", b"0")])
        pickled = pickle.dumps(store)

        def count() -> None:
            arrived = pickle.loads(pickled)
            arrived.transact(increment)
            arrived.close()

        wait_for([forked(count)])
        assert number_at(store) == 1

    def test_threads_and_processes_may_mix(self, store: ZnodeStore) -> None:
        store.multi([Create("/counter", b"0")])

        def work() -> None:
            in_threads(3, lambda _: [store.transact(increment) for _ in range(10)])

        def work_in_child() -> None:
            work()
            store.close()

        children = [forked(work_in_child) for _ in range(3)]
        work()
        wait_for(children)
        assert number_at(store) == 120
