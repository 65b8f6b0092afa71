"""Mutated inputs for every door through which bytes or text of others come in; see `__main__`."""
