"""The index of format version 1: files and znodes are read as they were written, and written as they ever were."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from oncelog.log import codec
from oncelog.log.files import LocalFileStore
from oncelog.log.index_files import IndexFiles
from oncelog.protocol.partition import IndexRef, TailNode
from oncelog.znodes import payloads
from tests.golden.write_index_v1 import BLOCKS, ENTRIES, MANIFEST, PARTITION, REFS, TAIL, index_files, znodes

FOLDER = Path(__file__).parent
FILES = IndexFiles(LocalFileStore(FOLDER))
GOLDEN = json.loads((FOLDER / "index-v1.json").read_text())


def as_another_wrote_it(text: str) -> bytes:
    """The same JSON in bytes that this process never wrote, so that they are read and not remembered."""
    return json.dumps(json.loads(text), indent=1).encode()


def schema_of(data: bytes) -> bytes:
    return codec.read_data_header(data, "").metadata["avro.schema"]


def rows_of(data: bytes) -> Any:
    return codec.read_rows(data, json.loads(schema_of(data)), "")


@pytest.mark.parametrize("name", index_files())
def test_files_of_version_1_are_written_with_the_same_schema_and_rows(name: str) -> None:
    # The sync marker is random, and compressed bytes belong to the version of zlib.
    golden, now = (FOLDER / name).read_bytes(), index_files()[name]

    assert schema_of(now) == schema_of(golden)
    assert rows_of(now) == rows_of(golden)


def test_files_of_version_1_are_read_as_they_were_written() -> None:
    leaf = IndexRef("index-v1-leaf.avro", 0, 100, 115, 4, 13, 1311, 2**40, 110)
    parent = IndexRef("index-v1-parent.avro", 2, 0, 100, 10, 80, 17_000, 1_700_000_000_001, 59)
    node = TailNode(115, 128, 13, 1311, 2**40, (), replace(MANIFEST, file="index-v1-manifest.avro"))

    assert FILES.leaf(leaf) == ENTRIES
    assert FILES.children(parent) == REFS
    assert [entry.block for entry in FILES.tail_entries(node)] == BLOCKS


def test_znodes_of_version_1_are_written_byte_by_byte_as_ever() -> None:
    assert znodes() == GOLDEN


def test_znodes_of_version_1_are_read_as_they_were_written() -> None:
    assert payloads.decode_partition("/path", as_another_wrote_it(GOLDEN["partition"])) == PARTITION
    for name, node in TAIL.items():
        assert payloads.decode_tail_node("/path", as_another_wrote_it(GOLDEN[name])) == node
