"""Processes and threads on one ZooKeeper: forked, pickled, killed, and creating what a step saw absent (I3)."""

from __future__ import annotations

import atexit
import gc
import os
import pickle
import random
import signal
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from oncelog.errors import IllegalStateTransitionError, InvalidOptionError, OutcomeUnknownError
from oncelog.ports import Create, ZnodeView
from oncelog.znodes.errors import NodeExistsError
from oncelog.znodes.zookeeper import ZookeeperZnodeStore
from tests.support.harness.waiting import until
from tests.support.servers.zookeeper import ZookeeperServer
from tests.unit.znodes.worlds import (
    FakeTime,
    ZookeeperWorld,
    forked,
    increment,
    increment_in_generations,
    increment_while_forking,
    kill,
    number_at,
    stop_inside_a_step,
    wait_for,
)

pytestmark = pytest.mark.slow

WORKERS = 4


@pytest.fixture
def world(zookeeper: ZookeeperServer, tmp_path: Path) -> Iterator[ZookeeperWorld]:
    world = ZookeeperWorld(tmp_path, zookeeper.url())
    yield world
    world.close()


# Absence and child lists, under concurrent creates and deletes


def test_of_many_that_saw_a_path_absent_one_creates_it(world: ZookeeperWorld) -> None:
    """Each run has a winner, and the losers find what it wrote, however deep the path is."""
    store = world.client()
    rounds = 30

    def work(worker: int) -> None:
        for number in range(rounds):
            path = f"/round/{number}/deep/owner"

            def step(view: ZnodeView, path: str = path) -> bytes:
                znode = view.get(path)
                if znode is not None:
                    return znode.data
                view.create(path, b"%d" % worker)
                view.create(f"/won/{worker}.{path.split('/')[2]}")
                return b"%d" % worker

            owner = store.transact(step)
            assert store.transact(step) == owner

    store.transact(lambda view: view.create("/won/none"))
    world.in_parallel(WORKERS, work)
    won = [name.partition(".") for name in store.children("/won") if name != "none"]
    assert sorted(int(number) for _, _, number in won) == list(range(rounds))
    for worker, _, number in won:
        owner = store.get(f"/round/{number}/deep/owner")
        assert owner is not None
        assert owner.data.decode() == worker


def test_a_step_that_read_absence_never_writes_once_the_path_exists(world: ZookeeperWorld) -> None:
    """The znodes a/x and b/x exclude each other: whoever finds the other absent may create its own.

    Their parents stay, as tombstones do (znodes/transact.py): what is recreated begins at version 0 again.
    """
    store = world.client()
    store.multi([Create("/room"), Create("/seen")])

    def enter(view: ZnodeView, mine: str, other: str) -> bool:
        if view.get(f"/room/{other}/x") is not None or view.get(f"/room/{mine}/x") is not None:
            return False
        view.create(f"/room/{mine}/x")
        return True

    def leave(view: ZnodeView, mine: str) -> None:
        view.delete(f"/room/{mine}/x")

    def inside(view: ZnodeView) -> list[str]:
        return [name for name in ("a", "b") if view.get(f"/room/{name}/x") is not None]

    def work(worker: int) -> None:
        mine, other = ("a", "b") if worker % 2 else ("b", "a")
        entered = 0
        while entered < 10:
            if store.transact(lambda view: enter(view, mine, other)):
                entered += 1
                assert store.transact(inside) == [mine]
                store.transact(lambda view: leave(view, mine))

    world.in_parallel(WORKERS, work)
    assert store.transact(inside) == []


def test_what_a_reading_step_returns_held_at_one_moment_while_others_create_and_delete(world: ZookeeperWorld) -> None:
    """Exactly one of /slots/left and /slots/right exists at any moment."""
    store = world.client()
    store.multi([Create("/slots"), Create("/slots/left")])

    def swap(view: ZnodeView) -> None:
        here, there = ("left", "right") if view.get("/slots/left") else ("right", "left")
        view.delete(f"/slots/{here}")
        view.create(f"/slots/{there}")

    def count(view: ZnodeView) -> tuple[int, int]:
        seen = [view.get("/slots/left"), view.get("/slots/right")]
        return sum(znode is not None for znode in seen), len(view.children("/slots"))

    def work(worker: int) -> None:
        for _ in range(40):
            if worker:
                assert store.transact(count) == (1, 1)
            else:
                store.transact(swap)

    world.in_parallel(WORKERS, work)


def test_a_create_that_another_overtakes_raises_only_what_is_true(world: ZookeeperWorld) -> None:
    store = world.client()
    created = world.client()
    created.multi([Create("/created")])

    def create(view: ZnodeView) -> None:
        view.create("/only")

    def work(worker: int) -> None:
        try:
            store.transact(create)
        except NodeExistsError:
            assert store.get("/only") is not None
        else:
            store.transact(lambda view: view.create(f"/created/{worker}"))

    world.in_parallel(WORKERS, work)
    assert len(store.children("/created")) == 1


# Forked


def test_a_forked_child_opens_a_session_of_its_own_and_leaves_its_parents_alone(world: ZookeeperWorld) -> None:
    store = world.client()
    assert isinstance(store, ZookeeperZnodeStore)
    store.multi([Create("/counter", b"0")])
    session = store._link.session(store._link.deadline_s())

    def work() -> None:
        assert session.is_over
        assert store.transact(increment) == 1
        assert store._link.session(store._link.deadline_s()) is not session
        store.close()
        gc.collect()

    wait_for([forked(work)])
    assert store._link.session(store._link.deadline_s()) is session
    assert not session.is_over
    assert store.transact(increment) == 2


