"""What all commands share: the settings, opening the log, and turning errors into one line and an exit code.

A command returns its exit code, or nothing for success. It must never end the process or print a traceback: errors
reach `Root.main`, which chooses the exit code by their branch of the error tree.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from importlib.metadata import entry_points
from io import TextIOWrapper
from pathlib import Path
from typing import Any, NoReturn

import click

from oncelog import runtime
from oncelog.cli import parameters
from oncelog.errors import (
    AbortableError,
    InvalidProducerIdMappingError,
    OncelogError,
    OutcomeUnknownError,
    RetriableError,
    UsageError,
)
from oncelog.extras import install
from oncelog.runtime import Log
from oncelog.version import __version__

PATH_VARIABLE = "ONCELOG_PATH"
ZNODES_VARIABLE = "ONCELOG_ZNODES"


class ExitCode(IntEnum):
    """The exit codes."""

    OK = 0
    PROBLEM = 1
    """The command worked, and it found a problem: damage, or a hanging transaction."""

    USAGE = 2
    RETRIABLE = 3
    FATAL = 4
    INTERRUPTED = 130
    PIPE_CLOSED = 141


@dataclass
class Settings:
    """The values of the options that all commands have."""

    path: str | None = None
    znodes: str | None = None
    as_json: bool = False
    debug: bool = False

    @property
    def named_place(self) -> str | None:
        """The log's path, if one is given."""
        return self.path or os.environ.get(PATH_VARIABLE) or None

    @property
    def place(self) -> str:
        """The log's path. Raises a click.UsageError if none is given."""
        path = self.named_place
        if path is None:
            raise click.UsageError(f"Which log? Give --path, or set {PATH_VARIABLE}.")
        return path

    @property
    def znodes_uri(self) -> str | None:
        """The URL of the log's metadata; None for the SQLite file in its folder."""
        return self.znodes or os.environ.get(ZNODES_VARIABLE) or None

    def open(self, *, create: bool = False) -> Log:
        """Open the log. Only `oncelog topic create` may create one."""
        return runtime.open(self.place, self.znodes_uri, create=create)


def _remember(context: click.Context, parameter: click.Parameter, value: object) -> None:
    if value:
        setattr(context.ensure_object(Settings), str(parameter.name), value)


def _shared_options() -> list[click.Parameter]:
    """The options of `Settings`. Groups and commands have them, so that they may be given anywhere."""
    return [
        parameters.shared("--path", _remember, metavar="DIR", help=f"The log's folder. [env: {PATH_VARIABLE}]"),
        parameters.shared(
            "--znodes",
            _remember,
            metavar="URI",
            help=f"Its metadata; by default a SQLite file in the folder. [env: {ZNODES_VARIABLE}]",
        ),
        parameters.shared(
            "--json", _remember, name="as_json", is_flag=True, help="One JSON document on stdout, for scripts."
        ),
        parameters.shared("--debug", _remember, is_flag=True, help="Show the traceback of an error."),
    ]


