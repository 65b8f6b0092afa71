"""Benchmarks: each measures oncelog beside a peer in the same run and prints the ratio. Run `make bench`."""
