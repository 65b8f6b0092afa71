"""Benchmarks: each measures oncelog beside a peer in the same run and prints the ratio. Run `make bench`.

Those of growth measure oncelog alone, at more and more of everything: `make bench WHAT=growth`.
Those of operations measure what it costs to be watched: `make bench WHAT=operations`.
"""
