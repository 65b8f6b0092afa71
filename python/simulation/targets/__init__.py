"""Queries that write to places, alone or together, over simulated storage.

    outcome = swarm.run(1234)                                    # one seed

or ``python -m simulation.targets --seeds 0-9999``. See docs/concepts/simulation.md.
"""
