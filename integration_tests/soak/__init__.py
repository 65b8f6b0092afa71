"""The soak: a copy of numbered records on three stacks, while all that takes part is killed and paused."""
