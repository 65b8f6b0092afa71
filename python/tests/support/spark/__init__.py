"""The one Spark of a run, its home, and its readers."""
