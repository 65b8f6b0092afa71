"""`transact` on every store: when a step is run again because of other clients' writes, and when it is not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncelog.errors import CorruptDataError, InvariantViolation, TransactConflictError
from oncelog.limits import TOMBSTONE_MS
from oncelog.ports import Create, Set, ZnodeStore, ZnodeView
from oncelog.testing.znode_store_contract.worlds import (
    FakeTime,
    StoreFixtures,
    StoreWorld,
    data_of,
    doing,
    increment,
    present,
    versions_of,
)
from oncelog.znodes.errors import NodeExistsError, NoNodeError


class Disturbed:
    """A step that another client's write disturbs in the middle of its first run."""

    def __init__(
        self, disturb: Callable[[], object], before: Callable[[ZnodeView], object], after: Callable[[ZnodeView], object]
    ) -> None:
        self._disturb, self._before, self._after = disturb, before, after
        self.runs = 0

    def __call__(self, view: ZnodeView) -> int:
        self.runs += 1
        self._before(view)
        if self.runs == 1:
            self._disturb()
        self._after(view)
        return self.runs


class ConflictContract(StoreFixtures):
    """Steps that conflict with other clients' writes, and blind writes, which never conflict."""

    # Conflicts

    def test_a_step_runs_again_when_data_it_read_changed(self, world: StoreWorld) -> None:
        store, other = world.client(), world.client()
        store.multi([Create("/counter", b"0")])
        step = Disturbed(lambda: other.transact(increment), lambda view: view.get("/counter"), increment)

        assert store.transact(step) == 2
        assert data_of(store)["/counter"] == b"2"

    def test_a_step_runs_again_when_data_it_only_read_changed(self, world: StoreWorld) -> None:
        store, other = world.client(), world.client()
        store.multi([Create("/read"), Create("/written")])
        step = Disturbed(
            lambda: other.multi([Set("/read", b"")]),
            lambda view: view.get("/read"),
            lambda view: view.set("/written", b"x"),
        )

        assert store.transact(step) == 2

    def test_a_step_does_not_run_again_for_what_it_did_not_read(self, world: StoreWorld) -> None:
        store, other = world.client(), world.client()
        store.multi([Create("/mine"), Create("/theirs")])
        step = Disturbed(
            lambda: other.multi([Set("/theirs", b"")]),
            lambda view: view.get("/mine"),
            lambda view: view.set("/mine", b"x"),
        )

        assert store.transact(step) == 1

    def test_of_two_creators_of_siblings_who_read_each_others_absence_one_runs_again(self, world: StoreWorld) -> None:
        store, other = world.client(), world.client()
        seen: list[tuple[bool, bool]] = []

        def create(view: ZnodeView, own: str, others: str) -> None:
            seen.append((view.get(own) is None, view.get(others) is None))
            view.create(own)

        step = Disturbed(
            lambda: other.transact(lambda view: create(view, "/p/b", "/p/a")),
            lambda view: (view.get("/p/a"), view.get("/p/b")),
            lambda view: create(view, "/p/a", "/p/b"),
        )
        assert store.transact(step) == 2
        assert seen[-1] == (True, False)
        assert store.children("/p") == ["a", "b"]

    @pytest.mark.parametrize("exists", ["/", "/p", "/p/q"])
    def test_an_absence_conflicts_with_a_creation_however_far_the_nearest_ancestor(
        self, world: StoreWorld, exists: str
    ) -> None:
        store, other = world.client(), world.client()
        store.multi([Create("/own")])
        if exists != "/":
            store.transact(lambda view: view.create(exists))
        step = Disturbed(
            lambda: other.transact(lambda view: view.create("/p/q/r")),
            lambda view: view.get("/p/q/r"),
            lambda view: view.set("/own", str(view.get("/p/q/r") is not None).encode()),
        )

        assert store.transact(step) == 2
        assert data_of(store)["/own"] == b"True"

    @pytest.mark.parametrize("change", ["create", "delete", "replace"])
    @pytest.mark.parametrize("listing", ["children", "children_data"])
    def test_a_child_list_conflicts_with_every_change_of_it(self, world: StoreWorld, listing: str, change: str) -> None:
        store, other = world.client(), world.client()
        store.transact(doing(("create", "/p/a"), ("create", "/own")))

        def disturb() -> None:
            if change != "create":
                other.transact(lambda view: view.delete("/p/a"))
            if change != "delete":
                other.transact(lambda view: view.create("/p/b"))

        def names(view: ZnodeView) -> list[str]:
            return view.children("/p") if listing == "children" else [name for name, _ in view.children_data("/p")]

        step = Disturbed(disturb, names, lambda view: view.set("/own", ",".join(names(view)).encode()))
        assert store.transact(step) == 2
        assert data_of(store)["/own"] == {"create": b"a,b", "delete": b"", "replace": b"b"}[change]

    def test_a_list_with_data_conflicts_with_a_change_of_one_childs_data(self, world: StoreWorld) -> None:
        store, other = world.client(), world.client()
        store.transact(doing(("create", "/p/a", b"1"), ("create", "/p/b", b"2"), ("create", "/own")))
        step = Disturbed(
            lambda: other.multi([Set("/p/b", b"3")]),
            lambda view: view.children_data("/p"),
            lambda view: view.set("/own", b"".join(znode.data for _, znode in view.children_data("/p"))),
        )

        assert store.transact(step) == 2
        assert data_of(store)["/own"] == b"13"

    def test_a_delete_conflicts_with_a_change_of_the_znode(self, world: StoreWorld) -> None:
        store, other = world.client(), world.client()
        store.multi([Create("/a", b"old")])
        kept = []

        def delete_unless_new(view: ZnodeView) -> None:
            kept.append(present(view.get("/a")).data == b"new")
            if not kept[-1]:
                view.delete("/a")

        step = Disturbed(lambda: other.multi([Set("/a", b"new")]), lambda view: view.get("/a"), delete_unless_new)
        assert store.transact(step) == 2
        assert kept == [False, True]
        assert data_of(store)["/a"] == b"new"

    def test_a_creation_that_another_one_overtakes_is_run_again_and_sees_it(self, world: StoreWorld) -> None:
        store, other = world.client(), world.client()

        def create_once(view: ZnodeView) -> None:
            if view.get("/a") is None:
                view.create("/a", b"mine")

        step = Disturbed(
            lambda: other.transact(lambda view: view.create("/a", b"theirs")), lambda view: view.get("/a"), create_once
        )
        assert store.transact(step) == 2
        assert data_of(store)["/a"] == b"theirs"

    def test_a_read_is_repeatable_within_a_run(self, world: StoreWorld) -> None:
        store, other = world.client(), world.client()
        store.transact(doing(("create", "/a", b"1"), ("create", "/p/x", b"1")))

        def disturb() -> None:
            other.multi([Set("/a", b"2"), Set("/p/x", b"2"), Create("/p/y"), Set("/p", b"")])

        def look(view: ZnodeView) -> object:
            return view.get("/a"), view.children("/p"), view.children_data("/p"), view.get("/none")

        looks: list[object] = []
        store.transact(Disturbed(disturb, lambda view: looks.append(look(view)), lambda view: looks.append(look(view))))
        assert looks[0] == looks[1]

    def test_what_a_reading_or_raising_step_saw_held_at_one_moment(self, world: StoreWorld) -> None:
        """Two znodes always change together; a step never returns or raises by having seen one old and one new."""
        store, other = world.client(), world.client()
        store.multi([Create("/a", b"0"), Create("/b", b"0")])
        seen: dict[str, bytes] = {}

        def disturb() -> None:
            other.multi([Set("/a", b"1"), Set("/b", b"1")])

        def raise_what_was_seen(view: ZnodeView) -> None:
            seen["b"] = present(view.get("/b")).data
            raise KeyError(seen["a"], seen["b"])

        step = Disturbed(disturb, lambda view: seen.update(a=present(view.get("/a")).data), raise_what_was_seen)
        with pytest.raises(KeyError) as caught:
            store.transact(step)
        assert caught.value.args[0] == caught.value.args[1]

    def test_conflicts_until_the_deadline_end_in_an_error_that_names_the_contended_path(
        self, world: StoreWorld
    ) -> None:
        store, other = world.client(), world.client()
        store.multi([Create("/contended", b"0"), Create("/calm")])

        def step(view: ZnodeView) -> None:
            view.get("/calm")
            view.get("/contended")
            other.multi([Set("/contended", b"again")])
            view.set("/calm", b"x")

        with pytest.raises(TransactConflictError) as caught:
            store.transact(step, deadline_ms=500)
        assert caught.value.fields["path"] == "/contended"
        assert caught.value.fields["attempts"] > 1
        assert data_of(store)["/calm"] == b""

    def test_a_step_that_slept_past_its_deadline_writes_nothing_though_nothing_changed(self, world: StoreWorld) -> None:
        time = FakeTime()
        store = world.client(time)
        store.multi([Create("/a", b"old")])

        def step(view: ZnodeView) -> None:
            view.set("/a", b"new")
            time.durations_ms += 30_000

        with pytest.raises(TransactConflictError):
            store.transact(step, deadline_ms=30_000)
        assert data_of(store)["/a"] == b"old"

    def test_a_wall_clock_that_leapt_past_the_deadline_makes_a_step_read_again(self, world: StoreWorld) -> None:
        """A virtual machine that was paused counts no duration, but tombstones aged by the wall clock."""
        time = FakeTime()
        store = world.client(time)
        store.multi([Create("/a", b"old")])
        runs = 0

        def step(view: ZnodeView) -> None:
            nonlocal runs
            runs += 1
            view.set("/a", b"run %d" % runs)
            if runs < 3:
                time.wall_ms += TOMBSTONE_MS

        store.transact(step)
        assert data_of(store)["/a"] == b"run 3"

    def test_a_clock_set_back_disturbs_no_step(self, world: StoreWorld) -> None:
        time = FakeTime()
        store = world.client(time)
        store.multi([Create("/counter", b"0")])
        time.wall_ms -= TOMBSTONE_MS

        assert store.transact(increment) == 1

    def test_a_deadline_near_a_tombstones_life_is_refused(self, store: ZnodeStore) -> None:
        for deadline_ms in (0, TOMBSTONE_MS):
            with pytest.raises(InvariantViolation):
                store.transact(lambda view: view.get("/"), deadline_ms=deadline_ms)

    # Blind sets

    def test_a_blind_set_never_conflicts(self, world: StoreWorld) -> None:
        store, other = world.client(), world.client()
        store.multi([Create("/commits")])
        step = Disturbed(
            lambda: other.transact(lambda view: view.set_blind("/commits", b"theirs")),
            lambda view: view.set_blind("/commits", b"mine"),
            lambda view: None,
        )

        assert store.transact(step) == 1
        assert (data_of(store)["/commits"], versions_of(store)["/commits"]) == (b"mine", 2)

    @pytest.mark.parametrize("order", ["read first", "set first"])
    def test_a_blind_set_of_what_the_step_reads_is_no_longer_blind(self, world: StoreWorld, order: str) -> None:
        store, other = world.client(), world.client()
        store.multi([Create("/counter", b"0")])

        def blind_increment(view: ZnodeView) -> None:
            if order == "set first":
                view.set_blind("/counter", b"99")
                assert present(view.get("/counter")).data == b"99"
            value = int(present(store.get("/counter")).data) + 1
            view.get("/counter")
            view.set_blind("/counter", b"%d" % value)

        step = Disturbed(lambda: other.transact(increment), blind_increment, lambda view: None)
        assert store.transact(step) == 2
        assert data_of(store)["/counter"] == b"2"

    def test_a_blind_set_shares_the_zxid_of_its_step(self, store: ZnodeStore) -> None:
        store.multi([Create("/commits"), Create("/owner")])
        store.transact(doing(("set", "/owner", b"commit"), ("set_blind", "/commits", b"")))

        commits, owner = store.get_many(["/commits", "/owner"])
        assert present(commits).stat.mzxid == present(owner).stat.mzxid

    def test_a_blind_set_of_a_missing_znode_is_a_bug_and_nothing_is_written(self, store: ZnodeStore) -> None:
        with pytest.raises(InvariantViolation, match="/none"):
            store.transact(doing(("create", "/a"), ("set_blind", "/none", b"")))
        with pytest.raises(NoNodeError):
            store.transact(doing(("create", "/a"), ("set_blind", "/none", b""), ("get", "/none")))
        assert store.children("/") == []

    def test_a_blind_create_is_seen_by_its_step_and_sets_the_parent_like_any_other(self, world: StoreWorld) -> None:
        store, other = world.client(), world.client()
        store.multi([Create("/tail"), Create("/end", b"7")])

        def append(view: ZnodeView) -> bytes:
            end = int(present(view.get("/end")).data)
            view.create_blind(f"/tail/{end}", b"entry")
            view.set("/end", b"%d" % (end + 1))
            return present(view.get(f"/tail/{end}")).data

        step = Disturbed(lambda: other.transact(append), append, lambda view: None)
        assert store.transact(step) == 2
        assert store.children("/tail") == ["7", "8"]
        assert (data_of(store)["/end"], versions_of(store)["/tail"]) == (b"9", 2)

    def test_a_blind_create_of_what_was_read_as_present_is_refused(self, store: ZnodeStore) -> None:
        store.multi([Create("/tail"), Create("/tail/0")])
        with pytest.raises(NodeExistsError):
            store.transact(doing(("get", "/tail/0"), ("create_blind", "/tail/0")))

    def test_a_blind_create_of_what_exists_against_its_callers_word_writes_nothing(self, store: ZnodeStore) -> None:
        store.multi([Create("/tail"), Create("/tail/0", b"first")])
        # Where reads are no snapshot, the step is tried until its deadline. Elsewhere a second refusal ends it.
        expected, deadline_ms = (CorruptDataError, 60_000) if store.reads_are_atomic else (TransactConflictError, 200)
        with pytest.raises(expected, match="/tail/0"):
            store.transact(doing(("create", "/other"), ("create_blind", "/tail/0", b"second")), deadline_ms=deadline_ms)

        assert store.children("/") == ["tail"]
        assert data_of(store)["/tail/0"] == b"first"
