"""Files of every format version stay readable, and what version 1 writes stays what it wrote."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pytest

from oncelog.log import codec, columns
from oncelog.log.files import LocalFileStore
from oncelog.log.segment import read_block, scan_file
from oncelog.types import Block
from tests.golden.write_v1 import BATCHES, ROWS, ROWS_SCHEMA, SYNC_MARKER, Row, data_file, record_batch
from tests.style.tree import ROOT

FOLDER = Path(__file__).parent
FILES = LocalFileStore(FOLDER)
NAMES = {name: f"data-v1-{name}.avro" for name in codec.CODECS}


def index_of(name: str) -> list[Block]:
    return [Block(**block) for block in json.loads((FOLDER / "data-v1.json").read_text())[name]]


def canonical(schema: Any) -> str:
    """Without documentation, which may be reworded."""
    return fastavro.schema.to_parsing_canonical_form(schema)


@pytest.fixture(scope="module")
def documented_reader() -> Callable[[Path], Iterator[Row]]:
    """The reader that docs/reference/data-format.md shows."""
    text = (ROOT / "docs" / "reference" / "data-format.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict[str, Any] = {"__name__": "documented_reader"}
    exec(compile(program, "docs/reference/data-format.md", "exec"), names)
    reader: Callable[[Path], Iterator[Row]] = names["records"]
    return reader


@pytest.mark.parametrize("codec_name", codec.CODECS)
def test_every_batch_of_version_1_is_read_as_it_was_written(codec_name: str) -> None:
    blocks = index_of(NAMES[codec_name])

    assert [read_block(FILES, block).to_pylist() for block in blocks] == [
        record_batch(rows).to_pylist() for rows in BATCHES
    ]


@pytest.mark.parametrize("codec_name", codec.CODECS)
def test_a_scan_of_version_1_finds_what_its_index_says(codec_name: str) -> None:
    found = [(block.position, block.length, block.crc32) for block in scan_file(FILES, NAMES[codec_name])]

    assert found == [(block.position, block.length, block.crc32) for block in index_of(NAMES[codec_name])]


@pytest.mark.parametrize("codec_name", codec.CODECS)
def test_who_knows_only_the_documentation_reads_version_1(
    documented_reader: Callable[[Path], Iterator[Row]], codec_name: str
) -> None:
    assert list(documented_reader(FOLDER / NAMES[codec_name])) == [row for rows in BATCHES for row in rows]


def test_version_1_is_written_byte_by_byte_as_ever() -> None:
    # Compressed bytes belong to the version of the compression library; these do not.
    blocks = index_of(NAMES["null"])
    golden = (FOLDER / NAMES["null"]).read_bytes()

    data, blocks_now = data_file("null", NAMES["null"])

    def contents(of: bytes, at: list[Block]) -> list[bytes]:
        return [of[block.position : block.position + block.length] for block in at]

    assert contents(data, blocks_now) == contents(golden, blocks)


def test_the_schema_of_version_1_stays_what_it_was() -> None:
    for name in NAMES.values():
        header = codec.read_data_header((FOLDER / name).read_bytes(), name)

        assert header.sync_marker == SYNC_MARKER
        assert header.metadata[codec.VERSION_KEY] == b"1"
        assert canonical(json.loads(header.metadata["avro.schema"])) == canonical(columns.BATCH_SCHEMA)


def test_compressed_files_of_version_1_hold_compressed_buffers() -> None:
    sizes = {name: (FOLDER / NAMES[name]).stat().st_size for name in NAMES}

    assert max(sizes["lz4"], sizes["zstd"]) < 0.8 * sizes["null"]


def test_rows_of_version_1_are_read_as_they_were_written() -> None:
    data = (FOLDER / "rows-v1.avro").read_bytes()

    assert codec.read_rows(data, ROWS_SCHEMA, "rows-v1.avro") == ROWS
