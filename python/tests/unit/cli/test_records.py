"""Records in and out of a shell: `oncelog produce`, `oncelog log tail`, `oncelog consume`, as their users run them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import oncelog
from oncelog.cli import main
from oncelog.limits import MAX_RECORD_BYTES
from tests.support.harness.waiting import until
from tests.support.log.copies import open_round
from tests.support.log.logs import TOPIC, started, write_aborted, write_committed, write_open
from tests.support.log.shell import Shell, finished, on_terminal, started_command

MIB = 1024 * 1024


def produced(shell: Shell, lines: bytes, *arguments: str) -> Result:
    """What `oncelog produce` says to these lines on its stdin."""
    return CliRunner().invoke(main, ["--path", str(shell.folder), "produce", TOPIC, *arguments], input=lines)


def piped(shell: Shell, script: str) -> subprocess.CompletedProcess[str]:
    """A script of bash, for which `oncelog` is this installation and its log is the shell's."""
    bin_folder = Path(sys.executable).parent
    environment = {**os.environ, "ONCELOG_PATH": str(shell.folder), "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def tail(shell: Shell, *arguments: str) -> list[str]:
    return shell.lines("log", "tail", TOPIC, *arguments)


# Pipes ----------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_lines_that_are_piped_in_come_out_of_a_pipe(shell: Shell) -> None:
    shell("topic", "create", TOPIC)

    done = piped(shell, f"printf 'a\\nb\\n' | oncelog produce {TOPIC} && oncelog log tail {TOPIC} | tr a-z A-Z")

    assert (done.returncode, done.stdout, done.stderr) == (0, "A\nB\n", f"2 records written to {TOPIC}\n")


@pytest.mark.slow
def test_a_tail_ends_with_the_reader_of_its_pipe_though_nothing_new_comes(shell: Shell, log: oncelog.Log) -> None:
    write_committed(started(log), b"a")

    done = piped(shell, f"oncelog log tail {TOPIC} --follow | head -1; echo ${{PIPESTATUS[0]}}")

    assert (done.stdout, done.stderr) == ("a\n141\n", "")


@pytest.mark.slow
def test_a_log_is_copied_by_a_pipe_with_its_keys_byte_by_byte(shell: Shell) -> None:
    for name in (TOPIC, "copies"):
        shell("topic", "create", name)
    produced(shell, b"k:\xff:\x00\nnull:\r\n", "--key-separator", ":")

    copied = f"oncelog log tail {TOPIC} --key-separator : | oncelog produce copies --key-separator : --null-marker null"

    assert piped(shell, copied).returncode == 0
    found = [json.loads(line) for line in shell.lines("log", "tail", "copies", "--json")]
    assert [(one["key"], one["value"]) for one in found] == [
        ({"text": "k"}, {"hex": "ff3a00"}),
        (None, {"text": "\r"}),
    ]


# Produce --------------------------------------------------------------------------------------------------------------


def test_a_line_becomes_a_record_with_its_key_header_time_and_partition(shell: Shell, log: oncelog.Log) -> None:
    arguments = ["--key-separator", "\\t", "-H", "source=UTF-8 ø", "-H", "empty=", "--partition", "1"]

    done = produced(
        shell, b"UA\t1545\t\nAA\tnull", *arguments, "--timestamp", "2013-01-01T11:00+01:00", "--null-marker", "null"
    )

    assert (done.exit_code, done.stdout, done.stderr) == (0, "", f"2 records written to {TOPIC}\n")
    first, second = [json.loads(line) for line in tail(shell, "--json")]
    assert first == {
        "topic": TOPIC,
        "partition": 1,
        "offset": 0,
        "timestamp_ms": 1_357_034_400_000,
        "key": {"text": "UA"},
        "value": {"text": "1545\t"},
        "headers": [{"name": "source", "value": {"text": "UTF-8 ø"}}, {"name": "empty", "value": {"text": ""}}],
    }
    assert (second["key"], second["value"]) == ({"text": "AA"}, None)


def test_no_line_is_no_record_and_an_empty_line_is_one(shell: Shell, log: oncelog.Log) -> None:
    assert produced(shell, b"").stderr == f"0 records written to {TOPIC}\n"
    assert (
        produced(shell, b"", "--transactional-id", "x").stderr == f"0 records written to {TOPIC} in one transaction\n"
    )

    assert produced(shell, b"\n").stderr == f"1 record written to {TOPIC}\n"
    assert tail(shell) == [""]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["flihgts"], "oncelog topic create"),
        ([TOPIC, "--partition", "9"], "no such partition"),
        ([TOPIC, "--header", "source"], "'source' is not a header; write it like source=billing"),
        ([TOPIC, "--key-separator", ""], "a separator must be one line of text, and not empty"),
        ([TOPIC, "--timestamp", "yesterday"], "'yesterday' is not a time; write it like 2013-01-01T10:00:00Z"),
        ([TOPIC, "--transactional-id", ""], "a transactional id must be text, and not empty"),
        ([TOPIC, "--transactional-id", "x", "--transaction-timeout", "1h"], "at most the maximum"),
    ],
)
def test_what_cannot_be_written_is_refused_before_a_line_is_read(
    shell: Shell, log: oncelog.Log, arguments: list[str], complaint: str
) -> None:
    done = CliRunner().invoke(main, ["--path", str(shell.folder), "produce", *arguments], input=b"a\n")

    assert (done.exit_code, done.stdout) == (2, "")
    assert complaint in done.stderr
    assert done.stderr.count("\n") == 1
    assert tail(shell) == []


