"""Files of rows: read as a whole, checked as a whole."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest

from oncelog.errors import CorruptDataError, UnsupportedFormatError
from oncelog.log import codec
from oncelog.log.files import LocalFileStore

NAME = "index/00000001-a.avro"
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Entry",
    "namespace": "oncelog",
    "fields": [{"name": "file", "type": "string"}, {"name": "offset", "type": ["null", "long"]}],
}
ROWS: list[dict[str, Any]] = [{"file": "data/a.avro", "offset": None}, {"file": "data/b.avro", "offset": 2**40}]


@pytest.fixture
def files(tmp_path: Path) -> LocalFileStore:
    return LocalFileStore(tmp_path)


def written(files: LocalFileStore, rows: list[dict[str, Any]], schema: dict[str, Any] = SCHEMA) -> bytes:
    output = files.create(NAME)
    codec.write_rows(output, schema, rows)
    output.finish()
    return files.read(NAME, 0, files.size(NAME))


@pytest.mark.parametrize("count", [0, 1, 2, 5000])
def test_rows_come_back_as_they_were(files: LocalFileStore, count: int) -> None:
    rows = (ROWS * count)[:count]

    assert codec.read_rows(written(files, rows), SCHEMA, NAME) == rows


def test_any_avro_reader_reads_the_rows(files: LocalFileStore) -> None:
    assert list(fastavro.reader(BytesIO(written(files, ROWS)))) == ROWS


def test_a_schema_that_grew_reads_older_rows_by_its_defaults(files: LocalFileStore) -> None:
    grown = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "flags", "type": "int", "default": 7}]}

    assert codec.read_rows(written(files, ROWS), grown, NAME) == [{**row, "flags": 7} for row in ROWS]


@pytest.mark.parametrize("rows", [[], ROWS], ids=["no rows", "rows"])
@pytest.mark.parametrize("pattern", [0x01, 0x80, 0xFF])
def test_every_flipped_byte_is_found(files: LocalFileStore, rows: list[dict[str, Any]], pattern: int) -> None:
    data = written(files, rows)

    for at in range(len(data)):
        damaged = data[:at] + bytes([data[at] ^ pattern]) + data[at + 1 :]
        with pytest.raises((CorruptDataError, UnsupportedFormatError), match=NAME):
            codec.read_rows(damaged, SCHEMA, NAME)


def test_every_truncation_and_addition_is_found(files: LocalFileStore) -> None:
    data = written(files, ROWS)

    for damaged in [*(data[:length] for length in range(len(data))), data + b"\0"]:
        with pytest.raises(CorruptDataError, match=NAME):
            codec.read_rows(damaged, SCHEMA, NAME)


def test_rows_of_another_kind_are_refused(files: LocalFileStore) -> None:
    other = {**SCHEMA, "fields": [{"name": "position", "type": "long"}]}

    with pytest.raises(CorruptDataError, match="expected kind"):
        codec.read_rows(written(files, ROWS), other, NAME)


def test_rows_of_a_newer_version_ask_for_an_upgrade(files: LocalFileStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(codec, "ROWS_VERSION", 2)
        data = written(files, ROWS)

    with pytest.raises(UnsupportedFormatError) as caught:
        codec.read_rows(data, SCHEMA, NAME)
    assert (caught.value.fields["file"], caught.value.fields["version"], caught.value.fields["known"]) == (NAME, 2, 1)


def test_a_file_that_is_no_container_is_refused() -> None:
    for data in [b"", b"PAR1", b"Obj\x01", bytes(100)]:
        with pytest.raises(CorruptDataError, match=NAME):
            codec.read_rows(data, SCHEMA, NAME)
