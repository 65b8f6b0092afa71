"""Every store has ZooKeeper's data model: what a multi checks, what it does, and what it leaves if it fails."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from oncelog.errors import IllegalStateTransitionError, InvariantViolation, StepTooLargeError
from oncelog.limits import MULTI_MAX_BYTES, MULTI_MAX_OPS
from oncelog.ports import Check, Create, Delete, Op, Set, ZnodeStore
from oncelog.testing.znode_store_contract.worlds import FakeTime, StoreFixtures, StoreWorld, dump, stat_of
from oncelog.znodes.errors import MultiFailedError, Refusal, StaleStepError

BAD_PATHS = [
    *("", "a", "a/b", "//", "/a/", "/a//b", "/.", "/..", "/a/./b", "/a/../b"),
    *("/a\0", "/a\n", "/\x7f", "/\x85", "/\ue000", "/\ud800", "/\ufff0", "/\U0001f600"),
]


def refusal_of(store: ZnodeStore, ops: Sequence[Op]) -> tuple[int, str, Refusal]:
    with pytest.raises(MultiFailedError) as caught:
        store.multi(ops)
    return caught.value.index, caught.value.path, caught.value.refusal


class MultiContract(StoreFixtures):
    """Multis and plain reads."""

    def test_a_new_store_has_the_root_alone(self, store: ZnodeStore) -> None:
        """Its zxids and times are 0, but for a chroot, which is somebody's znode."""
        assert {path: (znode.data, znode.stat.version) for path, znode in dump(store).items()} == {"/": (b"", 0)}

    def test_versions_start_at_0_and_grow_with_each_set_also_of_equal_data(self, store: ZnodeStore) -> None:
        store.multi([Create("/a", b"same")])
        versions = [stat_of(store, "/a").version]
        for _ in range(3):
            store.multi([Set("/a", b"same")])
            versions.append(stat_of(store, "/a").version)

        assert versions == [0, 1, 2, 3]

    def test_children_do_not_change_the_version_of_their_parent(self, store: ZnodeStore) -> None:
        store.multi([Create("/a")])
        store.multi([Create("/a/b")])
        store.multi([Delete("/a/b")])

        assert stat_of(store, "/a").version == 0

    def test_delete_and_recreate_resets_the_version_but_not_the_zxids(self, store: ZnodeStore) -> None:
        store.multi([Create("/a")])
        store.multi([Set("/a", b"x")])
        before = stat_of(store, "/a")
        store.multi([Delete("/a")])
        store.multi([Create("/a")])
        after = stat_of(store, "/a")

        assert (before.version, after.version) == (1, 0)
        assert after.czxid > before.mzxid

    def test_all_operations_of_a_multi_share_one_zxid_and_zxids_grow(self, store: ZnodeStore) -> None:
        store.multi([Create("/a"), Create("/b")])
        store.multi([Set("/a", b"x"), Create("/c")])

        a, b, c = stat_of(store, "/a"), stat_of(store, "/b"), stat_of(store, "/c")
        assert a.czxid == b.czxid == b.mzxid
        assert a.mzxid == c.czxid == c.mzxid > a.czxid

    @pytest.mark.parametrize(
        ("op", "refusal"),
        [
            (Check("/none"), Refusal.NO_NODE),
            (Check("/none", 0), Refusal.NO_NODE),
            (Check("/a", 1), Refusal.BAD_VERSION),
            (Set("/none", b""), Refusal.NO_NODE),
            (Set("/a", b"", 1), Refusal.BAD_VERSION),
            (Create("/a"), Refusal.NODE_EXISTS),
            (Create("/"), Refusal.NODE_EXISTS),
            (Create("/none/child"), Refusal.NO_NODE),
            (Delete("/none"), Refusal.NO_NODE),
            (Delete("/a", 1), Refusal.BAD_VERSION),
            (Delete("/parent"), Refusal.NOT_EMPTY),
            (Delete("/parent", 1), Refusal.BAD_VERSION),
        ],
        ids=str,
    )
    def test_a_multi_that_fails_at_any_index_names_it_and_changes_nothing(
        self, store: ZnodeStore, op: Op, refusal: Refusal
    ) -> None:
        store.multi([Create("/a", b"1"), Create("/parent"), Create("/parent/child"), Create("/gone")])
        before = dump(store)
        around: list[Op] = [Create("/new"), Set("/parent/child", b"2"), Delete("/gone")]

        for index in range(len(around) + 1):
            assert refusal_of(store, [*around[:index], op, *around[index:]]) == (index, op.path, refusal)
            assert dump(store) == before

    def test_a_failed_multi_uses_up_no_zxid_and_the_next_one_works(self, store: ZnodeStore) -> None:
        store.multi([Create("/a")])
        refusal_of(store, [Create("/b"), Create("/a")])
        store.multi([Create("/b")])

        assert stat_of(store, "/b").czxid > stat_of(store, "/a").czxid
        assert store.children("/") == ["a", "b"]

    @pytest.mark.parametrize(
        "op", [Check("/a"), Check("/a", 0), Set("/a", b"x"), Set("/a", b"x", 0), Delete("/a", 0)], ids=str
    )
    def test_version_minus_one_asks_for_existence_and_the_right_version_passes(self, store: ZnodeStore, op: Op) -> None:
        store.multi([Create("/a")])

        store.multi([op])

    def test_operations_see_the_effects_of_earlier_ones(self, store: ZnodeStore) -> None:
        store.multi(
            [
                Create("/a"),
                Create("/a/b", b"1"),
                Check("/a/b", 0),
                Set("/a/b", b"2", 0),
                Check("/a/b", 1),
                Delete("/a/b", 1),
                Create("/a/b", b"3"),
                Check("/a/b", 0),
                Create("/c"),
                Delete("/c"),
            ]
        )

        assert {path: znode.data for path, znode in dump(store).items()} == {"/": b"", "/a": b"", "/a/b": b"3"}
        assert stat_of(store, "/a/b").version == 0

    def test_a_multi_of_checks_changes_nothing(self, store: ZnodeStore) -> None:
        store.multi([Create("/a")])
        before = dump(store)
        store.multi([Check("/a"), Check("/a", 0), Check("/")])
        store.multi([])

        assert dump(store) == before

    def test_the_root_can_be_set_but_not_deleted(self, store: ZnodeStore) -> None:
        store.multi([Set("/", b"data", 0)])

        root = store.get("/")
        assert root is not None
        assert (root.data, root.stat.version) == (b"data", 1)
        with pytest.raises(InvariantViolation):
            store.multi([Delete("/")])

    def test_a_path_that_zookeeper_refuses_is_refused_everywhere(self, store: ZnodeStore) -> None:
        for path in BAD_PATHS:
            for call in (store.get, store.children, store.children_data, lambda bad: store.get_many([bad])):
                with pytest.raises(InvariantViolation):
                    call(path)
            for op in (Check(path), Create(path), Set(path, b""), Delete(path)):
                with pytest.raises(InvariantViolation):
                    store.multi([Create("/good"), op])
        assert store.children("/") == []

    def test_a_name_is_kept_letter_for_letter(self, store: ZnodeStore) -> None:
        names = ["a", "...", ".a", "a b", "%2F", "é", "名前", "-1", "a'b\"c;--", "?", "*", "_%"]
        for name in names:
            store.multi([Create(f"/{name}", b"1"), Create(f"/{name}/{name}", b"2")])

        assert store.children("/") == sorted(names)
        for name in names:
            assert [(found, znode.data) for found, znode in store.children_data(f"/{name}")] == [(name, b"2")]

    def test_children_are_the_direct_ones_sorted_by_name(self, store: ZnodeStore) -> None:
        names = ["b", "a", "ab", "B", "10", "9", "a-", "z", "é"]
        store.multi([Create("/p"), Create("/p2"), *(Create(f"/p/{name}", name.encode()) for name in names)])
        store.multi([Create("/p/a/below"), Create("/p2/other")])

        assert store.children("/p") == sorted(names)
        assert [(name, znode.data) for name, znode in store.children_data("/p")] == [
            (name, name.encode()) for name in sorted(names)
        ]
        assert store.children("/") == ["p", "p2"]

    def test_an_absent_path_reads_as_none_and_has_no_children(self, store: ZnodeStore) -> None:
        store.multi([Create("/a", b"1")])

        assert store.get("/none") is None
        assert store.children("/none") == []
        assert store.children_data("/none") == []
        found = store.get_many(["/none", "/a", "/a/none", "/a"])
        assert [znode and znode.data for znode in found] == [None, b"1", None, b"1"]

    def test_data_is_kept_byte_for_byte(self, store: ZnodeStore) -> None:
        store.multi([Create("/set")])
        for number, data in enumerate([b"", b"\0", bytes(range(256)), b"x" * 100_000]):
            store.multi([Create(f"/{number}", data), Set("/set", data)])

            for znode in store.get_many([f"/{number}", "/set"]):
                assert znode is not None
                assert type(znode.data) is bytes
                assert znode.data == data

    def test_a_multi_over_the_limits_is_refused_before_anything_is_written(self, store: ZnodeStore) -> None:
        at_limit: list[Op] = [Create("/a", b"x" * (MULTI_MAX_BYTES - len("/a")))]
        many: list[Op] = [Create(f"/{number}") for number in range(MULTI_MAX_OPS)]
        with pytest.raises(StepTooLargeError, match="size_bytes="):
            store.multi([*at_limit, Check("/")])
        with pytest.raises(StepTooLargeError, match="operations="):
            store.multi([*many, Check("/")])
        assert store.children("/") == []

        store.multi(at_limit)
        store.multi([Delete("/a"), *many[1:]])
        assert len(store.children("/")) == MULTI_MAX_OPS - 1

    def test_a_stale_multi_is_refused_and_nothing_is_written(self, store: ZnodeStore) -> None:
        with pytest.raises(StaleStepError):
            store.multi([Create("/a")], is_fresh=lambda: False)

        assert store.children("/") == []

    def test_a_closed_store_says_so_and_closes_twice(self, store: ZnodeStore) -> None:
        store.close()
        store.close()

        for call in (lambda: store.get("/"), lambda: store.children("/"), lambda: store.multi([Create("/a")])):
            with pytest.raises(IllegalStateTransitionError):
                call()
        with pytest.raises(IllegalStateTransitionError), store.snapshot() as reader:
            reader.get("/")

    def test_clients_of_one_store_see_each_other(self, world: StoreWorld) -> None:
        first, second = world.client(), world.client()
        first.multi([Create("/a", b"1")])
        second.multi([Set("/a", b"2", 0)])

        assert dump(first) == dump(second)
        assert stat_of(first, "/a").version == 1