class _Shared(click.Command):
    """A command or group with the shared options. Its help ends with an example: lines of shell that can be copied."""

    def __init__(self, *args: Any, example: str, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params = [*self.params, *_shared_options()]
        self.example = example

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example without wrapping, so that it can be copied."""
        with formatter.section("Example"):
            for line in self.example.splitlines():
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


class Command(_Shared):
    """A command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments. An error names the commands of the same group that have the unknown option."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as problem:
            group, flag = ctx.parent, problem.option_name
            near = group.command.commands.items() if group and isinstance(group.command, click.Group) else ()
            having = [name for name, command in near if any(flag in option.opts for option in command.params)]
            _refer(problem, [f"{group.command_path} {name} {flag}" for name in having] if group else [])


class Group(_Shared, click.Group):
    """A group of such commands."""

    command_class = Command


PLUGGED_IN = "oncelog.commands"
"""Entry points of this group are command groups of other packages, under their own names."""


class Root(Group):
    """The program itself."""

    def list_commands(self, context: click.Context) -> list[str]:
        """Names of all commands, including those of other packages."""
        return sorted({*super().list_commands(context), *entry_points(group=PLUGGED_IN).names})

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """A command. One of another package is only loaded when it is used."""
        return super().get_command(context, name) or _plugged_in(name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command. An error names the groups that have a command of the unknown name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as problem:
            groups = {name: group for name, group in self.commands.items() if isinstance(group, click.Group)}
            having = [name for name, group in groups.items() if args[0] in group.commands]
            _refer(problem, [f"{ctx.command_path} {name} {args[0]}" for name in having])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> NoReturn:
        """Run one command and exit with its exit code."""
        settings = Settings()
        sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115 - the caller closed it with `>&-`
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # never fail because a terminal lacks a character
        try:
            answer = super().main(args, prog_name, complete_var, standalone_mode=False, obj=settings, **extra)
            code = ExitCode.OK if answer is None else ExitCode(answer)
        except Exception as error:  # noqa: BLE001 - the one place where an error becomes an exit code
            if settings.debug:
                traceback.print_exc()
            code, text = _explain(error)
            click.echo(text, err=True)
        sys.exit(code)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse the arguments; ``--help`` is written here."""
        with _ending_with_reader():
            return super().make_context(*args, **extra)

    def invoke(self, context: click.Context) -> Any:
        """Run the command."""
        with _ending_with_reader():
            answer = super().invoke(context)
            sys.stdout.flush()
            return answer


@contextmanager
def _ending_with_reader() -> Iterator[None]:
    """Exit without an error message if the reader of stdout has left (``| head``)."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(ExitCode.PIPE_CLOSED) from None


def _refer(problem: click.UsageError, calls: Sequence[str]) -> NoReturn:
    """Raise `problem`, with the calls that the user may have meant, if there are any."""
    if not calls:
        raise problem
    meant = " or ".join(f"`{call}`" for call in calls)
    raise click.UsageError(f"{problem.format_message()} Try {meant}.", problem.ctx)


def _plugged_in(name: str) -> click.Command | None:
    for found in entry_points(group=PLUGGED_IN, name=name):
        try:
            command: click.Command = found.load()
        except ModuleNotFoundError as problem:
            # A placeholder, so that `oncelog --help` lists the command and says what to install.
            return click.Command(
                name,
                callback=_lacks(name, problem),
                help=f"({install(name)})",
                context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
            )
        return command
    return None


def _lacks(name: str, problem: ModuleNotFoundError) -> Callable[[], None]:
    def explain() -> None:
        raise click.ClickException(f"this command needs the package {problem.name}: {install(name)}")

    return explain


def _explain(error: Exception) -> tuple[ExitCode, str]:
    """The exit code and the message of an error: one line, or the help if the command line was empty."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return ExitCode.USAGE, error.format_message()
    code, text = _classify(error)
    return code, f"oncelog: {' '.join(text.split())}"


def _classify(error: Exception) -> tuple[ExitCode, str]:
    match error:
        case click.Abort():
            return ExitCode.INTERRUPTED, "interrupted"
        case click.UsageError():
            command = error.ctx.command_path if error.ctx else "oncelog"
            return ExitCode.USAGE, f"{error.format_message()} (see `{command} --help`)"
        case click.ClickException():
            return ExitCode.USAGE, error.format_message()
        case UsageError() | InvalidProducerIdMappingError():  # an unknown transactional id, like an unknown topic
            return ExitCode.USAGE, str(error)
        case RetriableError() | AbortableError() | OutcomeUnknownError():
            return ExitCode.RETRIABLE, f"{error} (run the command again)"
        case OncelogError():
            return ExitCode.FATAL, str(error)
        case OSError():  # stdout's: errors of the log's files are OncelogErrors
            return ExitCode.FATAL, f"the output cannot be written: {error}"
        case _:
            name = type(error).__name__
            return ExitCode.FATAL, f"{name}: {error} (this should not happen; --debug shows where, please report it)"


@click.group(
    "oncelog",
    cls=Root,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
    example="""\
export ONCELOG_PATH=/data/log
oncelog topic create flights --partitions 4
printf 'UA:1545\\nAA:1141\\n' | oncelog produce flights --key-separator :
oncelog log tail flights --key-separator :""",
)
@click.version_option(__version__, prog_name="oncelog")
def root() -> None:
    """Administer a log: its topics, transactions, groups and files.

    Exit codes: 0 done; 1 done, and a problem was found (as by `log verify`); 2 wrong usage; 3 try again; 4 failed.
    """
