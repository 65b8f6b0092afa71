"""Fixtures of what is tested on several stores: a world per store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.ports import ZnodeStore
from oncelog.testing.znode_store_contract import StoreWorld
from tests.unit.znodes.worlds import WORLDS, SqliteWorld, ZookeeperWorld


@pytest.fixture(params=[*WORLDS, pytest.param("zookeeper", marks=pytest.mark.slow)])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreWorld]:
    if request.param == "zookeeper":
        world: StoreWorld = ZookeeperWorld(tmp_path, request.getfixturevalue("zookeeper").url())
    else:
        world = WORLDS[request.param](tmp_path)
    yield world
    world.close()


@pytest.fixture
def store(world: StoreWorld) -> ZnodeStore:
    return world.client()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteWorld]:
    world = SqliteWorld(tmp_path)
    yield world
    world.close()
