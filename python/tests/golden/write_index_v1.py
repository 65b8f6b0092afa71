"""Wrote the golden index of version 1, once: `python -m tests.golden.write_index_v1`. It refuses to write it again.

The files of an index, and the znodes that name them. A change of either gets a script, and golden files, of its own.
"""

from __future__ import annotations

import json

from oncelog.log.index_files import IndexFiles
from oncelog.protocol.partition import IndexEntry, IndexRef, Manifest, Marker, OwnerSpan, PartitionState, TailNode
from oncelog.types import NO_SEQUENCE, NO_TIMESTAMP, Block, Outcome, ProducerIdAndEpoch
from oncelog.znodes import payloads
from tests.golden.write_v1 import _write_once
from tests.support.log.logs import MemoryFiles

# No two numbers of a block, an entry or a ref are equal: a value in another's place is found.
BLOCKS = [
    Block("data/00000001-a.avro", 16, 1234, 2**32 - 1, 10, 1_700_000_000_000, 1_700_000_000_099),
    Block("data/00000002-b.avro", 2**53, 77, 0, 3, NO_TIMESTAMP, 2**40),
]
PAIRS = (ProducerIdAndEpoch(1000, 2), ProducerIdAndEpoch(2**40, 32766))
ENTRIES = (
    IndexEntry(100, 10, PAIRS[0], 5, None, BLOCKS[0], None),
    IndexEntry(110, 3, PAIRS[1], 2**31 - 1, "/transactions/a/7.0", BLOCKS[1], None),
    IndexEntry(113, 1, PAIRS[1], NO_SEQUENCE, "/transactions/a/7.0", None, Marker(Outcome.ABORT, 110, PAIRS)),
    IndexEntry(114, 1, PAIRS[0], NO_SEQUENCE, "/queries/q/rounds/3", None, Marker(Outcome.COMMIT, 99, ())),
)
REFS = (
    IndexRef("index/00000001-c.avro", 1, 0, 60, 6, 50, 9_000, 1_700_000_000_001, None),
    IndexRef("index/00000002-d.avro", 1, 60, 100, 4, 30, 8_000, NO_TIMESTAMP, 59),
)
MANIFEST = Manifest("manifests/00000003-e.avro", 2, PAIRS[1], 8, "/queries/q/rounds/3")
SPANS = (OwnerSpan("/transactions/a/7.0", 101, 112, PAIRS), OwnerSpan("/queries/q/rounds/3", 105, 111, PAIRS[:1]))
PARTITION = PartitionState(40, 115, 7, SPANS, REFS, 12, 17_000, False)
TAIL = {
    "entries": TailNode(100, 115, 13, 1311, 1_700_000_000_099, ENTRIES),
    "manifest": TailNode(115, 128, 13, 1311, 2**40, (), MANIFEST),
}


def index_files() -> dict[str, bytes]:
    """A leaf, a parent and a manifest, by name."""
    files = MemoryFiles()
    writer = IndexFiles(files)
    writer.write_leaf("index-v1-leaf.avro", ENTRIES)
    writer.write_parent("index-v1-parent.avro", REFS)
    writer.write_manifest("index-v1-manifest.avro", BLOCKS)
    return {
        name: files.read(name, 0, files.size(name))
        for name in ("index-v1-leaf.avro", "index-v1-parent.avro", "index-v1-manifest.avro")
    }


def znodes() -> dict[str, str]:
    """What the znodes of a partition and of its tail hold, as text."""
    tail = {name: payloads.encode_tail_node(node) for name, node in TAIL.items()}
    return {name: data.decode() for name, data in {"partition": payloads.encode_partition(PARTITION), **tail}.items()}


def main() -> None:
    for name, data in index_files().items():
        _write_once(name, data)
    _write_once("index-v1.json", (json.dumps(znodes(), indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
