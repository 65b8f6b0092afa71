"""Deterministic simulation of a log and everything around it: clients, faults and time, all from one seed.

The product's own code runs, unchanged, over the znode store in memory and a disk in memory. What is simulated is the
world below it: processes that crash, stand still and wake up late, answers that get lost, servers that lag, files that
are torn, clocks that jump. At the end the log and all that its clients saw are judged.

    outcome = run(1234)                                          # one seed
    assert outcome.failure is None, outcome.story()

or ``python -m oncelog.testing.simulation --seeds 0-9999``. See docs/concepts/simulation.md.

A run replaces limits and the source of randomness for its time: run nothing else in the process meanwhile.
"""

from __future__ import annotations

from oncelog.testing.simulation.swarm import Outcome, run

__all__ = ["Outcome", "run"]
