"""Deterministic simulation of a log and everything around it: clients, faults and time, all from one seed.

The product's own code runs unchanged, over a znode store and a disk in memory. The world below it is simulated:
processes that crash or are paused for a long time, answers that get lost, servers that lag, files that are torn, clocks
that jump. At the end, the log and everything that its clients saw are checked.

    outcome = swarm.run(1234)                                    # one seed
    assert outcome.failure is None, outcome.story()

or ``python -m simulation --seeds 0-9999``. See docs/concepts/simulation.md. No wheel contains it.

A run replaces limits and the source of randomness while it lasts: run nothing else in the process at the same time.
"""
