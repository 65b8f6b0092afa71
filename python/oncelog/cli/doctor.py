"""``oncelog doctor``: checks the installation and a log. The checks are in `checks`."""

from __future__ import annotations

import click

from oncelog.cli.checks import place, software
from oncelog.cli.checks.findings import Verdict
from oncelog.cli.output import printable, show, show_json, show_table
from oncelog.cli.shell import Command, ExitCode, Settings


@click.command(cls=Command, example="oncelog doctor --path /data/log")
@click.pass_obj
def doctor(settings: Settings) -> ExitCode:
    """Check the installation, and a log.

    Checks Python, Java, Spark, jars and extras. If --path names a log, it also checks its file system, its metadata
    store and the clock. It says what is fine, what is not and what to do, and changes nothing. Exit code 1 if something
    is broken; notes do not count.
    """
    findings = [*software.check(), *place.check(settings.named_place, settings.znodes_uri)]
    is_sound = all(finding.verdict is not Verdict.BROKEN for finding in findings)
    if settings.as_json:
        show_json({"is_sound": is_sound, "findings": findings})
    else:
        show_table(("", "check", "found"), [(one.verdict, one.check, one.found) for one in findings], empty="")
        remedies = [one for one in findings if one.remedy is not None]
        if remedies:
            show()
        for one in remedies:
            show(f"{one.check}: {printable(str(one.remedy))}")
    return ExitCode.OK if is_sound else ExitCode.PROBLEM
