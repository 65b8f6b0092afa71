"""``oncelog completion``: completes commands, options and names in bash, zsh and fish.

Click writes the scripts and completes commands and options. Names come from the log, or the store of ledgers, that the
command line or the environment names. If it cannot be opened, names are not completed; the command itself will say why.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import closing

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

from oncelog import metadata
from oncelog.batches.overview import list_ledgers
from oncelog.cli.output import show, show_json
from oncelog.cli.shell import Command, Settings
from oncelog.clients.admin import Admin
from oncelog.errors import OncelogError


class Name(click.ParamType[str]):
    """A parameter that is completed with known names."""

    def __init__(self, kind: str, known: Callable[[Settings], Iterable[str]]) -> None:
        self.name = kind
        self._known = known

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names that begin with `incomplete`."""
        try:
            known = self._known(ctx.ensure_object(Settings))
        except (OncelogError, click.UsageError):
            return []
        return [CompletionItem(name) for name in known if name.startswith(incomplete)]


def _of_log(names: Callable[[Admin], Iterable[str]]) -> Callable[[Settings], Iterable[str]]:
    def known(settings: Settings) -> Iterable[str]:
        with settings.open() as log:
            return list(names(log.admin))

    return known


def _prefixes(settings: Settings) -> Iterable[str]:
    if settings.named_place is not None or settings.znodes_uri is None:
        return _of_log(lambda admin: admin.list_prefixes())(settings)
    with closing(metadata.open_metadata(settings.znodes_uri, create=False)) as store:
        return sorted({one.prefix for one in list_ledgers(store)})


TOPIC = Name("topic", _of_log(lambda admin: [found.topic for found in admin.list_topics()]))
GROUP = Name("group", _of_log(lambda admin: admin.list_groups()))
TRANSACTIONAL_ID = Name(
    "transactional id", _of_log(lambda admin: [found.transactional_id for found in admin.list_transactions()])
)
PREFIX = Name("prefix", _prefixes)


class WholeWords(BashComplete):
    """Completion in bash that cuts the line at spaces only. Bash itself also cuts at ``:``, as in ``host:9092``.

    Bash replaces the part after its own last cut, so a completion is offered without the part before it.
    """

    name = "bash"
    source_template = """\
%(complete_func)s() {
    local IFS=$'\\n' line="${COMP_LINE:0:COMP_POINT}" word type value
    word="${line##* }"
    while read -r completion; do
        IFS=',' read -r type value <<< "$completion"
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("${value#"${word%%"${word##*[:=]}"}"}") ;;
        esac
    done < <(COMP_LINE="$line" %(complete_var)s=bash_complete "$1")
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the cursor, and the one at it."""
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)[1:]
        return (words, "") if line[-1:].isspace() else (words[:-1], words[-1])


add_completion_class(WholeWords)

SHELLS = {"bash": WholeWords, "zsh": ZshComplete, "fish": FishComplete}


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

    It also completes topics, groups, transactional ids and prefixes, if --path or ONCELOG_PATH names the log.
    """
    script = SHELLS[shell](context.find_root().command, {}, "oncelog", "_ONCELOG_COMPLETE").source()
    if context.ensure_object(Settings).as_json:
        show_json({"script": script})
    else:
        show(script)
