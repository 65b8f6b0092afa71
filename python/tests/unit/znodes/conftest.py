"""Fixtures of the store contract: a world per backend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.znodes.worlds import WORLDS, MultiStore, SqliteWorld, World


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
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
