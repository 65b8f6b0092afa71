"""Walking over all znodes of a store."""

from __future__ import annotations

import pytest

from oncelog.ports import Create, Delete, ZnodeStore
from oncelog.znodes import walking
from oncelog.znodes.walking import paths_upwards, walk, walk_below
from tests.unit.znodes.worlds import dump

TREE = ["/a", "/a/1", "/a/1/x", "/a/10", "/a/2", "/b", "/ø", "/ø/1"]


@pytest.fixture(autouse=True)
def _few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "ZNODES_PER_READ", 2)


@pytest.fixture
def tree(store: ZnodeStore) -> ZnodeStore:
    store.multi([Create(path, path.encode()) for path in TREE])
    return store


def test_a_walk_shows_every_znode_before_its_children_and_siblings_by_name_on_every_store(tree: ZnodeStore) -> None:
    assert [path for path, _ in walk(tree, "/")] == ["/", *TREE]
    assert dict(walk(tree, "/")) == dump(tree)


def test_a_walk_begins_at_any_znode(tree: ZnodeStore) -> None:
    assert [path for path, _ in walk(tree, "/a/1")] == ["/a/1", "/a/1/x"]
    assert [path for path, _ in walk_below(tree, "/a")] == ["/a/1", "/a/1/x", "/a/10", "/a/2"]
    assert list(walk(tree, "/c")) == []


def test_upwards_every_znode_comes_after_its_children(tree: ZnodeStore) -> None:
    found = list(paths_upwards(tree, "/"))

    tree.multi([Delete(path) for path in found])
    assert tree.children("/") == []


def test_a_walk_passes_over_what_is_deleted_before_it_comes_there(tree: ZnodeStore) -> None:
    found = walk(tree, "/")
    assert next(found)[0] == "/"

    tree.multi([Delete("/b"), Delete("/a/1/x"), Delete("/a/1")])

    assert [path for path, _ in found] == ["/a", "/a/10", "/a/2", "/ø", "/ø/1"]
