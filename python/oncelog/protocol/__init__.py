"""The pure protocol: values and decisions, without I/O, clocks, threads, logging or randomness."""
