"""Reads only batches that are complete: see the option `wholeBatches`."""