def test_a_refused_line_leaves_nothing_of_its_transaction_and_the_next_run_goes_on(
    shell: Shell, log: oncelog.Log
) -> None:
    in_one = ["--key-separator", ":", "--transactional-id", "loader"]

    done = produced(shell, b"k:1\nk:2\nbroken\nk:3\n", *in_one)

    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "oncelog: line 3: the line has no key separator; nothing was written [key_separator=':']\n"
    assert tail(shell) == []
    assert produced(shell, b"k:4\n", *in_one).stderr == f"1 record written to {TOPIC} in one transaction\n"
    assert tail(shell) == ["4"]


def test_a_refused_line_without_a_transaction_says_how_many_are_written_before_it(
    shell: Shell, log: oncelog.Log
) -> None:
    done = produced(shell, b"a\nb\n" + b"c" * (MAX_RECORD_BYTES + 1) + b"\nd\n")

    assert done.exit_code == 2
    assert done.stderr.startswith("oncelog: line 3: the record is too large; written before it: 2 lines [")
    assert sorted(tail(shell)) == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "code", "advice"),
    [
        ([], 4, "some lines may have been written, so check before you send them again"),
        (["--transactional-id", "loader"], 3, "(run the command again)"),
    ],
)
def test_only_a_transaction_that_failed_is_to_be_sent_again(
    shell: Shell, log: oncelog.Log, arguments: list[str], code: int, advice: str
) -> None:
    (shell.folder / "data").touch()  # where the folder of the data files will be

    done = produced(shell, b"a\n", *arguments)

    assert (done.exit_code, done.stderr.count("\n")) == (code, 1)
    assert advice in done.stderr


def test_what_was_written_is_said_as_json_too(shell: Shell, log: oncelog.Log) -> None:
    done = produced(shell, b"a\n", "--transactional-id", "loader", "--json")

    assert json.loads(done.stdout) == {"produced": {"topic": TOPIC, "records": 1, "transactional_id": "loader"}}
    assert done.stderr == ""


