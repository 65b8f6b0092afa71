"""``oncelog completion``: completes commands, options and names in bash, zsh and fish.

Click writes the scripts and completes commands and options. The names of topics and groups come from the log that the
command line or the environment names. If it cannot be opened, names are not completed; the command itself will say why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ZshComplete

from oncelog.cli.output import show, show_json
from oncelog.cli.shell import Command, Settings
from oncelog.errors import OncelogError
from oncelog.runtime import Log


class Name(click.ParamType[str]):
    """A parameter that is completed with names from the log."""

    def __init__(self, kind: str, known: Callable[[Log], Iterable[str]]) -> None:
        self.name = kind
        self._known = known

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The log's names that begin with `incomplete`."""
        try:
            with ctx.ensure_object(Settings).open() as log:
                return [CompletionItem(name) for name in self._known(log) if name.startswith(incomplete)]
        except (OncelogError, click.UsageError):
            return []


TOPIC = Name("topic", lambda log: [found.topic for found in log.admin.list_topics()])
GROUP = Name("group", lambda log: log.admin.list_groups())

SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command(
    cls=Command,
    example="""\
eval "$(oncelog completion bash)"     # in ~/.bashrc
eval "$(oncelog completion zsh)"      # in ~/.zshrc, after compinit
oncelog completion fish > ~/.config/fish/completions/oncelog.fish""",
)
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    It also completes topics and groups, if --path or ONCELOG_PATH names the log.
    """
    script = SHELLS[shell](context.find_root().command, {}, "oncelog", "_ONCELOG_COMPLETE").source()
    if context.ensure_object(Settings).as_json:
        show_json({"script": script})
    else:
        show(script)
