"""What every test stands on: its parts, its leaks, its shard, its patience."""
