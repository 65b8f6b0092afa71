"""Every limit and default, with its reason. Times are in milliseconds, sizes in bytes."""

from __future__ import annotations

# Znode store ----------------------------------------------------------------------------------------------------------

MULTI_MAX_BYTES = 512 * 1024
"""Half of ZooKeeper's default jute.maxbuffer. ZooKeeper drops the connection when a request is larger than that."""

MULTI_MAX_OPS = 1000
"""Bounds how long one multi keeps all other writers waiting."""

MAX_PARTITION_BYTES = 128 * 1024
MAX_TRANSACTION_BYTES = 160 * 1024
MAX_GROUP_PARTITION_BYTES = 32 * 1024
"""The znodes that grow: a partition's with the owners it lists, a transactional id's and an owner's with the partitions
they name (about two thousand), a group's partition's with pending offsets. Writes that would make one larger are
refused, so that a step that ends a transaction always fits into a multi: one of each kind fits, with its tail node."""

MAX_NAME_BYTES = 1024
"""A transactional id, a group id or a prefix, as encoded in a path: each byte that needs encoding counts as three."""

MAX_OFFSET_METADATA_BYTES = 4096
"""Kafka's offset.metadata.max.bytes."""

TRANSACT_DEADLINE_MS = 30_000
"""How long a step is run again after conflicts. A step with older reads must not write (TOMBSTONE_MS)."""

RECENT_MS = 60_000
"""How much older than a step the reads may be that it is run on at first (znodes/transact.py)."""

TOMBSTONE_MS = 24 * 3600 * 1000
"""A dead transactional id keeps its znode this long, far beyond RECENT_MS and TRANSACT_DEADLINE_MS. A znode that is
deleted and created again starts at version 0, so a slow step that read the old one could otherwise pass its check."""

CONFLICT_PAUSE_MAX_MS = 1
"""The longest random wait before a step is run again. A conflict means that another step succeeded, so a longer wait
gains nothing, and others overtake the one that waits: with doubling waits one of eight processes got a tenth of its
share."""

STORE_BUSY_MS = 10_000
"""How long a call waits for the embedded store's write lock. A multi takes milliseconds, so a longer wait means that
the lock's holder hangs."""

FORK_WAIT_MS = 5_000
"""How long a fork waits until other threads are done with the embedded store (znodes/sqlite/pool.py)."""

ZOOKEEPER_TIMEOUT_MS = 15_000
"""How long a call waits for ZooKeeper, including reconnects. An ensemble elects a new leader in a few seconds."""

ZOOKEEPER_SESSION_MS = 10_000
"""After this long without an answer, client and server end the session. No znode depends on a session; this only
bounds how long a dead connection looks like a slow one, and how late ZooKeeper may apply a request that was sent."""

POSTGRES_TIMEOUT_MS = 15_000
"""How long a call waits for PostgreSQL, including reconnects: about as long as it takes to restart."""

POSTGRES_STALL_MS = 5_000
"""How long a suspended process can block all other writers. This is far below their timeouts."""

LOOK_MS = 20
"""How often a process that waits for others looks at the znode store if it hears of no change: half of it is a tenth of
the time in which people notice a delay."""

BUSY_PAUSE_MS = 1
"""How long a process that waits for some znodes leaves the store alone after others were changed: a log that is busy
elsewhere costs it a thousand looks per second at most."""

WAL_KEEP_BYTES = 16 * 1024 * 1024
"""The embedded store's write-ahead log is cut to this size after a long snapshot made it grow."""

PRODUCER_ID_BLOCK = 1000
"""Producer ids are taken in blocks, as in Kafka, so that a process writes a znode only for every thousandth one."""

# Records and files ----------------------------------------------------------------------------------------------------

MAX_RECORD_BYTES = 16 * 1024 * 1024
"""Key, value and headers of one record together. A reader holds a whole block, of at least one record, in memory."""

MAX_TIMESTAMP_MS = (2**63 - 1) // 1000
"""The latest time that Spark can read: its timestamps count microseconds in a long."""

BLOCK_TARGET_BYTES = 4 * 1024 * 1024
"""Uncompressed size at which a block ends: large enough for columns to pay off, small enough for a task's memory."""

