"""The embedded log: data files, the index, partitions, plans over them, retention and collection."""
