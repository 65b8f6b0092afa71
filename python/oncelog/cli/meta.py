"""``oncelog meta``: the metadata store itself."""

from __future__ import annotations

import click

from oncelog import runtime
from oncelog.cli.output import show, show_fields, show_json
from oncelog.cli.shell import Group, Settings


@click.group(cls=Group)
def meta() -> None:
    """The metadata store."""


@meta.command("show")
@click.pass_obj
def show_log(settings: Settings) -> None:
    """Show which log this is."""
    with settings.open() as log:
        fields = {
            "path": log.path,
            "znodes": log.znodes or "sqlite",
            "cluster_id": log.cluster_id,
            "topics": len(log.admin.list_topics()),
            "groups": len(log.admin.list_groups()),
            "sinks": len(log.admin.list_prefixes()),
        }
    if settings.as_json:
        show_json({"log": fields})
    else:
        show_fields((name.replace("_", " "), value) for name, value in fields.items())


@meta.command("adopt-host")
@click.pass_obj
def adopt_host(settings: Settings) -> None:
    """Make a SQLite store this host's own, after a move or when its former host is gone for good.

    Only when no process of the former host uses it any more: SQLite on two hosts at once loses data.
    """
    runtime.adopt_host(settings.place, settings.znodes_uri)
    if settings.as_json:
        show_json({"adopted": settings.place})
    else:
        show(f"the store of {settings.place} belongs to this host now")
