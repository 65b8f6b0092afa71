"""The help of every command: it fits 80 columns, its examples can be copied, and shells complete what it names."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import oncelog
from oncelog.cli import main
from oncelog.cli.shell import Root
from tests.support.harness.parts import missing_part
from tests.support.log.copies import open_round
from tests.support.log.logs import started
from tests.support.log.shell import Shell

pytestmark = pytest.mark.sampled

WIDTH = 80


def walked(command: click.Command, path: Sequence[str] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command and group, those of other packages too."""
    yield " ".join(path), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from walked(below, (*path, name))


EVERYTHING = dict(walked(main))


@pytest.fixture
def help_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[str], list[str]]:
    """The help of a command as a wide terminal shows it. Click's own runner would cut it at 80 columns."""
    monkeypatch.setenv("COLUMNS", "300")

    def shown(name: str) -> list[str]:
        with pytest.raises(SystemExit):
            main([*name.split(), "--help"])
        return capsys.readouterr().out.splitlines()

    return shown


def examples_in(lines: list[str]) -> list[str]:
    return [line.strip() for line in lines[lines.index("Example:") + 1 :]]


def test_the_walk_meets_commands_groups_and_those_of_other_packages() -> None:
    assert isinstance(EVERYTHING[""], Root)
    assert {"log", "log tail", "kafka txn", "kafka batch complete"} <= EVERYTHING.keys()


@pytest.mark.parametrize("name", EVERYTHING)
def test_help_fits_80_columns_and_ends_with_an_example_that_shows_the_command(
    name: str, help_of: Callable[[str], list[str]]
) -> None:
    lines = help_of(name)

    assert [line for line in lines if len(line) > WIDTH] == []
    shown = re.compile(".* ".join(["oncelog", *name.split()]))
    assert any(shown.search(line) for line in examples_in(lines))


def test_no_group_cuts_the_summary_of_a_command(help_of: Callable[[str], list[str]]) -> None:
    groups = [name for name, command in EVERYTHING.items() if isinstance(command, click.Group)]

    assert [line for name in groups for line in help_of(name) if line.endswith("...") and "Usage" not in line] == []


def calls_of(line: str) -> list[list[str]]:
    """The calls of `oncelog` in a line of shell, without their first word."""
    parts = re.split(r" \| |\$\(|\)| > |  #", line)
    return [shlex.split(part)[1:] for part in parts if part.strip('" ').startswith("oncelog ")]


@pytest.mark.parametrize("name", EVERYTHING)
def test_every_example_is_a_call_that_the_command_line_takes(
    name: str, help_of: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _, command in walked(main):
        if not isinstance(command, click.Group):
            monkeypatch.setattr(command, "callback", lambda **options: None)

    calls = [call for line in examples_in(help_of(name)) for call in calls_of(line)]

    assert calls
    for call in calls:
        done = CliRunner().invoke(main, call)
        assert (done.exit_code, done.output) == (0, ""), call


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("tail flights", "Try `oncelog log tail`."),
        ("dump flights", "Try `oncelog log dump` or `oncelog meta dump`."),
        ("log dump flights --follow", "Try `oncelog log tail --follow`."),
        ("log dump flights -f", "Try `oncelog log tail -f`."),
    ],
)
def test_a_word_that_another_command_knows_is_answered_with_that_command(shell: Shell, typed: str, meant: str) -> None:
    assert meant in shell.refused(*typed.split(), exit_code=2)


# Completion -----------------------------------------------------------------------------------------------------------

IN_BASH = """
eval "$(oncelog completion bash)"
COMP_LINE="oncelog {line}" COMP_POINT=$(({length} + 8))
_oncelog_completion oncelog
printf '%s\\n' "${{COMPREPLY[@]}}"
"""

IN_ZSH = """
compdef() {{ : }}
compadd() {{ print -l -- ${{(P)@[-1]}} }}
_describe() {{ print -l -- ${{(P)3}} }}
eval "$(oncelog completion zsh)"
words=(oncelog {words}) CURRENT=$(({last} + 1))
_oncelog_completion
"""

IN_FISH = """
oncelog completion fish | source
complete --do-complete "oncelog {line}"
"""


COMPLETIONS = {
    "log ta": ["tail"],
    "produce ": ["flights", "flown"],
    "produce flo": ["flown"],
    "consume flights --group ": ["readers"],
    "topic describe fl": ["flights", "flown"],
    "log dump flow": ["flown"],
    "group describe r": ["readers"],
    "group reset readers --topic flo": ["flown"],
    "txn abort lo": ["loader"],
    "batch show ": ["copies"],
    "kafka --brokers host:9092 batch l": ["list"],
}


@pytest.mark.slow
@pytest.mark.parametrize(("shell_name", "script"), [("bash", IN_BASH), ("zsh", IN_ZSH), ("fish", IN_FISH)])
def test_a_shell_completes_commands_and_names_of_the_log(
    shell: Shell, log: oncelog.Log, shell_name: str, script: str
) -> None:
    if shutil.which(shell_name) is None:
        missing_part(shell_name, "install it: its completion is tried in it")
    log.create_topic("flown")
    with log.consumer(group_id="readers") as consumer:
        consumer.subscribe(["flown"])
        consumer.seek_to_beginning()
        consumer.commit()
    started(log, "loader")
    open_round(log)
    bin_folder = Path(sys.executable).parent
    environment = {**os.environ, "ONCELOG_PATH": str(shell.folder), "PATH": f"{bin_folder}:{os.environ['PATH']}"}

    def completed(line: str) -> list[str]:
        words = [*line.split(), *([""] if line.endswith(" ") else [])]
        text = script.format(words=shlex.join(words), last=len(words), line=line, length=len(line))
        done = subprocess.run([shell_name, "-c", text], env=environment, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        # What describes a completion stands behind it.
        return sorted(re.split("[:\t]", offered)[0] for offered in done.stdout.splitlines())

    assert {line: completed(line) for line in COMPLETIONS} == COMPLETIONS


def test_names_of_a_log_that_cannot_be_opened_complete_to_nothing(shell: Shell) -> None:
    asked = {"_ONCELOG_COMPLETE": "bash_complete", "COMP_LINE": "oncelog produce "}

    for path in (None, str(shell.folder)):
        assert CliRunner().invoke(main, env={**asked, "ONCELOG_PATH": path}).output.strip() == ""
    assert not shell.folder.exists()


def test_a_script_of_completion_is_said_as_json_too() -> None:
    done = CliRunner().invoke(main, ["completion", "fish", "--json"])

    assert '"script": "function _oncelog_completion;' in done.stdout
