"""``oncelog jars``: prints the paths of oncelog's jars for ``spark-submit``."""

from __future__ import annotations

from importlib.metadata import entry_points

import click

from oncelog.cli.output import show, show_json
from oncelog.cli.shell import Command, Settings

BRINGS_JARS = "oncelog.jars"
"""Entry points of this group return the paths of a package's jars, in the format of ``spark.jars``."""


@click.command(cls=Command, example='spark-submit --jars "$(oncelog jars)" job.py')
@click.argument("names", nargs=-1)
@click.pass_obj
def jars(settings: Settings, names: tuple[str, ...]) -> None:
    """Print the paths of oncelog's jars for Spark's option --jars.

    NAMES are `spark` (for reading the log) and `kafka` (the connector); by default, all that are installed.
    """
    known = entry_points(group=BRINGS_JARS)
    unknown = sorted(set(names) - known.names)
    if unknown:
        raise click.UsageError(f"there is no jar {unknown[0]!r}; there are {', '.join(sorted(known.names))}")
    try:
        paths = [known[name].load()() for name in sorted(names or known.names)]
    except ModuleNotFoundError as missing:  # the message names the extra to install
        raise click.ClickException(str(missing)) from None
    if settings.as_json:
        show_json({"jars": paths})
    else:
        show(",".join(paths))