class ClientTimeMultiContract(StoreFixtures):
    """For stores without servers, whose clients provide the time and hold the lock."""

    def test_a_set_moves_mzxid_and_mtime_and_keeps_czxid_and_ctime(self, world: StoreWorld) -> None:
        time = FakeTime()
        store = world.client(time)
        store.multi([Create("/a")])
        created = stat_of(store, "/a")
        time.wall_ms += 5
        store.multi([Set("/a", b"x")])
        changed = stat_of(store, "/a")

        assert (created.ctime_ms, created.mtime_ms) == (time.wall_ms - 5, time.wall_ms - 5)
        assert (changed.czxid, changed.ctime_ms) == (created.czxid, created.ctime_ms)
        assert changed.mtime_ms == time.wall_ms

    def test_a_clock_set_back_never_takes_the_time_of_the_store_back(self, world: StoreWorld) -> None:
        time = FakeTime()
        store = world.client(time)
        store.multi([Create("/a")])
        before = stat_of(store, "/a").mtime_ms
        time.wall_ms -= 3_600_000
        store.multi([Set("/a", b"x")])
        store.multi([Create("/b")])

        assert stat_of(store, "/a").mtime_ms == before
        assert stat_of(store, "/b").ctime_ms == before

    def test_freshness_is_asked_where_no_other_write_can_come_before(self, world: StoreWorld) -> None:
        store, other = world.client(), world.client()
        writer = threading.Thread(target=lambda: other.multi([Create("/other")]))
        was_kept_out = []

        def is_fresh() -> bool:
            writer.start()
            writer.join(0.2)
            was_kept_out.append(writer.is_alive())
            return True

        store.multi([Create("/own")], is_fresh=is_fresh)
        writer.join()

        assert was_kept_out == [True]
        assert stat_of(store, "/own").czxid < stat_of(store, "/other").czxid
