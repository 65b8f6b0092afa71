"""Every bound and default, with its reason. Times are milliseconds, sizes bytes."""

from __future__ import annotations

# Znode store ----------------------------------------------------------------------------------------------------------

MULTI_MAX_BYTES = 512 * 1024
"""Half of ZooKeeper's default jute.maxbuffer: a larger request shows up as a lost connection, not as a size error."""

MULTI_MAX_OPS = 1000
"""Bounds the time a multi holds the store's only writer."""

MAX_PARTITION_BYTES = 128 * 1024
MAX_TRANSACTION_BYTES = 160 * 1024
MAX_GROUP_PARTITION_BYTES = 32 * 1024
"""The znodes that grow: of a partition, by the owners it lists; of a transactional id and of an owner, by the
partitions they name, some two thousand; of a group's partition, by pending offsets. Bounded where they grow, so that a
step that ends a transaction always fits into a multi: one of each kind does, with its tail node."""

MAX_NAME_BYTES = 1024
"""Of a transactional id, a group id or a prefix as a path has it: percent-encoded where it is no letter or digit."""

MAX_OFFSET_METADATA_BYTES = 4096
"""Kafka's offset.metadata.max.bytes."""

TRANSACT_DEADLINE_MS = 30_000
"""How long a step is run again on conflict, and the age at which its reads are too old to write by (TOMBSTONE_MS)."""

TOMBSTONE_MS = 24 * 3600 * 1000
"""A dead transactional id keeps its znode this long, far beyond TRANSACT_DEADLINE_MS: a znode that is deleted and
recreated starts at version 0 again, and a slow step that read the old one must not pass its version check."""

CONFLICT_PAUSE_MAX_MS = 1
"""The longest random wait before a step is run again. Someone else's success caused the conflict, so nothing is gained
by waiting, and who waits longer is overtaken: with doubling waits one of eight processes got a tenth of its share."""

STORE_BUSY_MS = 10_000
"""How long a call waits for the embedded store's write lock. A multi takes milliseconds: its holder must be stopped."""

FORK_WAIT_MS = 5_000
"""How long a fork waits for other threads to be done with the embedded store (znodes/sqlite/pool.py)."""

ZOOKEEPER_TIMEOUT_MS = 15_000
"""How long a call waits for ZooKeeper, reconnecting included: an ensemble elects a new leader in a few seconds."""

ZOOKEEPER_SESSION_MS = 10_000
"""After this long without a sign of life client and server give each other up. No znode hangs on a session; it only
bounds how long a dead connection passes for a slow one, and how late a request that was sent may be carried out."""

WAL_KEEP_BYTES = 16 * 1024 * 1024
"""The write-ahead log of the embedded store shrinks to this after a long snapshot made it grow."""

PRODUCER_ID_BLOCK = 1000
"""Producer ids are taken in blocks (as Kafka does), so that a start costs a znode write once in a thousand."""

# Records and files ----------------------------------------------------------------------------------------------------

MAX_RECORD_BYTES = 16 * 1024 * 1024
"""Key, value and headers of one record. A block holds at least one record, and a reader holds a block in memory."""

MAX_TIMESTAMP_MS = (2**63 - 1) // 1000
"""The latest time that Spark shows, whose timestamps count microseconds: a later one could be written, and not read."""

BLOCK_TARGET_BYTES = 4 * 1024 * 1024
"""A record batch is cut about here, uncompressed: large enough for columns to pay, small enough to keep tasks flat."""

WRITER_BUFFER_BYTES = 32 * 1024 * 1024
"""Records a writer holds back while it gathers blocks for many partitions: its memory stays flat however many they
are. Beyond it the fullest block is written early; with 100 partitions blocks still reach a third of a MiB."""

FILE_ROLL_BYTES = 64 * 1024 * 1024
"""A writer starts a new file here, so that retention and orphan collection free space in pieces."""

DEFAULT_CODEC = "zstd"
"""Smaller files than lz4, at the speed of Spark's parquet sink; `lz4` and `null` are the other choices."""

DEFAULT_LINGER_MS = 5
"""Kafka's default (linger.ms, since 4.0): how long a record waits for others before it leaves by itself."""

OBJECT_BUFFER_BYTES = 8 * 1024 * 1024
"""What a writer to an object store holds in memory before it takes a temporary file; a task writes few at a time."""

OBJECT_STORE_TIMEOUT_MS = 10_000
"""How long one request to an object store waits for a sign of life. The SDK's own 3 s are short for joining parts."""

OBJECT_STORE_ATTEMPTS = 3
"""How often a request to an object store is sent: the SDK's own default. Callers and Spark retry beyond it."""

OPEN_OBJECTS = 64
"""Objects whose size a process remembers, so that blocks of one file do not ask for it again."""

# Index ----------------------------------------------------------------------------------------------------------------

TAIL_MAX_ENTRIES = 256
"""Tail znodes of one partition before the oldest roll into an index file."""

INDEX_FANOUT = 16
"""Index files of one level before they get a parent: the root list grows with log16 of the history."""

INLINE_BLOCKS_MAX = 64
"""Blocks one tail znode lists itself; more of them go into a manifest file that the znode points to."""

MAX_UNSETTLED_OWNERS = 1000
"""Open or unsettled transactions one partition lists; fewer where MAX_PARTITION_BYTES comes first."""

PENDING_OFFSETS_KEPT = 20
"""Pending offsets one partition of a group lists before those of decided transactions are folded in early."""

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
"""Batches a partition remembers per producer: Kafka's max.in.flight bound for idempotence."""

SETTLE_LAG_MS = 200
"""A settler uses a snapshot of /commits at least this old, so that plans faster than this never start over."""

PLAN_ATTEMPTS = 10
"""How often a plan starts over because settling overtook it, before the previous ends are kept; and how often a read of
several znodes starts over that others change meanwhile, before a contradiction counts as damage."""

ROUND_TIMEOUT_MS = 30 * 60 * 1000
"""An undecided micro-batch may be aborted by anyone after this long without renewal by its driver."""

# Collection -----------------------------------------------------------------------------------------------------------

GENERATION_MIN_AGE_MS = 3600 * 1000
"""The least age of a collection generation: a suspended writer or a slow reader has this long to finish with a file."""

HOLD_TIMEOUT_MS = 24 * 3600 * 1000
"""A write that Spark planned, and whose end nobody reported, keeps the generation from being raised for this long."""

# Topics ---------------------------------------------------------------------------------------------------------------

MAX_PARTITIONS = 500
"""Partitions of one topic: all of them are created in one multi."""
