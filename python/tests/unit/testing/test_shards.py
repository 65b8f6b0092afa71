"""Shards share out everything, evenly, and by name alone."""

from __future__ import annotations

from argparse import ArgumentTypeError
from itertools import chain

import pytest

from simulation.shards import Shard

FOUR = [Shard(number, 4) for number in (1, 2, 3, 4)]


def test_a_name_is_in_one_shard_and_shards_are_of_like_size() -> None:
    names = [f"seed {seed}" for seed in range(10_000)]

    held = [sum(shard.holds(name) for name in names) for shard in FOUR]

    assert sum(held) == len(names)
    assert all(2_300 < count < 2_700 for count in held)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 11])
def test_each_shard_has_a_variant_and_all_together_have_every_one(count: int) -> None:
    variants = list(range(count))

    shares = [shard.share(variants, "test_law") for shard in FOUR]

    assert set(chain(*shares)) == set(variants)
    assert all(max(count // 4, 1) <= len(share) <= count // 4 + 1 for share in shares)


def test_what_is_varied_decides_which_shard_begins() -> None:
    assert {Shard(1, 4).share("abcd", f"test_{number}")[0] for number in range(20)} == set("abcd")


def test_the_only_shard_is_everything() -> None:
    assert Shard(1, 1).holds("anything")
    assert Shard(1, 1).share("abc", "test") == "abc"


def test_a_shard_is_written_as_it_is_read() -> None:
    assert str(Shard.parse("2/4")) == "2/4"


@pytest.mark.parametrize("text", ["", "1", "0/4", "5/4", "-1/4", "1/0", "a/b", "1/2/3"])
def test_anything_else_is_no_shard(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="as in 2/4"):
        Shard.parse(text)
