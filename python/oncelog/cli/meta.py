"""``oncelog meta``: the metadata store."""

from __future__ import annotations

import json

import click

from oncelog import metadata, runtime
from oncelog.cli.output import (
    as_json,
    moment,
    plural,
    printable,
    progress,
    quoted,
    show,
    show_fields,
    show_json,
    show_json_line,
    show_table,
    size,
)
from oncelog.cli.shell import Group, Settings
from oncelog.clients import metadata_report
from oncelog.clients.metadata_report import DumpedZnode, MetadataSizes
from oncelog.znodes.copying import Copied
from oncelog.znodes.schemes import shown


@click.group(cls=Group, example="oncelog meta show")
def meta() -> None:
    """The metadata store."""


@meta.command("show", example="oncelog meta show")
@click.pass_obj
def show_log(settings: Settings) -> None:
    """Show where the log is, its id, and how much it holds."""
    with settings.open() as log:
        fields = {
            "path": log.path,
            "znodes": shown(log.znodes or "sqlite"),
            "cluster_id": log.cluster_id,
            "topics": len(log.admin.list_topics()),
            "groups": len(log.admin.list_groups()),
            "sinks": len(log.admin.list_prefixes()),
        }
    if settings.as_json:
        show_json({"log": fields})
    else:
        show_fields((name.replace("_", " "), value) for name, value in fields.items())


@meta.command(example="oncelog meta stat --largest 5")
@click.option(
    "--largest", type=click.IntRange(min=0), default=metadata_report.LARGEST, show_default=True, help="Znodes to list."
)
@click.pass_obj
def stat(settings: Settings, largest: int) -> None:
    """Show the size of the metadata.

    Shows the znodes and bytes of each topic and of the rest, and the largest znodes.

    Bytes are those of the znodes' data, as in ZooKeeper's quotas. Reads every znode.
    """
    with settings.open() as log, progress("reading znodes"):
        found = log.admin.measure_metadata(largest=largest)
    if settings.as_json:
        show_json(as_json(found))
        return
    show_table(("part", "znodes>", "size>"), _size_rows(found), empty="")
    if found.largest:
        show()
        show_table(("largest znodes", "size>"), [(one.path, size(one.size_bytes)) for one in found.largest], empty="")


def _size_rows(found: MetadataSizes) -> list[tuple[object, ...]]:
    parts = [
        ("transactions", found.transactions),
        ("groups", found.groups),
        ("sinks", found.queries),
        ("other", found.other),
        ("total", found.total),
    ]
    topics = [(f"topic {one.topic}", one.znodes, size(one.size_bytes)) for one in found.topics]
    return [*topics, *((name, part.znodes, size(part.size_bytes)) for name, part in parts)]


@meta.command(example="oncelog meta dump /topics")
@click.argument("znode", metavar="[ZNODE]", default="/")
@click.pass_obj
def dump(settings: Settings, znode: str) -> None:
    """Show a znode and all znodes below it; by default, all znodes.

    Shows each znode's path, version, time of the last write, and data.

    With --json, each line is the JSON document of one znode.
    """
    with settings.open() as log:
        for found in log.admin.dump_metadata(znode):
            if settings.as_json:
                show_json_line(found)
            else:
                show(_znode_line(found))


def _znode_line(found: DumpedZnode) -> str:
    data = "" if found.data is None else json.dumps(as_json(found.data), ensure_ascii=False)
    place = click.style(printable(found.path), bold=True)
    return f"{place}  v{found.version}  {moment(found.modified_ms)}  {printable(data)}".rstrip()


@meta.command(example="oncelog meta copy --to zk://zk1:2181,zk2:2181,zk3:2181/oncelog")
@click.option("--to", required=True, metavar="URI", help="The other store, as in --znodes; it must be empty.")
@click.pass_obj
def copy(settings: Settings, to: str) -> None:
    """Copy all metadata into another, empty store, and compare both. The data files stay where they are.

    Stop every process that uses the log first, and never use the old store afterwards: two stores over the same files
    would delete each other's files. Transactions may be open; they continue in the new store. If anything writes to the
    log during the copy, the copy fails.

    The new store cannot be opened before the copy is complete. After an interruption, the next copy starts from
    scratch.
    """
    with settings.open() as log, progress("copying metadata") as advance:
        done = runtime.copy_metadata(log, to, on_progress=advance)
        place = str(metadata.place_of(log.path, to))
    show_copied(settings, done, place, then=f"open the log only with --znodes {quoted(place)}")


def show_copied(settings: Settings, done: Copied, to: str, *, then: str) -> None:
    """Show what was copied, where to, and what has to be done from now on."""
    if settings.as_json:
        show_json({"copied": {"to": to, **as_json(done)}})
        return
    show(f"copied {plural(done.znodes, 'znode')} ({size(done.size_bytes)}) of the log {done.cluster_id}")
    show(f"compared {plural(done.compared, 'znode')} of both stores: the same paths, children and data")
    if done.adapted:
        show(f"translated the store's zxids (trims, orders of offsets) in {plural(done.adapted, 'znode')}")
    show(f"from now on {then}")


@meta.command("adopt-host", example="oncelog meta adopt-host")
@click.pass_obj
def adopt_host(settings: Settings) -> None:
    """Make this host the owner of a SQLite store.

    Use it after the store moved, or when its former host is gone for good. Stop all processes of the former host first:
    a SQLite file that two hosts use at once loses data.
    """
    metadata.adopt_host(settings.place, settings.znodes_uri)
    if settings.as_json:
        show_json({"adopted": settings.place})
    else:
        show(f"the store of {settings.place} belongs to this host now")
