"""File names and the collection generation."""

from __future__ import annotations

import pytest

from oncelog.errors import CorruptDataError, StaleFileError
from oncelog.log import generations
from oncelog.runtime import Log
from oncelog.znodes import paths


def test_a_name_carries_the_generation_it_was_made_in() -> None:
    name = generations.new_name(generations.INDEX, 12)

    assert name.startswith("index/00000012-")
    assert generations.generation_of(name) == 12
    assert generations.new_name(generations.INDEX, 12) != name
    assert generations.generation_of(generations.new_name(generations.DATA, 10**9)) == 10**9


@pytest.mark.parametrize("name", ["", "data", "data/", "data/x-1", "data/-1", "1-a", "data/00000001", "data/1-a/b"])
def test_other_names_are_not_ours(name: str) -> None:
    """conformance: 26."""
    assert not generations.is_name(name)
    with pytest.raises(CorruptDataError, match="name of a file"):
        generations.generation_of(name)


@pytest.mark.parametrize(("generation", "is_fresh"), [(1, False), (2, False), (3, True), (4, True), (5, True)])
def test_files_of_this_and_the_previous_generation_may_still_be_named(
    log: Log, generation: int, *, is_fresh: bool
) -> None:
    store = log.services.store
    store.transact(lambda view: view.set(paths.GENERATION, paths.encode({"generation": 4})))
    name = generations.new_name(generations.DATA, generation)
    assert generations.current(store) == 4
    if is_fresh:
        generations.check_fresh(store, [name])
    else:
        with pytest.raises(StaleFileError, match=name):
            generations.check_fresh(store, [generations.new_name(generations.DATA, 4), name])
