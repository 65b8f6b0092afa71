"""Znodes on a command log: a totally ordered log of multis, which every process replays into its own tree.

A multi takes effect if and only if its checks hold at its position in the log, so its outcome is the same for everyone
who replays it, and whoever appended it learns it by replaying up to it. Kafka keeps its coordinators' state in this
way.

    port        what a log has to do: read, append, trim
    command     an entry as bytes: multis, or a part of a snapshot
    replica     the tree that a log's entries make, pure
    snapshot    a replica as parts, and the start from them
    store       the znode store
    objects     a log in a bucket
    s3          the bucket, and the stores that users name
"""
