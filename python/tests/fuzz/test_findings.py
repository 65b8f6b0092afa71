"""Every finding that the fuzzer ever made, by the law that it broke."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path

import pyarrow as pa
import pytest

import oncelog
from oncelog.batches.fingerprint import fingerprint
from oncelog.buckets import ObjectPlace
from oncelog.errors import CorruptDataError, InvalidOptionError, OncelogError, UsageError
from oncelog.log import codec, columns
from oncelog.log.codec import Place
from oncelog.protocol.transaction_metadata import TransactionMetadata
from oncelog.spark.kit.options import Use
from oncelog.spark.offsets import is_source_offset, parse_offset
from oncelog.spark.options import parse_source_options
from oncelog.types import Outcome
from oncelog.znodes import paths, payloads
from oncelog.znodes.sqlite import SqliteZnodeStore, connection
from oncelog.znodes.zookeeper.address import ZookeeperAddress
from tests.fuzz import targets
from tests.fuzz.target import Verdict
from tests.fuzz.targets.row_files import RowContent, _sealed, _written
from tests.golden.write_v1 import record_batch

STREAM = {"path": "/log", "subscribe": "t"}


# Data files -----------------------------------------------------------------------------------------------------------


def test_an_lz4_buffer_that_holds_less_than_it_says_is_refused_and_not_filled_from_memory() -> None:
    rows = [(None, b"0123456789abcdef" * 20, None, 5), (None, b"0123456789abcdef" * 21, None, 5)]
    parts, _ = codec.encode_block(record_batch(rows), "lz4", bytes(16), Place("data/x"))  # type: ignore[arg-type]
    block = bytearray(b"".join(parts))
    size = BytesIO()
    codec._write("long", 16 * 41, size)
    longer = BytesIO()
    codec._write("long", 16 * 41 + 2, longer)
    assert block.count(size.getvalue()) == 1

    with pytest.raises(CorruptDataError):
        codec.decode_block(bytes(block.replace(size.getvalue(), longer.getvalue())), Place("data/x"))


def test_a_buffer_larger_than_any_block_is_refused_before_it_is_allocated() -> None:
    body = columns._BodyReader(pa.py_buffer(bytes(10)), "zstd")

    with pytest.raises(ValueError, match="cannot hold"):
        body.get({"position": 0, "length": 10, "size": 2**31 - 1})


# Files of rows --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def content() -> RowContent:
    target = RowContent()
    target.prepare()
    return target


@pytest.mark.parametrize("codec_name", ["xz", "bzip2", "zstandard", "snappy", "x"])
def test_rows_compressed_as_oncelog_never_does_are_refused(content: RowContent, codec_name: str) -> None:
    assert content.check(b"\0" + _sealed(content.data[0], {"avro.codec": codec_name})) is Verdict.REFUSED


def test_a_marker_of_an_unknown_outcome_is_refused_with_its_file(content: RowContent) -> None:
    rows = codec.read_rows(content.data[0], content.schemas[0], "x")
    next(row for row in rows if row["marker"])["marker"]["outcome"] = "maybe"

    assert content.check(b"\0" + _written(content.schemas[0], rows)) is Verdict.REFUSED


def test_entries_that_overlap_or_leave_a_gap_are_refused(content: RowContent) -> None:
    rows = codec.read_rows(content.data[0], content.schemas[0], "x")
    for by in (-1, 1):
        changed = [dict(row) for row in rows]
        changed[5]["base_offset"] += by
        assert content.check(b"\0" + _written(content.schemas[0], changed)) is Verdict.REFUSED


@pytest.mark.parametrize("schema", ["{}", "null", "[]", '{"type":"record"}', "[" * 2000, '"long"', ""])
def test_a_schema_that_is_none_is_refused(content: RowContent, schema: str) -> None:
    assert content.check(b"\0" + _sealed(content.data[0], {"avro.schema": schema})) is Verdict.REFUSED


# Znodes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("topic", "retention_ms", "1000"),
        ("topic", "partitions", 2**40),
        ("topic", "topic_id", "a/b"),
        ("topic", "topic_id", ""),
        ("partition", "log_end", "5"),
        ("partition", "log_end", 5.5),
        ("partition", "log_end", True),
        ("partition", "log_end", -1),
        ("partition", "log_end", 2**63),
        ("partition", "owners", [["/transactions/copier/7.0", 5, 9, []]]),
        ("group", "is_deleted", "false"),
        ("group", "more", 1),
        ("ledger", "query_id", 7),
        ("owner", "partitions", "/topics/t/i/0"),
        ("producer", "open_owner", "no path"),
        ("transaction", "timeout_ms", "60000"),
        ("transaction", "partitions", ["f/topics/t/i/1"]),
        ("transaction", "partitions", ["/topics/\u2028/i/1"]),
    ],
)
def test_a_value_that_no_writer_writes_is_corrupt_and_not_converted(kind: str, field: str, value: object) -> None:
    target = targets.by_name(f"payload-{kind}")
    target.prepare()
    payload = json.loads(list(target.valid())[-1]) | {field: value}

    assert target.check(json.dumps(payload).encode()) is Verdict.REFUSED


@pytest.mark.parametrize("version", ["true", "1.0", "0", "-1", '"1"'])
def test_a_version_that_is_none_is_corrupt_and_not_newer(version: str) -> None:
    with pytest.raises(CorruptDataError):
        payloads.decode_owner("/a", b'{"version":%s,"outcome":"open"}' % version.encode())


def test_the_metadata_of_another_id_is_corrupt(tmp_path: Path) -> None:
    with oncelog.open(tmp_path) as log:
        for name in ("copier", "other"):
            log.producer(transactional_id=name).init_transactions()
        store = log.services.store
        other = store.get(paths.transaction("other"))
        assert other is not None
        store.transact(lambda view: view.set(paths.transaction("copier"), other.data))

        with pytest.raises(CorruptDataError, match=r"metadata of another id.*found='other'"):
            log.producer(transactional_id="copier").init_transactions()


def test_a_payload_that_names_a_field_twice_is_corrupt() -> None:
    written = payloads.encode_owner(payloads.OwnerRecord(Outcome.ABORT))

    with pytest.raises(CorruptDataError):
        payloads.decode_owner("/a", written[:-1] + b',"outcome":"commit"}')


@pytest.mark.parametrize(
    "path", ["/topics/t/i/²", "/topics/t/i/007", "/topics/t/i/" + "9" * 5000, "x/topics/t/i/1", "/topics//i/1"]
)
def test_a_path_that_is_no_partitions_is_corrupt(path: str) -> None:
    with pytest.raises(CorruptDataError):
        paths.partition_of(path)


@pytest.mark.parametrize("path", ["/queries/q/rounds/x", "/queries/q", "/queries/q/rounds/٣", "/transactions/a/1.0"])
def test_a_path_that_is_no_rounds_is_corrupt(path: str) -> None:
    with pytest.raises(CorruptDataError):
        paths.round_of(path)


@pytest.mark.parametrize("path", ["/transactions/7.3", "/transactions/a/7", "/queries/q/7.3", "/transactions/a/b/7.3"])
def test_a_path_that_is_no_transactions_owner_is_corrupt(path: str) -> None:
    with pytest.raises(CorruptDataError):
        paths.producer_of(path)


def test_a_transactional_id_whose_epoch_is_behind_its_last_one_is_damage() -> None:
    metadata = TransactionMetadata(
        transactional_id="copier",
        producer_id=0,
        epoch=3,
        timeout_ms=60,
        previous_producer_id=0,
        last_epoch=2,
        owner="/transactions/copier/0.2",
    )
    path = paths.transaction("copier")
    sound = payloads.encode_transaction(metadata)
    assert payloads.decode_transaction(path, sound) == metadata

    for epoch in (1, 2):
        with pytest.raises(CorruptDataError):
            payloads.decode_transaction(path, sound.replace(b'"epoch":3', b'"epoch":%d' % epoch))


# The SQLite file ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE znodes SET data = 'text' WHERE name = 'a'",
        "UPDATE znodes SET version = 'x' WHERE name = 'a'",
        "UPDATE znodes SET name = '' WHERE name = 'a'",
        "UPDATE znodes SET name = 'a/b' WHERE name = 'a'",
        "UPDATE znodes SET name = CAST(x'ff' AS TEXT) WHERE name = 'a'",
        "DELETE FROM znodes WHERE parent = ''",
        "DELETE FROM meta",
        "UPDATE meta SET hostname = x'ff'",
        "UPDATE meta SET last_ms = x'ff'",
    ],
)
def test_a_row_that_no_store_writes_is_damage(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "znodes.sqlite"
    store = SqliteZnodeStore(path)
    store.transact(lambda view: view.create("/a", b"1"))
    store.close()
    damaged = connection.StoreConnection(path)
    damaged.change(damage, ())
    damaged.close()

    with pytest.raises(CorruptDataError):
        _read_and_write(path)


def test_a_file_whose_pages_do_not_fit_together_is_refused_before_a_write_that_would_be_lost(tmp_path: Path) -> None:
    store = SqliteZnodeStore(tmp_path / "znodes.sqlite")
    store.transact(lambda view: view.create("/a", b"1"))
    store.close()
    _call_the_place_of_the_root_free(tmp_path / "znodes.sqlite")

    with pytest.raises(CorruptDataError, match="page 2"):
        _read_and_write(tmp_path / "znodes.sqlite")


def test_a_write_that_displaces_what_its_step_read_is_damage_and_not_a_conflict(tmp_path: Path) -> None:
    """In a file that was sound when it was opened."""
    store = SqliteZnodeStore(tmp_path / "znodes.sqlite")
    store.transact(lambda view: view.create("/a", b"1"))
    store._pool.close_idle()
    _call_the_place_of_the_root_free(tmp_path / "znodes.sqlite")

    with pytest.raises(CorruptDataError, match="refused a step twice"):
        store.transact(lambda view: view.create("/b"))
    assert store.children("/") == ["a"]
    store.close()


def _call_the_place_of_the_root_free(path: Path) -> None:
    data = bytearray(path.read_bytes())
    leaf_of_an_index, rows = 0x0A, 2
    assert (data[4096], data[4100]) == (leaf_of_an_index, rows)
    data[4101:4103] = data[4106:4108]  # where rows begin := where the second one does
    path.write_bytes(data)


def _read_and_write(path: Path) -> None:
    store = SqliteZnodeStore(path)
    try:
        store.children_data("/")
        store.children("/")
        store.get("/a")
        store.transact(lambda view: view.create("/b"))
    finally:
        store.close()


# Offsets --------------------------------------------------------------------------------------------------------------

DEEP = "[" * 100_000
LONG = "9" * 5000


@pytest.mark.parametrize("text", [DEEP, LONG, f'{{"version":{LONG}}}'])
def test_any_text_of_another_source_can_be_asked_about_and_has_a_fingerprint(text: str) -> None:
    assert not is_source_offset(text)
    assert len(fingerprint([None], [text])) == 64
    with pytest.raises(CorruptDataError):
        parse_offset(text)


@pytest.mark.parametrize(
    "topics",
    [
        '{"t":{"id":"i","offsets":{"0":1,"0":2}}}',
        '{"t":{"id":"i","offsets":{"0":9223372036854775808}}}',
        '{"t":{"id":"i","offsets":{},"more":1}}',
    ],
)
def test_an_offset_that_no_source_writes_is_corrupt(topics: str) -> None:
    with pytest.raises(CorruptDataError):
        parse_offset(f'{{"version":1,"cluster_id":"c","group_id":null,"topics":{topics}}}')


def test_a_version_of_another_type_is_corrupt() -> None:
    with pytest.raises(CorruptDataError):
        parse_offset('{"version":true,"cluster_id":"c","group_id":null,"topics":{}}')


# Options and places ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("maxOffsetsPerTrigger", LONG),
        ("maxOffsetsPerTrigger", 10**100),
        ("maxTriggerDelay", LONG),
        ("startingTimestamp", LONG),
        ("startingOffsets", DEEP),
        ("startingOffsets", f'{{"t":{{"0":{LONG}}}}}'),
        ("startingOffsets", f'{{"t":{{"{LONG}":1}}}}'),
        ("startingOffsets", '{"t":{"0":1,"00":2}}'),
    ],
)
def test_a_value_that_python_cannot_read_is_refused_with_its_option(option: str, value: object) -> None:
    with pytest.raises(InvalidOptionError) as refused:
        parse_source_options({**STREAM, option: value}, Use.STREAM_READ)
    assert refused.value.fields["option"] == option


@pytest.mark.parametrize("pattern", ["x{99999999999999999999}", "(" * 5000])
def test_a_pattern_beyond_what_can_be_compiled_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidOptionError, match="subscribePattern"):
        parse_source_options({"path": "x", "subscribePattern": pattern}, Use.STREAM_READ)


def test_ends_of_other_partitions_than_the_start_are_refused_with_both_options() -> None:
    ends = {"startingOffsets": '{"t":{"0":1}}', "endingOffsets": '{"t":{"1":1}}'}

    with pytest.raises(InvalidOptionError) as refused:
        parse_source_options({**STREAM, **ends}, Use.BATCH_READ)
    assert refused.value.fields["options"] == ["startingOffsets", "endingOffsets"]


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "file:///a%00b", "file://[x/log"])
def test_a_path_that_no_file_can_have_is_refused(path: str) -> None:
    with pytest.raises(UsageError):
        oncelog.open(path, create=False)


@pytest.mark.parametrize("znodes", ["sqlite:\0", "sqlite:\ud800", "sqlite:/" + "x" * 300])
def test_a_place_of_metadata_that_cannot_be_is_refused(tmp_path: Path, znodes: str) -> None:
    with pytest.raises(OncelogError):
        oncelog.open(tmp_path, znodes, create=False)


@pytest.mark.parametrize("url", ["s3://.", "s3://../x", "s3://b?endpoint=https://[x", f"s3://b?timeout_ms={LONG}"])
def test_a_url_that_is_no_buckets_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        ObjectPlace.parse(url)


@pytest.mark.parametrize("url", ["zk://h:0/a", f"zk://h/a?timeout_ms={LONG}"])
def test_a_url_that_is_no_zookeepers_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        ZookeeperAddress.parse(url)


# The Kafka connector --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", [DEEP, '{"t":{"0":1,"0":2}}', '{"t":{"007":1}}', '{"t":{"٣":1}}', '{"t":{"0":9223372036854775808}}']
)
def test_offsets_that_kafka_never_writes_are_not_kafkas(text: str) -> None:
    source_offsets = pytest.importorskip("oncelog_kafka.sinks.source_offsets")

    assert source_offsets.parse_offsets(text) is None


@pytest.mark.parametrize("text", [f"x-{LONG}-1.0.0", "x-٣-1.0.0"])
def test_a_transactional_id_of_another_program_is_no_participants(text: str) -> None:
    participants = pytest.importorskip("oncelog_kafka.protocol.participants")

    assert participants.ParticipantId.parse(text) is None