def test_a_child_that_ends_as_a_program_does_leaves_its_parents_session_alone(world: ZookeeperWorld) -> None:
    store = world.client()
    assert isinstance(store, ZookeeperZnodeStore)
    store.multi([Create("/counter", b"0")])
    session = store._link.session(store._link.deadline_s())

    wait_for([forked(atexit._run_exitfuncs)])
    assert store.transact(increment) == 1
    assert store._link.session(store._link.deadline_s()) is session


def test_a_child_forked_inside_a_step_may_use_the_store(world: ZookeeperWorld) -> None:
    store = world.client()
    store.multi([Create("/counter", b"0"), Create("/other", b"0")])

    def step(view: ZnodeView) -> int:
        view.get("/counter")
        wait_for([forked(lambda: store.transact(lambda own: increment(own, "/other")))])
        return increment(view)

    assert store.transact(step) == 1
    assert number_at(world.client(), "/other") == 1


def test_generations_of_forks_count_together(world: ZookeeperWorld) -> None:
    store = world.client()
    store.multi([Create("/counter", b"0")])

    increment_in_generations(store, 2)

    assert number_at(world.client()) == 2 * 3 + 4


def test_forks_while_other_threads_write_disturb_nobody(world: ZookeeperWorld) -> None:
    store = world.client()
    store.multi([Create("/counter", b"0")])

    written = increment_while_forking(store, 8)

    assert number_at(world.client()) == written + 8


# Killed and stopped


def increment_both(view: ZnodeView) -> int:
    increment(view, "/left")
    return increment(view, "/right")


def test_a_process_killed_at_any_moment_leaves_whole_steps_and_all_that_it_acknowledged(world: ZookeeperWorld) -> None:
    store = world.client()
    store.multi([Create("/left", b"0"), Create("/right", b"0")])
    seed = random.randrange(2**32)
    moments = random.Random(seed)

    for _ in range(10):
        reading, writing = os.pipe()

        def work(writing: int = writing) -> None:
            while True:
                os.write(writing, struct.pack("q", store.transact(increment_both)))

        pid = forked(work)
        os.close(writing)
        first = os.read(reading, 8)  # it is under way
        time.sleep(moments.uniform(0, 0.03))
        kill(pid)
        with os.fdopen(reading, "rb") as answers_left:
            answers = first + answers_left.read()
        acknowledged = struct.unpack("q", answers[-8:])[0]

        store.sync()
        left, right = number_at(world.client(), "/left"), number_at(world.client(), "/right")
        assert left == right >= acknowledged, f"seed {seed}"
        assert right <= acknowledged + 1, f"seed {seed}"


def test_a_process_stopped_inside_a_step_holds_up_nobody_and_writes_nothing_when_it_wakes_too_late(
    world: ZookeeperWorld,
) -> None:
    stop_inside_a_step(world)


def test_a_process_stopped_with_a_request_in_its_hands_for_longer_than_its_session_writes_nothing(
    zookeeper: ZookeeperServer,
) -> None:
    """Stopped right after it was asked whether its step is fresh, when nothing else can keep the write back."""
    url = zookeeper.url("session_ms=1000")
    with closing(ZookeeperZnodeStore(url)) as store:
        store.multi([Create("/late", b"")])

        def work() -> None:
            def stop() -> bool:
                os.kill(os.getpid(), signal.SIGSTOP)
                return True

            store.sync()
            with pytest.raises(OutcomeUnknownError):
                store.multi([Create("/written")], is_fresh=stop)

        pid = forked(work)
        os.waitpid(pid, os.WUNTRACED)
        time.sleep(3)
        os.kill(pid, signal.SIGCONT)
        wait_for([pid])
        store.sync()
        assert store.children("/") == ["late"]


# Pickled and shared


def test_a_pickled_store_carries_the_url_and_creates_no_chroot(zookeeper: ZookeeperServer) -> None:
    time_given = FakeTime()
    with closing(ZookeeperZnodeStore(zookeeper.url(), now_ms=time_given.now_ms, clock=time_given)) as store:
        with closing(pickle.loads(pickle.dumps(store))) as copy, pytest.raises(InvalidOptionError, match="chroot"):
            copy.get("/")
        store.multi([Create("/counter", b"0")])
        with closing(pickle.loads(pickle.dumps(store))) as copy:
            assert copy.transact(increment) == 1
            assert copy.timing.now_ms() == time_given.wall_ms


def test_threads_share_one_session(world: ZookeeperWorld) -> None:
    store = world.client()
    assert isinstance(store, ZookeeperZnodeStore)
    store.multi([Create("/counter", b"0")])
    session = store._link.session(store._link.deadline_s())
    threads = [threading.Thread(target=lambda: [store.transact(increment) for _ in range(10)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert number_at(world.client()) == 40
    assert store._link.session(store._link.deadline_s()) is session


def test_a_store_closed_by_one_thread_is_closed_for_all(world: ZookeeperWorld) -> None:
    store = world.client()
    store.multi([Create("/counter", b"0")])
    ends: list[type[BaseException]] = []

    def work() -> None:
        try:
            while True:
                store.get("/counter")
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            ends.append(type(error))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    store.close()
    for thread in threads:
        thread.join()
    assert ends == [IllegalStateTransitionError] * 3


def test_a_store_that_is_dropped_ends_its_session_and_threads(world: ZookeeperWorld) -> None:
    world.client().sync()
    before = threading.active_count()
    ZookeeperZnodeStore(world.url).sync()

    until(lambda: gc.collect() is not None and threading.active_count() <= before)