@pytest.mark.slow
def test_a_killed_transaction_shows_nothing_and_the_next_run_works(shell: Shell, log: oncelog.Log) -> None:
    """It is so large that part of it is in the log already."""
    arguments = [TOPIC, "--partition", "0", "--transactional-id", "loader"]
    dies = started_command("produce", *arguments, "--path", shell.folder, stdin=subprocess.PIPE)
    assert dies.stdin is not None
    for _ in range(40):
        dies.stdin.write("x" * MIB + "\n")
    dies.stdin.flush()
    until(lambda: shell.json("txn", "list", "--state", "ongoing")["transactions"])

    dies.kill()

    assert finished(dies)[0] == -signal.SIGKILL
    assert tail(shell) == []
    assert produced(shell, b"next\n", *arguments[1:]).exit_code == 0
    assert tail(shell) == ["next"]


@pytest.mark.slow
def test_an_interrupted_transaction_is_aborted(shell: Shell, log: oncelog.Log) -> None:
    process = started_command(
        "produce", TOPIC, "--transactional-id", "loader", "--path", shell.folder, stdin=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write("a\n")
    process.stdin.flush()
    until(lambda: shell.json("txn", "list")["transactions"])

    process.send_signal(signal.SIGINT)

    assert process.wait(timeout=60) == 130
    assert finished(process)[2].strip() == "oncelog: interrupted"
    assert tail(shell) == []


@pytest.mark.slow
def test_a_caller_without_stdin_writes_nothing(shell: Shell, log: oncelog.Log) -> None:
    done = piped(shell, f"oncelog produce {TOPIC} <&-")

    assert (done.returncode, done.stderr) == (0, f"0 records written to {TOPIC}\n")


# Tail -----------------------------------------------------------------------------------------------------------------


def test_the_last_records_of_all_partitions_are_shown_in_the_order_of_their_times(
    shell: Shell, log: oncelog.Log
) -> None:
    with log.producer() as producer:
        for time_ms, partition in enumerate([0, 1, 1, 0, 1]):
            producer.send(TOPIC, b"%d" % time_ms, partition=partition, timestamp_ms=time_ms)

    assert tail(shell, "--lines", "3") == ["2", "3", "4"]
    assert tail(shell, "-n", "0") == []
    assert tail(shell, "--partition", "0") == ["0", "3"]
    assert sorted(tail(shell, "--from-beginning")) == ["0", "1", "2", "3", "4"]
    assert "no such partition" in shell.refused("log", "tail", TOPIC, "--partition", "9", exit_code=2)
    assert "oncelog topic create" in shell.refused("log", "tail", "flihgts", exit_code=2)


def test_a_tail_shows_what_is_committed_and_reaches_behind_what_is_not(shell: Shell, log: oncelog.Log) -> None:
    write_committed(started(log, "early"), b"a", b"b")
    for _ in range(20):
        write_aborted(started(log, "loser"), b"aborted")
    write_committed(started(log, "late"), b"c")
    write_open(undecided := started(log, "open"), b"undecided")
    write_committed(started(log, "behind it"), b"held back")

    assert tail(shell, "--lines", "2") == ["b", "c"]

    undecided.commit_transaction()
    assert tail(shell, "--lines", "2") == ["undecided", "held back"]


def test_null_and_headers_are_shown(shell: Shell, log: oncelog.Log) -> None:
    with log.producer() as producer:
        producer.send(TOPIC, None, key=None, partition=0, headers=[("via", b"x"), ("none", None)])

    assert tail(shell, "--headers", "--key-separator", " = ") == ["via:x,none:null\tnull = null"]


@pytest.mark.slow
def test_a_record_cannot_steer_the_terminal(shell: Shell, log: oncelog.Log) -> None:
    write_committed(started(log), b"\x1b[2J\xff", "Tromsø".encode())

    shown, stderr = on_terminal("log", "tail", TOPIC, "--path", shell.folder)

    assert (shown, stderr) == ("\\x1b[2J\\xff\nTromsø\n", "")


@pytest.mark.slow
def test_a_tail_follows_without_spinning_until_it_is_interrupted(shell: Shell, log: oncelog.Log) -> None:
    write_committed(copier := started(log), b"a")
    process = started_command("log", "tail", TOPIC, "--follow", "--path", shell.folder)
    assert process.stdout is not None
    assert process.stdout.readline() == "a\n"
    began_s, used = time.monotonic(), cpu_s(process)
    until(lambda: time.monotonic() - began_s > 2)
    assert cpu_s(process) - used < 0.5, "two seconds of waiting cost less than a quarter of a core"

    write_committed(copier, b"b")
    assert process.stdout.readline() == "b\n"

    process.send_signal(signal.SIGINT)
    assert finished(process) == (0, "", "")


def cpu_s(process: subprocess.Popen[str]) -> float:
    """What a process has had of the processor."""
    user, system = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


# Consume --------------------------------------------------------------------------------------------------------------


def consumed(shell: Shell, *arguments: str) -> list[str]:
    return shell.lines("consume", TOPIC, "--group", "readers", *arguments)


def test_a_group_gets_each_record_once_over_several_runs(shell: Shell, log: oncelog.Log) -> None:
    write_committed(copier := started(log), b"a", b"b", b"c")

    assert consumed(shell, "--max", "1") == ["a"]
    assert consumed(shell) == ["b", "c"]
    assert consumed(shell) == []

    write_committed(copier, b"d")
    assert [json.loads(line)["value"] for line in consumed(shell, "--json")] == [{"text": "d"}]
    assert shell.json("group", "describe", "readers")["group"]["partitions"][0]["lag"] == 0


def test_a_new_group_begins_at_the_log_start_unless_it_is_told_otherwise(shell: Shell, log: oncelog.Log) -> None:
    write_committed(started(log), b"a")

    assert "no committed offset" in shell.refused(
        "consume", TOPIC, "--group", "readers", "--auto-offset-reset", "none", exit_code=2
    )
    assert consumed(shell, "--auto-offset-reset", "latest") == []
    assert consumed(shell) == ["a"]


def test_several_topics_are_consumed_together(shell: Shell, log: oncelog.Log) -> None:
    log.create_topic("delayed")
    with log.producer() as producer:
        producer.send(TOPIC, b"a")
        producer.send("delayed", b"b")

    assert sorted(consumed(shell, "delayed")) == ["a", "b"]


def test_a_group_whose_offsets_a_sink_commits_is_refused_and_nothing_is_written(shell: Shell, log: oncelog.Log) -> None:
    open_round(log, group_id="readers").decide()
    log.admin.settle()

    assert "a sink owns this group and commits its offsets" in shell.refused(
        "consume", TOPIC, "--group", "readers", exit_code=4
    )


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, None])
def test_a_batch_that_was_not_written_to_its_end_comes_again(
    shell: Shell, log: oncelog.Log, end: signal.Signals | None
) -> None:
    """Its process is killed, or the reader of its output leaves."""
    write_committed(started(log), *(b"%d " % at + b"x" * 1000 for at in range(400)))
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}  # as in most containers
    process = started_command("consume", TOPIC, "--group", "readers", "--path", shell.folder, env=environment)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("0 ")

    if end is not None:
        process.send_signal(end)
    process.stdout.close()

    assert process.wait(timeout=60) == (141 if end is None else -end)
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    assert len(consumed(shell)) == 400


@pytest.mark.slow
def test_a_consumer_that_follows_commits_what_it_wrote_and_ends_when_it_is_interrupted(
    shell: Shell, log: oncelog.Log
) -> None:
    process = started_command("consume", TOPIC, "--group", "readers", "--follow", "--path", shell.folder)
    write_committed(started(log), b"a")
    assert process.stdout is not None
    assert process.stdout.readline() == "a\n"
    until(lambda: shell.json("group", "list")["groups"])

    process.send_signal(signal.SIGINT)

    assert finished(process) == (0, "", "")
    assert consumed(shell) == []
