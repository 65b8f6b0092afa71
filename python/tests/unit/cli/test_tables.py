"""Tables on a terminal of 80 columns, where names are as long as names may be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import oncelog
from tests.support.log.copies import open_round
from tests.support.log.logs import flip_a_bit, send, started, tp
from tests.support.log.shell import ANSI, Shell, on_terminal

WIDTH = 80
NAME = "name-of-all-that-has-one-" * 8

COMMANDS = [
    ["topic", "list"],
    ["topic", "describe", NAME],
    ["topic", "configure", NAME, "--retention", "30d"],
    ["txn", "list"],
    ["txn", "describe", f"open-{NAME}"],
    ["txn", "find-hanging", "--max-age", "0ms"],
    ["group", "list"],
    ["group", "describe", NAME],
    ["group", "reset", NAME, "--to", "earliest"],
    ["batch", "list"],
    ["batch", "show", NAME],
    ["meta", "show"],
    ["meta", "stat"],
    ["doctor"],
    ["log", "verify"],
]


TO_BE_COPIED = ("to abort it: ", "PYSPARK_PYTHON: ")
"""How lines begin that hold a command: folded, it could not be copied."""

ONE_AFTER_THE_OTHER = """
import json, sys
from oncelog.cli import main
for arguments in json.loads(sys.argv[1]):
    print("$", *arguments, file=sys.stderr)
    try:
        main(arguments)
    except SystemExit as end:
        print(end.code, file=sys.stderr)
"""


@pytest.fixture
def with_long_names(log: oncelog.Log) -> oncelog.Log:
    """Of a topic, a transaction that is open, a group, and a sink's prefix; and a file is damaged."""
    log.create_topic(NAME, partitions=3)
    copier = started(log, NAME)
    copier.begin_transaction()
    send(copier, b"a")
    copier.send_offsets_to_transaction({tp(): 1}, NAME)
    copier.commit_transaction()
    undecided = started(log, f"open-{NAME}")
    undecided.begin_transaction()
    for number in range(3):
        undecided.send(NAME, b"a", partition=number)
    undecided.flush()
    open_round(log, prefix=NAME)
    flip_a_bit(next(Path(log.path, "data").iterdir()))
    return log


@pytest.mark.slow
def test_every_table_fits_80_columns_and_shows_long_names_whole(shell: Shell, with_long_names: oncelog.Log) -> None:
    commands = [[*command, "--path", str(shell.folder)] for command in COMMANDS]

    shown, said = on_terminal(json.dumps(commands), program=("-c", ONE_AFTER_THE_OTHER))

    codes = said.splitlines()[1::2]
    assert codes == ["0"] * 5 + ["1"] + ["0"] * 7 + [codes[-2], "1"]
    plain = ANSI.sub("", shown)
    lines = [line for line in plain.splitlines() if not line.startswith(TO_BE_COPIED)]
    assert [line for line in lines if len(line) > WIDTH] == []
    whole = "".join(plain.split())
    assert whole.count(NAME) == 15
