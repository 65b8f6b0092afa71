"""`transact` on every store: how a step sees its own writes, and what it leaves."""

from __future__ import annotations

import pytest

from oncelog.errors import InvariantViolation, StepTooLargeError
from oncelog.limits import MULTI_MAX_OPS
from oncelog.ports import Create, Delete, Set, ZnodeStore, ZnodeView
from oncelog.testing.znode_store_contract.worlds import (
    StoreFixtures,
    StoreWorld,
    data_of,
    doing,
    dump,
    increment,
    present,
    versions_of,
)
from oncelog.znodes.errors import NodeExistsError, NoNodeError


class StepContract(StoreFixtures):
    """Steps without conflicts."""

    def test_a_step_returns_its_value_and_writes_once(self, store: ZnodeStore) -> None:
        def step(view: ZnodeView) -> str:
            view.create("/a/b/c", b"deep")
            view.create("/a/d", b"1")
            view.set("/a/d", b"2")
            return "done"

        assert store.transact(step) == "done"
        assert data_of(store) == {"/": b"", "/a": b"", "/a/b": b"", "/a/b/c": b"deep", "/a/d": b"2"}
        assert len({znode.stat.mzxid for znode in dump(store).values()}) == 1
        assert versions_of(store) == {"/": 1, "/a": 0, "/a/b": 0, "/a/b/c": 0, "/a/d": 0}

    # Own writes

    def test_a_step_sees_its_own_writes(self, store: ZnodeStore) -> None:
        store.multi([Create("/a", b"old"), Create("/a/gone", b"x"), Create("/a/kept", b"y")])

        def step(view: ZnodeView) -> None:
            view.create("/a/new/below", b"1")
            view.set("/a", b"changed")
            view.delete("/a/gone")
            assert present(view.get("/a")).data == b"changed"
            assert present(view.get("/a/new")).data == b""
            assert [znode and znode.data for znode in view.get_many(["/a/gone", "/a/new/below"])] == [None, b"1"]
            assert view.children("/a") == ["kept", "new"]
            assert [(name, znode.data) for name, znode in view.children_data("/a")] == [("kept", b"y"), ("new", b"")]
            view.delete("/a/new/below")
            assert view.get("/a/new/below") is None
            assert view.children("/a/new") == []

        store.transact(step)
        assert data_of(store) == {"/": b"", "/a": b"changed", "/a/kept": b"y", "/a/new": b""}

    def test_own_writes_show_the_version_they_will_get(self, store: ZnodeStore) -> None:
        store.multi([Create("/a"), Create("/parent")])
        store.multi([Set("/a", b"")])

        def step(view: ZnodeView) -> dict[str, int]:
            view.set("/a", b"1")
            view.set("/a", b"2")
            view.create("/parent/new")
            return {path: present(view.get(path)).stat.version for path in ("/a", "/parent", "/parent/new")}

        promised = store.transact(step)
        assert promised == {"/a": 2, "/parent": 1, "/parent/new": 0}
        assert promised.items() <= versions_of(store).items()

    def test_a_step_that_raises_writes_nothing(self, store: ZnodeStore) -> None:
        def step(view: ZnodeView) -> None:
            view.create("/a")
            raise KeyError("of the step")

        with pytest.raises(KeyError, match="of the step"):
            store.transact(step)
        assert store.children("/") == []

    def test_a_step_may_delete_a_whole_tree_in_any_order_that_is_children_first(self, store: ZnodeStore) -> None:
        store.transact(doing(*(("create", path) for path in ("/a/b/c", "/a/b/d", "/a/e", "/f"))))

        store.transact(doing(*(("delete", path) for path in ("/a/b/d", "/a/b/c", "/a/e", "/a/b", "/a"))))
        assert data_of(store) == {"/": b"", "/f": b""}

    def test_a_znode_that_is_set_and_then_deleted_is_gone(self, store: ZnodeStore) -> None:
        store.multi([Create("/a")])

        store.transact(doing(("set", "/a", b"x"), ("delete", "/a")))
        assert store.children("/") == []

    def test_a_created_and_deleted_znode_leaves_nothing(self, store: ZnodeStore) -> None:
        def step(view: ZnodeView) -> None:
            view.create("/a/b")
            view.delete("/a/b")
            view.delete("/a")
            view.create("/c")

        store.transact(step)
        assert data_of(store) == {"/": b"", "/c": b""}

    # Parents

    def test_every_create_and_delete_sets_its_parent_once_with_the_same_data(self, store: ZnodeStore) -> None:
        store.multi([Create("/p", b"data")])

        store.transact(doing(("create", "/p/a"), ("create", "/p/b")))
        assert (data_of(store)["/p"], versions_of(store)["/p"]) == (b"data", 1)
        store.transact(doing(("delete", "/p/a"), ("create", "/p/c"), ("create", "/p/c/d")))
        assert (data_of(store)["/p"], versions_of(store)["/p"], versions_of(store)["/p/c"]) == (b"data", 2, 0)

    def test_an_own_set_of_the_parent_counts_for_its_children(self, store: ZnodeStore) -> None:
        store.multi([Create("/p", b"old")])

        store.transact(doing(("create", "/p/a"), ("set", "/p", b"new")))
        assert (data_of(store)["/p"], versions_of(store)["/p"]) == (b"new", 1)
        store.transact(doing(("set_blind", "/p", b"newer"), ("delete", "/p/a")))
        assert (data_of(store)["/p"], versions_of(store)["/p"]) == (b"newer", 2)

    # Steps that ask for what cannot be

    def test_creating_what_exists_and_changing_what_does_not_raise_in_the_step(self, store: ZnodeStore) -> None:
        store.multi([Create("/a")])

        def step(view: ZnodeView) -> None:
            view.create("/b")
            for path in ("/", "/a", "/b"):
                with pytest.raises(NodeExistsError):
                    view.create(path)
            view.delete("/a")
            for path in ("/none", "/a"):
                with pytest.raises(NoNodeError):
                    view.set(path, b"")
                with pytest.raises(NoNodeError):
                    view.delete(path)
            with pytest.raises(NoNodeError):
                view.set_blind("/a", b"")

        store.transact(step)
        assert store.children("/") == ["b"]

    def test_a_step_that_recreates_what_it_deleted_is_refused_since_versions_would_repeat(
        self, store: ZnodeStore
    ) -> None:
        store.transact(lambda view: view.create("/a/b"))
        before = dump(store)

        with pytest.raises(InvariantViolation, match="recreates"):
            store.transact(doing(("delete", "/a/b"), ("create", "/a/b")))
        with pytest.raises(InvariantViolation, match="recreates"):
            store.transact(doing(("delete", "/a/b"), ("delete", "/a"), ("create", "/a/c")))
        assert dump(store) == before

    def test_a_step_that_deletes_a_parent_under_its_children_is_refused(self, store: ZnodeStore) -> None:
        store.transact(lambda view: view.create("/a/b"))
        before = dump(store)

        with pytest.raises(InvariantViolation, match="has children"):
            store.transact(lambda view: view.delete("/a"))
        with pytest.raises(InvariantViolation, match="parent"):
            store.transact(doing(("delete", "/a/b"), ("create", "/a/c"), ("delete", "/a")))
        with pytest.raises(InvariantViolation, match="parent"):
            store.transact(doing(("create", "/n/m"), ("delete", "/n")))
        assert dump(store) == before

    def test_a_step_over_the_limits_is_refused_and_nothing_is_written(self, store: ZnodeStore) -> None:
        with pytest.raises(StepTooLargeError, match="operations="):
            store.transact(doing(*(("create", f"/p/{number}") for number in range(MULTI_MAX_OPS))))

        assert store.children("/") == []

    def test_steps_of_several_clients_may_nest(self, world: StoreWorld) -> None:
        store, other = world.client(), world.client()
        store.multi([Create("/counter", b"0")])

        def step(view: ZnodeView) -> int:
            with store.snapshot() as reader:
                inner = other.transact(lambda own: own.get("/counter"))
                assert reader.get("/counter") == inner == view.get("/counter")
            return increment(view)

        assert store.transact(step) == 1

    def test_a_deleted_znode_reads_as_absent_ever_after(self, store: ZnodeStore) -> None:
        store.multi([Create("/a")])
        store.transact(lambda view: view.delete("/a"))

        assert store.get("/a") is None
        with pytest.raises(NoNodeError):
            store.transact(lambda view: view.set("/a", b""))
        store.multi([Create("/a", b"new")])
        store.multi([Delete("/a", 0)])
