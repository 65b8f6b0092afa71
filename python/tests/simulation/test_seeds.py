"""Seeds that failed once, by what they found.

A seed is the same run only as long as neither the product nor the simulation asks for chance in another order: what it
found is cut down in test_found_bugs.py, which stays.
"""

from __future__ import annotations

import pytest

from simulation.swarm import run

FOUND = {
    116: "an init whose first try read nothing, and whose answer was lost, ended in an IndexError",
    29: "a poll after a failed one handed out the half of a transaction that the failed plan had left",
    106: "the same, with a store whose reads are not of one moment",
    806: "a roll that another one overtook between its reads failed the commit behind which it ran",
    2346: "a planner showed an aborted transaction: the tail was rolled while it read it, and the marker was missing",
    821: "the same, with another partition",
    540761: "a reader's commit that failed behind a lost answer was taken for one that was refused",
    621983: "a life that slept until behind its successor aborted what that one promised, and nobody told the database",
    8782: "a batch write paused beyond its time-out and was told so, which the simulation did not expect",
}
"""What each seed found, in words."""


@pytest.mark.parametrize("seed", FOUND, ids=[f"{seed}: {what}" for seed, what in FOUND.items()])
def test_a_seed_that_failed_once_fails_no_more(seed: int) -> None:
    outcome = run(seed, is_on_log=False)

    assert outcome.failure is None, outcome.story()
