"""The reader beside the query tells whole batches, half batches and copies apart."""

from __future__ import annotations

import numpy as np

from flights.sightings import Sightings
from flights.story import HalfBatch, Sighting


def see(sightings: Sightings, at_s: float, *batches: tuple[int, range]) -> None:
    rows = np.array([row for _, rows in batches for row in rows], dtype=np.int64)
    numbers = np.array([batch for batch, rows in batches for _ in rows], dtype=np.int64)
    sightings.see(at_s, rows, numbers)


def test_batches_that_come_whole_are_no_half_batches() -> None:
    sightings = Sightings()

    see(sightings, 1.0, (0, range(4)))
    see(sightings, 2.0, (1, range(4, 6)), (2, range(6, 9)))

    assert sightings.half_batches == {}
    assert sightings.all == [Sighting(1.0, 0, 4), Sighting(2.0, 1, 2), Sighting(2.0, 2, 3)]


def test_a_batch_whose_rows_come_with_two_looks_was_half_a_batch() -> None:
    sightings = Sightings()

    see(sightings, 1.0, (7, range(3)))
    see(sightings, 2.0, (7, range(3, 10)))

    assert sightings.half_batches == {7: HalfBatch(1.0, 7, seen=3, rows=10)}


def test_a_batch_that_comes_in_three_pieces_is_one_half_batch() -> None:
    sightings = Sightings()

    for at, piece in enumerate((range(1), range(1, 3), range(3, 6))):
        see(sightings, float(at), (0, piece))

    assert sightings.half_batches == {0: HalfBatch(0.0, 0, seen=1, rows=6)}


def test_a_second_copy_of_a_whole_batch_is_no_half_batch() -> None:
    sightings = Sightings()

    see(sightings, 1.0, (3, range(5)))
    see(sightings, 9.0, (3, range(5)))

    assert sightings.half_batches == {}
    assert sightings.all[-1] == Sighting(9.0, 3, 5, copies=5)


def test_a_batch_written_again_after_its_first_half_is_a_half_batch_with_copies() -> None:
    sightings = Sightings()

    see(sightings, 1.0, (3, range(2)))
    see(sightings, 9.0, (3, range(5)))

    assert sightings.half_batches == {3: HalfBatch(1.0, 3, seen=2, rows=5)}
    assert sightings.all[-1] == Sighting(9.0, 3, 5, copies=2)


def test_rows_count_once_and_batches_by_their_number() -> None:
    sightings = Sightings()
    assert sightings.newest_batch == -1

    see(sightings, 1.0, (0, range(4)), (2, range(4, 6)))
    see(sightings, 2.0, (0, range(4)))

    assert sightings.row_count == 6
    assert sightings.newest_batch == 2
    assert sightings.count_beyond(-1) == 2
    assert sightings.count_beyond(0) == 1
