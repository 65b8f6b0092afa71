"""The command line: what it prints where, its exit codes, and that it never does more than it was asked."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import oncelog
from oncelog import limits
from oncelog.cli import main
from oncelog.cli.output import duration, moment, printable, quoted, readable, size
from oncelog.cli.shell import Command, Root
from oncelog.limits import MAX_NAME_BYTES
from oncelog.log import generations
from oncelog.znodes import copying
from oncelog.znodes.schemes import ZNODES_FILE
from tests.style.tree import ROOT
from tests.support.docs.blocks import blocks
from tests.support.log.copies import open_round, written_blocks
from tests.support.log.logs import TOPIC, flip_a_bit, started, tp, write_committed, write_open
from tests.support.log.shell import ANSI, Shell, finished, on_terminal, started_command

LONG_ID = "copier-" + "0123456789" * 20


# Topics ---------------------------------------------------------------------------------------------------------------


def test_the_first_topic_creates_the_log(shell: Shell) -> None:
    assert shell.lines("topic", "create", "flights", "--partitions", "3") == ["created topic flights with 3 partitions"]

    (found,) = shell.json("topic", "list")["topics"]
    assert (found["topic"], found["partitions"], found["retention_ms"]) == ("flights", 3, None)


def test_retention_is_given_with_units_and_taken_back_with_none(shell: Shell) -> None:
    shell.json("topic", "create", "flights", "--retention", "7d", "--retention-bytes", "2GiB")

    changed = shell.json("topic", "configure", "flights", "--retention", "none")["topic"]

    assert (changed["retention_ms"], changed["retention_bytes"]) == (None, 2 * 2**30)
    assert shell.lines("topic", "configure", "flights", "--retention", "90m")[-2].split() == ["retention", "1h", "30m"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--retention", "7 weeks"], "'7 weeks' is not a duration; write it like"),
        (["--retention", f"{'7' * 5000}d"], "7d' is not a duration; write it like"),
        (["--retention-bytes", "much"], "'much' is not a size; write it like"),
        (["--partitions", "0"], "0 is not in the range"),
        (["--partitions", "100000"], "out of bounds"),
        (["a/b"], "letters, digits"),
    ],
)
def test_a_topic_that_cannot_be_is_refused_and_no_log_is_created_for_it(
    shell: Shell, arguments: list[str], complaint: str
) -> None:
    name = [] if len(arguments) == 1 else ["flights"]
    assert complaint in shell.refused("topic", "create", *name, *arguments, exit_code=2)

    assert not shell.folder.exists()


def test_configuring_nothing_is_refused(shell: Shell, log: oncelog.Log) -> None:
    assert "Nothing to change" in shell.refused("topic", "configure", TOPIC, exit_code=2)


def test_a_topic_is_described_with_what_is_unsettled_in_it(shell: Shell, busy: oncelog.Log) -> None:
    lines = shell.lines("topic", "describe", TOPIC)

    assert lines[0].split() == ["topic", TOPIC]
    assert next(line for line in lines if "blocker-0" in line).split()[:4] == ["1", "2", "2", "open"]


def test_a_topic_is_deleted(shell: Shell, busy: oncelog.Log) -> None:
    assert shell.lines("topic", "delete", TOPIC) == [f"deleted topic {TOPIC}"]

    assert shell.lines("topic", "list") == ["no topics; create one with `oncelog topic create NAME`"]


# Transactions ---------------------------------------------------------------------------------------------------------


def test_transactions_are_listed_with_their_effective_state(shell: Shell, busy: oncelog.Log) -> None:
    """conformance: 19"""
    rows = [line.split() for line in shell.lines("txn", "list")[2:]]

    assert [(row[0], row[2]) for row in rows] == [
        ("ongoing", "blocker-0"),
        ("complete_commit", "copier-0"),
        ("complete_commit", "copies-0"),
        ("complete_commit", "copies-1"),
        ("complete_abort", "loser-0"),
    ]
    assert rows[2][3:] == ["copies", "round", "1"]
    found = shell.json("txn", "list", "--prefix", "cop", "--state", "complete_commit")["transactions"]
    assert [one["transactional_id"] for one in found] == ["copier-0", "copies-0", "copies-1"]


def test_a_transaction_is_described(shell: Shell, busy: oncelog.Log) -> None:
    fields = dict(line.split(None, 1) for line in shell.lines("txn", "describe", "blocker-0"))

    assert (fields["state"], fields["partitions"], fields["outcome"]) == ("ongoing", "flights 1", "open")


COMMITS_WHEN_TOLD = """
import sys
import oncelog
log = oncelog.open(sys.argv[1], create=False)
producer = log.producer(transactional_id="suspended")
producer.init_transactions()
producer.begin_transaction()
producer.send("flights", b"never seen", partition=0)
producer.flush()
print("open", flush=True)
sys.stdin.readline()
try:
    producer.commit_transaction()
except oncelog.errors.OncelogError as error:
    print(type(error).__mro__[1].__name__)
