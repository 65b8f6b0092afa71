"""Fixtures of the store contract: a world per backend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.znodes.worlds import WORLDS, MultiStore, SqliteWorld, World, ZookeeperWorld


@pytest.fixture(params=[*WORLDS, pytest.param("zookeeper", marks=pytest.mark.servers)])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    if request.param == "zookeeper":
        world: World = ZookeeperWorld(tmp_path, request.getfixturevalue("zookeeper").url())
    else:
        world = WORLDS[request.param](tmp_path)
    yield world
    world.close()


@pytest.fixture
def store(world: World) -> MultiStore:
    return world.client()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteWorld]:
    world = SqliteWorld(tmp_path)
    yield world
    world.close()
