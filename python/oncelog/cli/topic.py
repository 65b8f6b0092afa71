"""``oncelog topic``: create, list, describe, configure, delete."""

from __future__ import annotations

import click

from oncelog.cli.completion import TOPIC
from oncelog.cli.output import (
    duration,
    plural,
    show,
    show_fields,
    show_json,
    show_table,
    size,
)
from oncelog.cli.owners import OWNER_COLUMNS, owner_cells
from oncelog.cli.parameters import DURATION, SIZE, OrNone
from oncelog.cli.shell import Group, Settings
from oncelog.clients.descriptions import TopicDescription, TopicListing
from oncelog.log import topics
from oncelog.log.topics import Keep
from oncelog.protocol.partition import TopicState

KEPT = "kept forever"


@click.group(cls=Group, example="oncelog topic describe flights")
def topic() -> None:
    """Topics and their partitions."""


@topic.command(example="oncelog topic create flights --partitions 4 --retention 7d")
@click.argument("name")
@click.option("--partitions", type=click.IntRange(min=1), default=1, show_default=True, help="Cannot be changed later.")
@click.option("--retention", type=DURATION, help="Older records may be removed, as in 7d. [default: kept forever]")
@click.option("--retention-bytes", type=SIZE, help="Size of a partition at which old records may be removed: 10GiB.")
@click.pass_obj
def create(settings: Settings, name: str, partitions: int, retention: int | None, retention_bytes: int | None) -> None:
    """Create a topic, and the log if there is none."""
    topics.check(name, topics.new_state(partitions, retention_ms=retention, retention_bytes=retention_bytes))
    with settings.open(create=True) as log:
        state = log.create_topic(name, partitions=partitions, retention_ms=retention, retention_bytes=retention_bytes)
    listing = _listing(name, state)
    if settings.as_json:
        show_json({"topic": listing})
    else:
        show(f"created topic {name} with {plural(partitions, 'partition')}")


@topic.command("list", example="oncelog topic list")
@click.pass_obj
def list_topics(settings: Settings) -> None:
    """List all topics."""
    with settings.open() as log:
        found = log.admin.list_topics()
    if settings.as_json:
        show_json({"topics": found})
        return
    rows = [(t.topic, t.partitions, duration(t.retention_ms), size(t.retention_bytes)) for t in found]
    columns = ("topic", "partitions>", "retention>", "retention bytes>")
    show_table(columns, rows, empty="no topics; create one with `oncelog topic create NAME`")


@topic.command(example="oncelog topic describe flights")
@click.argument("name", type=TOPIC)
@click.pass_obj
def describe(settings: Settings, name: str) -> None:
    """Show the partitions of a topic.

    Also shows the unsettled transactions and micro-batches in them.

    LSO is the last stable offset of a partition read alone; "together" is the one for a reader of the whole topic.
    """
    with settings.open() as log:
        found = log.admin.describe_topic(name)
    if settings.as_json:
        show_json({"topic": found})
    else:
        _show_topic(found)


@topic.command(example="oncelog topic configure flights --retention 30d --retention-bytes none")
@click.argument("name", type=TOPIC)
@click.option("--retention", type=OrNone(DURATION), help="A duration as in 7d, or none.")
@click.option("--retention-bytes", type=OrNone(SIZE), help="A size as in 10GiB, or none.")
@click.pass_obj
def configure(
    settings: Settings, name: str, retention: list[int | None] | None, retention_bytes: list[int | None] | None
) -> None:
    """Change the retention of a topic. Options that are left out do not change it."""
    if retention is None and retention_bytes is None:
        raise click.UsageError("Nothing to change: give --retention or --retention-bytes.")
    with settings.open() as log:
        state = log.admin.configure_topic(
            name,
            retention_ms=Keep.KEEP if retention is None else retention[0],
            retention_bytes=Keep.KEEP if retention_bytes is None else retention_bytes[0],
        )
    listing = _listing(name, state)
    if settings.as_json:
        show_json({"topic": listing})
    else:
        show_fields([("topic", name), *_retention_fields(listing)])


@topic.command(example="oncelog topic delete flights")
@click.argument("name", type=TOPIC)
@click.pass_obj
def delete(settings: Settings, name: str) -> None:
    """Delete a topic and all its records, at once and for good.

    The next collections (`oncelog gc`) remove its files.
    """
    with settings.open() as log:
        log.admin.delete_topic(name)
    if settings.as_json:
        show_json({"deleted": name})
    else:
        show(f"deleted topic {name}")


def _listing(name: str, state: TopicState) -> TopicListing:
    return TopicListing(name, state.topic_id, state.partitions, state.retention_ms, state.retention_bytes)


def _retention_fields(topic: TopicListing | TopicDescription) -> list[tuple[str, str]]:
    return [
        ("retention", duration(topic.retention_ms) or KEPT),
        ("retention bytes", size(topic.retention_bytes) or KEPT),
    ]


def _show_topic(topic: TopicDescription) -> None:
    show_fields([("topic", topic.topic), ("topic id", topic.topic_id), *_retention_fields(topic)])
    show()
    rows = [
        (
            p.partition,
            p.log_start,
            p.log_end,
            p.lso,
            p.lso_together,
            size(p.size_bytes),
            len(p.owners),
            p.index_roots,
            p.tail_length,
        )
        for p in topic.partitions
    ]
    columns = ("part>", "start>", "end>", "LSO>", "together>", "size>", "unsettled>", "roots>", "tail>")
    show_table(columns, rows, empty="no partitions")
    unsettled = [
        (p.partition, owner.first_offset, owner.last_offset, *owner_cells(owner.owner))
        for p in topic.partitions
        for owner in p.owners
    ]
    if unsettled:
        show()
        show_table(("part>", "first>", "last>", *OWNER_COLUMNS), unsettled, empty="")