WRITER_BUFFER_BYTES = 32 * 1024 * 1024
"""Records that a writer buffers while it fills blocks for many partitions, so that its memory does not grow with their
number. When the buffer is full, the fullest block is written early; with 100 partitions blocks still reach a third of a
MiB."""

FILE_ROLL_BYTES = 64 * 1024 * 1024
"""A writer starts a new file at this size, so that retention and collection free space in pieces."""

DEFAULT_CODEC = "zstd"
"""Smaller files than lz4, at the speed of Spark's parquet sink; `lz4` and `null` are the other choices."""

DEFAULT_LINGER_MS = 5
"""Kafka's default (linger.ms, since 4.0): how long a record waits for others before it is sent in the background."""

OBJECT_BUFFER_BYTES = 8 * 1024 * 1024
"""What a writer to an object store holds in memory before it uses a temporary file. A task has few writers at once."""

OBJECT_STORE_TIMEOUT_MS = 10_000
"""How long a request to an object store waits for any answer. The SDK's default of 3 s is too short to join parts."""

OBJECT_STORE_ATTEMPTS = 3
"""How often a request to an object store is sent: the SDK's default. Callers and Spark retry on top of it."""

OPEN_OBJECTS = 64
"""Number of objects whose size a process remembers, so that it asks only once for the blocks of one file."""

# Index ----------------------------------------------------------------------------------------------------------------

TAIL_MAX_ENTRIES = 256
"""Number of tail znodes of a partition at which the oldest roll into an index file."""

INDEX_FANOUT = 16
"""Index files of one level that get a common parent, so that the root list grows with log16 of the history."""

INLINE_BLOCKS_MAX = 64
"""Blocks that a tail znode lists itself. More blocks go into a manifest file, which the znode names."""

MAX_UNSETTLED_OWNERS = 1000
"""Unsettled transactions that one partition lists; fewer if MAX_PARTITION_BYTES is reached first."""

PENDING_OFFSETS_KEPT = 20
"""Pending offsets that one partition of a group lists before those of decided transactions are folded in early."""

# Transactions ---------------------------------------------------------------------------------------------------------

DEFAULT_TRANSACTION_TIMEOUT_MS = 60_000
MAX_TRANSACTION_TIMEOUT_MS = 15 * 60 * 1000
"""Kafka's defaults (transaction.timeout.ms, transaction.max.timeout.ms)."""

TRANSACTIONAL_ID_EXPIRATION_MS = 7 * 24 * 3600 * 1000
PRODUCER_ID_EXPIRATION_MS = 24 * 3600 * 1000
"""Kafka's transactional.id.expiration.ms and producer.id.expiration.ms."""

OFFSETS_RETENTION_MS = 7 * 24 * 3600 * 1000
"""Kafka's offsets.retention.minutes."""

DEDUPE_WINDOW = 5
"""Batches that a partition remembers per producer: Kafka's limit of max.in.flight.requests for idempotence."""

SETTLE_LAG_MS = 200
"""A settler uses a value of /commits that is at least this old, so that a plan that takes less never starts over."""

PLANNED_RECORDS = 1_000_000
"""A consumer looks up so many records of a partition at once; bounds the memory for the index entries of a backlog."""

PLAN_ATTEMPTS = 10
"""How often a plan is tried when settling overtakes it, before the previous ends are kept. Also how often several
znodes are read again when others change them meanwhile, before a contradiction counts as damage."""

ROUND_TIMEOUT_MS = 30 * 60 * 1000
"""Any process may abort an undecided micro-batch that its driver has not renewed for this long."""

ROUND_OPENED_AFTER_MS = 30 * 1000
"""On a high-latency store, a micro-batch that takes longer than this opens its round before its decision."""

# Collection -----------------------------------------------------------------------------------------------------------

GENERATION_MIN_AGE_MS = 3600 * 1000
"""The least age of a collection generation: how long a suspended writer or a slow reader has to finish with a file."""

HOLD_TIMEOUT_MS = 24 * 3600 * 1000
"""How long a write that Spark planned keeps the generation from being raised if its end is never reported."""

# Topics ---------------------------------------------------------------------------------------------------------------

MAX_PARTITIONS = 500
"""Partitions of one topic. They are all created in one multi."""
