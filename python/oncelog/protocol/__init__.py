"""The protocol, pure: values and decisions. No I/O, clock, threads, logging or randomness."""
