"""The embedded log: data files, the index, partitions, plans, retention and collection."""