"""


@pytest.mark.slow
def test_the_late_commit_of_a_transaction_that_an_operator_aborted_fails(shell: Shell, log: oncelog.Log) -> None:
    """Its owner is a process of its own, which was only slow.

    conformance: 43
    """
    owner = subprocess.Popen(
        [sys.executable, "-c", COMMITS_WHEN_TOLD, shell.folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == "open\n"
    (hanging,) = shell.json("txn", "find-hanging", "--max-age", "0ms", exit_code=1)["hanging"]
    assert hanging["transactional_id"] == "suspended"

    assert shell.lines("txn", "abort", "suspended") == ["aborted the transaction of suspended; its producer is fenced"]

    said, _ = owner.communicate("commit\n", timeout=60)
    assert said == "FatalError\n"
    assert [line for line in shell.lines("log", "dump", TOPIC) if "never seen" in line] == []
    assert shell.lines("txn", "find-hanging", "--max-age", "0ms") == ["nothing hangs"]


DIES = COMMITS_WHEN_TOLD.replace("sys.stdin.readline()", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")


@pytest.mark.slow
def test_what_a_killed_producer_left_open_is_found_and_the_line_that_aborts_it_is_given(
    shell: Shell, log: oncelog.Log
) -> None:
    """conformance: 43"""
    died = subprocess.run([sys.executable, "-c", DIES, shell.folder], capture_output=True, check=False)
    assert died.returncode == -signal.SIGKILL

    lines = shell.lines("txn", "find-hanging", "--max-age", "0ms", exit_code=1)

    assert lines[-1] == "to abort it: oncelog txn abort suspended"
    assert shell(*lines[-1].split()[4:]).exit_code == 0
    assert shell.lines("txn", "find-hanging", "--max-age", "0ms") == ["nothing hangs"]


def test_an_abort_says_when_it_takes_a_whole_round_and_when_there_is_nothing_to_do(
    shell: Shell, log: oncelog.Log
) -> None:
    open_round(log)

    assert shell.lines("txn", "abort", "copies-1") == [
        "copies-1 belongs to copies round 1, which was aborted with all its participants"
    ]
    assert shell.lines("txn", "abort", "copies-1") == ["the transaction of copies-1 had been aborted before"]
    write_committed(started(log, "done"), b"a")
    assert "no open transaction to abort" in shell.refused("txn", "abort", "done", exit_code=4)
    assert "no such transactional id" in shell.refused("txn", "abort", "nobody", exit_code=2)


def test_json_is_json_in_a_terminal_that_lacks_its_letters(tmp_path: Path) -> None:
    with oncelog.open(tmp_path) as log:
        log.create_topic(TOPIC)
        write_committed(started(log), "Zürich 😀".encode())
    for encoding in ("utf-8", "latin-1", "ascii"):
        done = CliRunner(charset=encoding).invoke(main, ["--path", str(tmp_path), "--json", "log", "dump", TOPIC])

        assert json.loads(done.stdout_bytes.decode(encoding))["entries"][0]["value"] == {"text": "Zürich 😀"}


# Batches --------------------------------------------------------------------------------------------------------------


def test_the_ledger_of_a_sink_is_shown(shell: Shell, log: oncelog.Log) -> None:
    open_round(log, 7).decide()
    open_round(log, 8)

    lines = [line.split() for line in shell.lines("batch", "show", "copies")]

    assert ["query", "query-1"] in lines
    assert ["last", "batch", "7"] in lines
    assert [row[:3] for row in lines[-2:]] == [["1", "7", "commit"], ["2", "8", "open"]]
    assert lines[-1][-2:] == ["copies-0", "copies-1"]
    assert shell.lines("batch", "list")[-1].split() == ["copies", "query-1", "sink", "7", "1"]


def test_without_a_path_all_ledgers_of_a_store_are_shown(shell: Shell, log: oncelog.Log) -> None:
    open_round(log, 7).decide()
    open_round(log, 8)

    def answered(*arguments: str, exit_code: int = 0) -> str:
        done = CliRunner().invoke(main, ["--znodes", str(shell.folder), "batch", *arguments])
        assert done.exit_code == exit_code
        return done.output

    assert answered("list").splitlines()[-1].split() == ["log", "copies", "sink", "7", "8", "open"]
    shown = [line.split() for line in answered("show", "copies").splitlines()]
    assert ["last", "decided", "batch", "7"] in shown
    assert shown[-1][:5] == ["a", "restart", "undoes", "this", "round"]
    for missing in ("nothing", "", "..", "p" * 2_000):
        assert "no sink has written under this prefix" in answered("show", missing, exit_code=2)
    assert "name the log, with its path" in answered("abort", "copies", exit_code=2)
    assert "not completed by this command" in answered("complete", "copies", exit_code=2)


def test_a_prefix_that_is_longer_than_any_a_sink_may_have_hides_no_other_ledger(shell: Shell, log: oncelog.Log) -> None:
    too_long = "p" * (MAX_NAME_BYTES + 1)
    open_round(log, prefix=too_long)
    open_round(log)

    assert [line.split()[0] for line in shell.lines("batch", "list")[2:]] == ["copies", too_long]
    assert shell.lines("batch", "abort", too_long) == [f"aborted round 1 of {too_long}, with all its participants"]
    assert "too long" in shell.refused("batch", "show", f"{too_long}p", exit_code=2)


def test_an_undecided_round_is_aborted_by_its_prefix(shell: Shell, log: oncelog.Log) -> None:
    open_round(log)

    assert shell.lines("batch", "abort", "copies") == ["aborted round 1 of copies, with all its participants"]
    assert shell.lines("batch", "abort", "copies") == ["copies has no undecided round"]
    assert "no sink has written" in shell.refused("batch", "abort", "nothing", exit_code=2)


# Groups ---------------------------------------------------------------------------------------------------------------


def test_lag_is_shown_per_partition_and_in_total(shell: Shell, busy: oncelog.Log) -> None:
    rows = [line.split() for line in shell.lines("group", "describe", "readers")]

    assert ["lag", "6"] in rows
    assert rows[-1] == [TOPIC, "0", "1", "7", "6"]
    assert shell.lines("group", "list")[-1].split() == ["readers", "1", "6", "-"]


def test_an_offset_above_the_log_end_is_no_lag_of_nothing(shell: Shell, busy: oncelog.Log) -> None:
    with busy.consumer(group_id="readers") as consumer:
        consumer.commit({tp(): 99})

    rows = [line.split(maxsplit=5) for line in shell.lines("group", "describe", "readers")]
    assert ["lag", "-"] in rows
    assert rows[-1] == [TOPIC, "0", "99", "7", "-", "beyond the log end"]
    assert shell.lines("group", "list")[-1].split() == ["readers", "1", "-", "-"]


def test_a_group_is_reset_to_an_end_or_to_an_offset(shell: Shell, busy: oncelog.Log) -> None:
    assert shell.lines("group", "reset", "readers", "--to", "earliest")[-1].split() == [TOPIC, "0", "0"]
    assert shell.lines("group", "reset", "readers", "--offset", "flights:0=2")[-1].split() == [TOPIC, "0", "2"]
    offsets = shell.json("group", "reset", "others", "--to", "latest", "--topic", TOPIC)["offsets"]
    assert [(one["partition"], one["offset"]) for one in offsets] == [(0, 7), (1, 2)]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "Give either --to or --offset"),
        (["--to", "latest", "--offset", "flights:0=1"], "Give either --to or --offset"),
        (["--offset", "flights:0=1", "--topic", TOPIC], "--topic needs --to"),
        (["--offset", "flights-0=1"], "write it like flights:0=42"),
        (["--offset", "flights:0=99"], "not within the log"),
        (["--offset", "flights:9=0"], "no such partition"),
        (["--to", "middle"], "'earliest', 'latest'"),
    ],
)
def test_a_reset_that_is_not_clear_is_refused_and_changes_nothing(
    shell: Shell, busy: oncelog.Log, arguments: list[str], complaint: str
) -> None:
    before = shell.json("group", "describe", "readers")

    assert complaint in shell.refused("group", "reset", "readers", *arguments, exit_code=2)

    assert shell.json("group", "describe", "readers") == before


def test_deleting_a_group_with_pending_offsets_is_to_be_tried_again(shell: Shell, log: oncelog.Log) -> None:
    """conformance: 48"""
    write_open(copier := started(log), b"a")
    copier.send_offsets_to_transaction({tp(): 1}, "readers")

    assert "in an undecided transaction" in shell.refused("group", "delete", "readers", exit_code=3)

    copier.commit_transaction()
    assert shell.lines("group", "delete", "readers") == ["deleted group readers with offsets of 1 partition"]
    assert "no such consumer group" in shell.refused("group", "describe", "readers", exit_code=2)


# Dump -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def odd(log: oncelog.Log) -> oncelog.Log:
    """Keys and values of every kind."""
    with log.producer() as producer:
        producer.send(TOPIC, "Tromsø".encode(), key=b"text", partition=0, timestamp_ms=0, headers=[("via", b"\xff")])
        producer.send(TOPIC, b"\xff\x00", key=b"", partition=0, timestamp_ms=limits.MAX_TIMESTAMP_MS)
        producer.send(TOPIC, None, key=b"\x1b[31m", partition=0, timestamp_ms=1)
    return log


def test_a_dump_shows_text_as_text_other_bytes_as_hex_and_null_as_null(shell: Shell, odd: oncelog.Log) -> None:
    first, second, third = shell.lines("log", "dump", TOPIC)

    assert first.split(None, 2) == ["flights-0", "0", '1970-01-01T00:00:00.000Z  plain      "text" = "Tromsø"']
    assert second.endswith(f'{limits.MAX_TIMESTAMP_MS}ms  plain      "" = 0xff00')
    assert third.endswith("0x1b5b33316d = null"), "what a terminal would obey is not sent to it"
    assert shell.lines("log", "dump", TOPIC, "--headers")[0].endswith('= "Tromsø"  [via: 0xff]')


def test_a_dump_as_json_is_one_document_that_tells_text_from_bytes_and_null(shell: Shell, odd: oncelog.Log) -> None:
    found = shell.json("log", "dump", TOPIC, "--headers")

    assert found["isolation_level"] == "read_committed"
    assert [(entry["key"], entry["value"]) for entry in found["entries"]] == [
        ({"text": "text"}, {"text": "Tromsø"}),
        ({"text": ""}, {"hex": "ff00"}),
        ({"hex": "1b5b33316d"}, None),
    ]
    assert found["entries"][0]["headers"] == [{"name": "via", "value": {"hex": "ff"}}]


def test_a_dump_shows_markers_and_aborted_batches_as_such(shell: Shell, busy: oncelog.Log) -> None:
    committed = shell.lines("log", "dump", TOPIC)
    everything = shell.lines("log", "dump", TOPIC, "--isolation", "read_uncommitted")

    assert [line.split(None, 2)[2] for line in committed if "-0 " in line and "T" not in line] == [
        "aborted batch of 1 record by producer 1.0",
        "commit marker of producer 0.0, from 0",
        "abort marker of producer 1.0, from 2",
        "commit marker of producer 2.0, from 3",
    ]
    assert [line for line in committed if line.endswith(('"c"', '"d"'))] == []
    assert [line.split()[3] for line in everything if line.endswith(('"c"', '"d"'))] == ["aborted", "undecided"]
    kinds = {entry["kind"] for entry in shell.json("log", "dump", TOPIC)["entries"]}
    assert kinds == {"record", "aborted_batch", "marker"}


def test_the_page_of_the_command_line_shows_a_dump_as_it_is_printed(shell: Shell, log: oncelog.Log) -> None:
    (sample,) = (block.code for block in blocks(ROOT / "docs/reference/cli.md") if block.language == "text")
    loader, loser = started(log, "loader-0"), started(log, "loser-0")
    for producer in (loader, loser):
        producer.begin_transaction()
        producer.send(TOPIC, b"1545,EWR,IAH", key=b"UA", partition=0, timestamp_ms=1_357_034_400_000)
        producer.flush()
    loader.commit_transaction()
    loser.abort_transaction()
    log.admin.settle()

    assert shell.lines("log", "dump", TOPIC, "--limit", "3") == sample.splitlines()


def test_a_dump_is_cut_by_partition_offset_and_limit(shell: Shell, busy: oncelog.Log) -> None:
    (line,) = shell.lines("log", "dump", TOPIC, "--partition", "0", "--from", "1", "--limit", "1")

    assert line.split()[:2] == ["flights-0", "1"]
    assert shell.lines("log", "dump", TOPIC, "--limit", "0") == []
    assert shell.json("log", "dump", TOPIC, "--limit", "0")["entries"] == []
    assert "name the partition" in shell.refused("log", "dump", TOPIC, "--from", "1", exit_code=2)
    assert "not within the log" in shell.refused("log", "dump", TOPIC, "--partition", "0", "--from", "99", exit_code=2)


# Verification and upkeep ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", [flip_a_bit, lambda path: os.truncate(path, 200), Path.unlink])
def test_damage_is_shown_with_its_file_and_the_offsets_it_costs(
    shell: Shell, log: oncelog.Log, harm: Callable[[Path], None]
) -> None:
    write_committed(started(log), b"a", b"b")
    assert shell.lines("log", "verify")[-1].endswith("all sound")
    (path,) = Path(shell.folder, "data").iterdir()
    harm(path)

    lines = shell.lines("log", "verify", exit_code=1)

    assert lines[-1].endswith("1 problem")
    (row,) = [line for line in lines if path.name in line]
    assert row.split()[1:3] == ["flights-0", "0-1"]
    found = shell.json("log", "verify", exit_code=1)
    assert (found["is_sound"], found["problems"][0]["place"]) == (False, f"data/{path.name}")
    assert path.name in shell("log", "dump", TOPIC).stderr


def test_a_dry_run_names_the_files_that_the_run_removes(
    shell: Shell, log: oncelog.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "GENERATION_MIN_AGE_MS", 0)
    write_committed(started(log), b"kept")
    lost = written_blocks(log, b"of a task that died")[0].file
    for _ in range(2):
        assert shell.json("gc")["collected"]["waiting"] == [lost]

    assert shell.lines("gc", "--dry-run")[-1] == f"  {lost}"
    assert Path(shell.folder, lost).exists()

    assert shell.json("gc")["collected"]["removed"] == [lost]
    assert not Path(shell.folder, lost).exists()
    assert shell.lines("gc") == ["removed 0 files (0 B)"]


def test_collecting_names_the_writes_for_which_files_stay(
    shell: Shell, log: oncelog.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "GENERATION_MIN_AGE_MS", 0)
    held = generations.hold(log.services.store, "a write of Spark")
    shell("gc")

    assert re.fullmatch(
        f"current files are kept while a write of Spark is running, for .* so far: {held}", shell.lines("gc")[-1]
    )
    (hold,) = shell.json("gc")["collected"]["held_by"]
    assert hold.keys() == {"owner", "writer", "age_ms"}


def test_collecting_aborts_what_is_overdue_and_applies_retention(shell: Shell, log: oncelog.Log) -> None:
    with log.producer() as producer:
        producer.send(TOPIC, b"of 1970", partition=0, timestamp_ms=1)
    write_open(started(log, "hanging", transaction_timeout_ms=1), b"b", number=1)
    shell("topic", "configure", TOPIC, "--retention", "1d")

    lines = shell.lines("gc")

    assert any(line.startswith("aborted /transactions/hanging/") for line in lines)
    assert any(line.startswith("removed 1 record (") and line.endswith("begins at 1") for line in lines)
    assert shell.lines("txn", "find-hanging") == ["nothing hangs"]


# The metadata store ---------------------------------------------------------------------------------------------------


def test_the_size_of_the_metadata_is_shown_by_topic_and_in_total(shell: Shell, busy: oncelog.Log) -> None:
    rows = [line.split() for line in shell.lines("meta", "stat", "--largest", "1")]

    found = shell.json("meta", "stat", "--largest", "1")
    assert set(found) == {"topics", "transactions", "groups", "queries", "other", "total", "largest"}
    (topic,) = found["topics"]
    assert rows[2][:3] == ["topic", TOPIC, str(topic["znodes"])]
    assert [row[0] for row in rows[3:8]] == ["transactions", "groups", "sinks", "other", "total"]
    assert rows[7][1] == str(found["total"]["znodes"])
    assert rows[-1][0] == found["largest"][0]["path"]


def test_znodes_are_dumped_as_lines_and_with_json_as_one_document_a_line(shell: Shell, busy: oncelog.Log) -> None:
    lines = shell.lines("meta", "dump", "/transactions/blocker-0")
    done = shell("meta", "dump", "/transactions/blocker-0", "--json")
    documents = [json.loads(line) for line in done.stdout.splitlines()]

    assert [line.split("  ")[0] for line in lines] == [document["path"] for document in documents]
    assert json.loads(lines[0].split("  ")[3]) == documents[0]["data"]
    assert documents[0]["data"]["state"] == "ongoing"
    assert set(documents[1]) == {"path", "version", "created_ms", "modified_ms", "czxid", "mzxid", "data"}
    assert len(shell.lines("meta", "dump")) == shell.json("meta", "stat")["total"]["znodes"]


@pytest.mark.parametrize("path", ["/nothing", "transactions", "/topics/"])
def test_a_dump_of_no_znode_is_refused(shell: Shell, log: oncelog.Log, path: str) -> None:
    assert f"path={path!r}" in shell.refused("meta", "dump", path, exit_code=2)


def test_the_metadata_is_copied_into_another_store_and_the_log_goes_on_there(
    shell: Shell, busy: oncelog.Log, tmp_path: Path
) -> None:
    moved = f"sqlite:{tmp_path}/moved.sqlite"
    before = shell.lines("log", "dump", TOPIC)

    lines = shell.lines("meta", "copy", "--to", moved)

    znodes = shell.json("meta", "stat")["total"]["znodes"] - 2
    assert lines[0].startswith(f"copied {znodes} znodes (")
    assert lines[1].startswith(f"compared {znodes} znodes of both stores")
    assert shell.lines("log", "dump", TOPIC, "--znodes", moved) == before
    assert shell.json("log", "verify", "--znodes", moved)["is_sound"]


def test_a_copy_as_json_has_the_documented_keys(shell: Shell, busy: oncelog.Log, tmp_path: Path) -> None:
    found = shell.json("meta", "copy", "--to", f"{tmp_path}/moved")["copied"]

    assert found["to"] == f"sqlite:{tmp_path}/moved/znodes.sqlite"
    assert set(found) == {"to", "cluster_id", "znodes", "size_bytes", "compared", "adapted"}
    assert found["cluster_id"] == busy.cluster_id


def test_a_copy_is_refused_where_it_could_do_harm(shell: Shell, log: oncelog.Log, tmp_path: Path) -> None:
    with oncelog.open(tmp_path / "other") as other:
        taken = f"sqlite:{tmp_path}/other/{ZNODES_FILE}"
        assert other.cluster_id in shell.refused("meta", "copy", "--to", taken, exit_code=2)
    assert "holds a log" in shell.refused("meta", "copy", "--to", "sqlite", exit_code=2)
    assert "name one that lasts" in shell.refused("meta", "copy", "--to", "memory", exit_code=2)
    assert "not a znode store" in shell.refused("meta", "copy", "--to", "ftp://host", exit_code=2)
    assert "Missing option '--to'" in shell.refused("meta", "copy", exit_code=2)


def test_a_log_that_is_used_during_the_copy_is_to_be_copied_again(
    shell: Shell, log: oncelog.Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = f"sqlite:{tmp_path}/moved.sqlite"
    run_copy = copying._Run.copy

    def copy_and_write(run: copying._Run) -> object:
        log.create_topic("meanwhile")
        return run_copy(run)

    with monkeypatch.context() as patched:
        patched.setattr(copying._Run, "copy", copy_and_write)
        assert "stop every process" in shell.refused("meta", "copy", "--to", moved, exit_code=3)

    assert "not finished" in shell.refused("topic", "list", "--znodes", moved, exit_code=2)
    assert "not finished" in shell.refused("topic", "create", "new", "--znodes", moved, exit_code=2)
    assert shell("meta", "copy", "--to", moved).exit_code == 0
    assert len(shell.json("topic", "list", "--znodes", moved)["topics"]) == 2


# Exit codes and errors ------------------------------------------------------------------------------------------------

READS = [
    ["topic", "list"],
    ["topic", "describe", TOPIC],
    ["txn", "list"],
    ["txn", "describe", "copier-0"],
    ["txn", "find-hanging"],
    ["group", "list"],
    ["group", "describe", "readers"],
    ["log", "dump", TOPIC],
    ["log", "verify"],
    ["gc", "--dry-run"],
    ["batch", "list"],
    ["batch", "show", "copies"],
    ["meta", "show"],
    ["meta", "stat"],
    ["meta", "dump"],
    ["meta", "copy", "--to", "sqlite:/nowhere/at/all"],
]


@pytest.mark.parametrize("arguments", READS)
def test_a_reading_command_never_creates_a_log(shell: Shell, arguments: list[str]) -> None:
    assert "there is no log here" in shell.refused(*arguments, exit_code=2)
    assert not shell.folder.exists()

    shell.folder.mkdir()
    assert "there is no log here" in shell.refused(*arguments, exit_code=2)
    assert list(shell.folder.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["topic", "describe"], ["topic", "configure", "--retention", "1d"], ["topic", "delete"], ["log", "dump"]
    ],
)  # fmt: skip
def test_a_topic_that_does_not_exist_is_named_and_not_created(
    shell: Shell, log: oncelog.Log, arguments: list[str]
) -> None:
    line = shell.refused(*arguments, "flihgts", exit_code=2)

    assert "topic='flihgts'" in line
    assert "oncelog topic create" in line
    assert [topic.topic for topic in log.admin.list_topics()] == [TOPIC]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["topic", "lst"], "Did you mean 'list'"),
        (["topic", "list", "--jsno"], "Did you mean '--json'"),
        (["topic", "create"], "Missing argument 'NAME'"),
        (["txn", "list", "--state", "open"], "'ongoing'"),
    ],
)
def test_a_wrong_call_is_one_line_that_says_where_help_is(shell: Shell, arguments: list[str], complaint: str) -> None:
    line = shell.refused(*arguments, exit_code=2)

    assert complaint in line
    assert "--help`" in line


@pytest.mark.parametrize("arguments", [[], ["topic"]])
def test_who_asks_for_nothing_gets_the_help(arguments: list[str]) -> None:
    done = CliRunner().invoke(main, arguments)

    assert (done.exit_code, done.stdout) == (2, "")
    assert "Commands:\n" in done.stderr


def rewrite(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


@pytest.mark.parametrize(
    ("harm", "complaint"),
    [
        (lambda path: path.write_bytes(b"not a database at all" * 100), "znode store"),
        (lambda path: path.write_bytes(b""), "empty"),
        (lambda path: rewrite(path, "PRAGMA user_version = 99"), "newer"),
    ],
)
def test_a_store_that_cannot_be_used_is_fatal(
    shell: Shell, tmp_path: Path, harm: Callable[[Path], object], complaint: str
) -> None:
    shell("topic", "create", TOPIC)
    harm(shell.folder / ZNODES_FILE)

    line = shell.refused("topic", "list", exit_code=4)

    assert complaint in line
    assert ZNODES_FILE in line


def test_a_store_of_another_host_is_refused_until_it_is_adopted(shell: Shell) -> None:
    shell("topic", "create", TOPIC)
    rewrite(shell.folder / ZNODES_FILE, "UPDATE meta SET host_id = 'elsewhere', boot_id = 'another'")

    assert "oncelog meta adopt-host" in shell.refused("topic", "list", exit_code=4)

    assert shell("meta", "adopt-host").exit_code == 0
    assert shell("topic", "list").exit_code == 0


def test_only_a_store_that_belongs_to_a_host_can_be_adopted_and_only_one_that_exists(shell: Shell) -> None:
    assert "there is no log here" in shell.refused("meta", "adopt-host", exit_code=2)
    assert "belongs to no host" in shell.refused("meta", "adopt-host", "--znodes", "memory", exit_code=2)
    assert not shell.folder.exists()


def test_a_traceback_is_shown_to_those_who_ask_for_it(shell: Shell) -> None:
    done = CliRunner().invoke(main, ["--path", str(shell.folder), "--debug", "topic", "list"])

    assert done.exit_code == 2
    assert "Traceback" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("oncelog: there is no log here")


def test_an_unexpected_error_is_one_line_too(shell: Shell, log: oncelog.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object) -> None:
        raise RuntimeError("of several\nlines")

    monkeypatch.setattr(oncelog.clients.admin.Admin, "list_topics", fail)

    assert "RuntimeError: of several lines (this should not happen" in shell.refused("topic", "list", exit_code=4)


# Settings -------------------------------------------------------------------------------------------------------------


def test_the_log_is_named_by_an_option_anywhere_or_by_the_environment(shell: Shell, log: oncelog.Log) -> None:
    def listed(*arguments: str, **environment: str) -> int:
        return CliRunner().invoke(main, arguments, env={"ONCELOG_PATH": None, **environment}).exit_code

    path = str(shell.folder)
    assert listed("--path", path, "topic", "list") == 0
    assert listed("topic", "--path", path, "list") == 0
    assert listed("topic", "list", "--path", path) == 0
    assert listed("topic", "list", ONCELOG_PATH=path) == 0
    assert listed("topic", "list", "--path", path, ONCELOG_PATH="/nowhere") == 0
    assert listed("--path", path, "topic", "list", ONCELOG_PATH="/nowhere") == 0
    assert listed("topic", "list") == 2


def test_the_metadata_may_be_elsewhere(shell: Shell, tmp_path: Path) -> None:
    elsewhere = f"sqlite:{tmp_path}/meta/znodes"
    assert shell("topic", "create", TOPIC, "--znodes", elsewhere).exit_code == 0

    assert "there is no log here; check the path" in shell.refused("topic", "list", exit_code=2)
    assert shell("topic", "list", ONCELOG_ZNODES=elsewhere).exit_code == 0
    wrong = shell.refused("topic", "list", "--znodes", f"{tmp_path}/typo", exit_code=2)
    assert "check znodes, or create a log with oncelog.open(path, znodes) or `oncelog topic create --znodes`" in wrong
    assert f"[znodes='sqlite:{tmp_path}/typo/znodes.sqlite']" in wrong
    assert "zk://" in shell.refused("topic", "list", "--znodes", "ftp://host/oncelog", exit_code=2)


def test_a_log_is_named_by_a_uri(tmp_path: Path) -> None:
    uri = Shell(tmp_path / "log").folder.as_uri()

    assert CliRunner().invoke(main, ["topic", "create", TOPIC, "--path", uri]).exit_code == 0

    assert (tmp_path / "log" / ZNODES_FILE).exists()


# Output ---------------------------------------------------------------------------------------------------------------

KEYS: dict[str, dict[str, set[str] | None]] = {
    "topic list": {"topics": {"topic", "topic_id", "partitions", "retention_ms", "retention_bytes"}},
    f"topic describe {TOPIC}": {"topic": {"topic", "topic_id", "retention_ms", "retention_bytes", "partitions"}},
    "txn list": {"transactions": {"transactional_id", "producer", "state", "round"}},
    "txn describe copier-0": {
        "transaction": {
            "transactional_id", "producer", "state", "round", "is_prepared", "timeout_ms", "idle_ms", "partitions",
            "groups", "owner",
        }
    },
    "txn find-hanging --max-age 0ms": {
        "hanging": {
            "path", "transactional_id", "producer", "round", "outcome", "is_prepared", "age_ms", "timeout_ms",
            "partitions", "groups",
        }
    },
    "group list": {"groups": {"group_id", "owning_prefix", "partitions", "lag"}},
    "group describe readers": {"group": {"group_id", "owning_prefix", "partitions"}},
    "batch list": {"ledgers": None},
    "batch show copies": {
        "ledger": {
            "prefix", "query_id", "sink_name", "run_id", "superseded_runs", "group_id", "last_batch_id", "last_round",
            "last_fingerprint", "rounds",
        }
    },
    "meta show": {"log": {"path", "znodes", "cluster_id", "topics", "groups", "sinks"}},
}  # fmt: skip


@pytest.mark.parametrize("command", KEYS)
def test_json_has_the_documented_keys(shell: Shell, busy: oncelog.Log, command: str) -> None:
    document = shell.json(*command.split(), exit_code=1 if "find-hanging" in command else 0)

    ((name, keys),) = KEYS[command].items()
    assert list(document) == [name]
    value = document[name][0] if isinstance(document[name], list) else document[name]
    assert keys is None or set(value) == keys


def test_json_of_a_partition_and_of_a_groups_progress_has_the_documented_keys(shell: Shell, busy: oncelog.Log) -> None:
    described = shell.json("topic", "describe", TOPIC)["topic"]["partitions"][1]
    assert set(described) == {
        "partition", "log_start", "log_end", "lso", "lso_together", "size_bytes", "index_roots", "tail_length", "owners"
    }  # fmt: skip
    assert set(described["owners"][0]) == {"owner", "first_offset", "last_offset"}
    assert set(shell.json("group", "describe", "readers")["group"]["partitions"][0]) == {
        "topic", "topic_id", "partition", "offset", "metadata", "log_start", "lso", "lag",
        "is_beyond_log", "undecided"
    }  # fmt: skip


@pytest.mark.slow
def test_in_a_pipe_no_name_is_cut_and_nothing_is_coloured(shell: Shell, log: oncelog.Log) -> None:
    started(log, LONG_ID)

    code, stdout, stderr = finished(started_command("txn", "list", "--path", shell.folder))

    assert (code, stderr) == (0, "")
    assert LONG_ID in stdout
    assert ANSI.search(stdout) is None


@pytest.mark.slow
def test_on_a_terminal_tables_fit_80_columns_and_long_names_are_folded(shell: Shell, busy: oncelog.Log) -> None:
    started(busy, LONG_ID)

    shown, stderr = on_terminal("txn", "list", "--prefix", LONG_ID, "--path", shell.folder)

    assert stderr == ""
    assert ANSI.search(shown) is not None
    lines = ANSI.sub("", shown).splitlines()
    assert max(map(len, lines)) <= 80
    pieces = [word for line in lines for word in line.split() if re.fullmatch(r"(copier-)?[0-9]+", word)]
    assert "".join(pieces) == LONG_ID


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["topic describe flights", "txn find-hanging --max-age 0ms", "batch show copies", "group list"]
)
def test_the_widest_tables_fit_80_columns(shell: Shell, busy: oncelog.Log, command: str) -> None:
    shown, _ = on_terminal(*command.split(), "--path", shell.folder)

    lines = [line for line in ANSI.sub("", shown).splitlines() if not line.startswith("to abort it")]
    assert max(map(len, lines)) <= 80


@pytest.mark.slow
def test_progress_goes_to_stderr_and_only_to_a_terminal(shell: Shell, busy: oncelog.Log) -> None:
    shown, stdout = on_terminal("log", "verify", "--json", "--path", shell.folder, stream="stderr")

    assert "verifying" in shown
    assert json.loads(stdout)["is_sound"] is True


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_is_no_error(shell: Shell, log: oncelog.Log) -> None:
    write_committed(started(log), *(b"%d" % at * 100 for at in range(3000)))
    process = started_command("log", "dump", TOPIC, "--path", shell.folder)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()

    assert process.wait(timeout=60) == 141
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()


@pytest.mark.slow
def test_help_that_nobody_reads_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)

    assert finished(started_command("topic", "--help", stdout=writer)) == (141, None, "")
    os.close(writer)


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_caller_that_closed_the_streams_is_served(shell: Shell, closed: str) -> None:
    command = f'"{sys.executable}" -m oncelog topic create unseen {closed}'
    environment = {**os.environ, "ONCELOG_PATH": str(shell.folder)}
    created = subprocess.run(["sh", "-c", command], env=environment, stderr=subprocess.PIPE, check=False)

    assert (created.returncode, created.stderr) == (0, b"")
    assert "unseen" in " ".join(shell.lines("topic", "list"))


@pytest.mark.slow
def test_output_that_finds_no_room_is_said_in_one_line(shell: Shell, log: oncelog.Log) -> None:
    with Path("/dev/full").open("w") as full:
        code, _, stderr = finished(started_command("topic", "list", "--path", shell.folder, stdout=full))

    assert (code, stderr.count("\n")) == (4, 1)
    assert stderr.startswith("oncelog: the output cannot be written: [Errno 28] ")


def test_names_cannot_steer_the_terminal(shell: Shell, log: oncelog.Log) -> None:
    write_open(started(log, "evil\x1b[2J\nid"), b"a")

    done = shell("txn", "find-hanging", "--max-age", "0ms")

    assert "\x1b" not in done.stdout
    assert r"evil\x1b[2J\nid" in done.stdout
    assert done.stdout.splitlines()[-1] == r"to abort it: oncelog txn abort $'evil\x1b[2J\nid'"
    assert shell("txn", "abort", "evil\x1b[2J\nid").exit_code == 0


@pytest.mark.slow
def test_the_command_runs_as_a_module_and_states_its_version() -> None:
    code, stdout, stderr = finished(started_command("--version"))

    assert (code, stdout, stderr) == (0, f"oncelog, version {oncelog.__version__}\n", "")


# Words ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (duration(None), None),
        (duration(0), "0ms"),
        (duration(999), "999ms"),
        (duration(60_000), "1m"),
        (duration(3_661_000), "1h 1m"),
        (duration(7 * 86_400_000), "7d"),
        (size(None), None),
        (size(1023), "1023 B"),
        (size(1536), "1.5 KiB"),
        (size(5 * 2**40), "5.0 TiB"),
        (moment(1_358_000_000_123), "2013-01-12T14:13:20.123Z"),
        (moment(-1), "1969-12-31T23:59:59.999Z"),
        (printable("a\tb\x00ø"), r"a\tb\x00ø"),
        (readable(None), "null"),
        (readable(b'say "hi"\n'), r'"say \"hi\"\n"'),
        (readable(b"\xc3("), "0xc328"),
        (quoted("a b"), "'a b'"),
        (quoted("a'\n"), r"$'a\'\n'"),
    ],
)
def test_values_are_put_into_words(shown: str | None, expected: str | None) -> None:
    assert shown == expected


# Documentation --------------------------------------------------------------------------------------------------------


def leaves(command: click.Command, path: Sequence[str] = ()) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for name, below in sorted(command.commands.items()):
            yield from leaves(below, (*path, name))
    else:
        yield " ".join(path), command


COMMANDS = dict(leaves(main))


def test_every_command_takes_the_shared_options() -> None:
    assert len(COMMANDS) > 15
    assert isinstance(main, Root)
    assert {type(command) for command in COMMANDS.values()} == {Command}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_explained_in_its_help_and_in_the_documentation(name: str) -> None:
    text = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    command = COMMANDS[name]
    assert command.help
    assert f"oncelog {name}" in text

    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, option.name
            assert option.opts[0] in text, option.name


# Jars -----------------------------------------------------------------------------------------------------------------


def test_the_jars_are_printed_as_spark_takes_them(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    jar = tmp_path / "oncelog-spark.jar"
    monkeypatch.setattr("oncelog.spark.packaging.JAR", jar)
    assert "make shims" in shell.refused("jars", "spark", exit_code=2)

    jar.touch()
    assert shell.lines("jars", "spark") == [str(jar)]
    assert shell.json("jars", "spark") == {"jars": [str(jar)]}
    assert "there are kafka, spark" in shell.refused("jars", "flink", exit_code=2)
