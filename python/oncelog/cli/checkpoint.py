"""``oncelog checkpoint``: what the checkpoint of a streaming query says, whether it fits, and new ones made of it.

The commands are made by `commands`, for this group and for connectors' groups of the same name, whose sources read
elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import click

from oncelog import metadata, runtime
from oncelog.checkpoints import checking, folder, moving, rebasing
from oncelog.checkpoints.checking import Places
from oncelog.checkpoints.folder import Checkpoint
from oncelog.checkpoints.places import LogPlace, TopicExtent
from oncelog.checkpoints.positions import SourceKind
from oncelog.checkpoints.standing import SinkLedger, ledgers_of
from oncelog.checkpoints.storage import storage_of
from oncelog.cli.checkpoint_output import show_checkpoint, show_findings, show_new
from oncelog.cli.shell import ExitCode, Group, Settings
from oncelog.ports import ZnodeStore


@dataclass(frozen=True)
class Surroundings:
    """What a checkpoint is compared with: what its sources read, and where its sinks' ledgers are."""

    places: Places = field(default_factory=dict)
    stores: Sequence[ZnodeStore] = ()

    def ledgers(self, checkpoint: Checkpoint, prefix: str | None) -> list[SinkLedger]:
        """The ledgers of the checkpoint's query."""
        return ledgers_of(self.stores, checkpoint.query_id, prefix)


Opened = AbstractContextManager[Surroundings]


@contextmanager
def of_settings(settings: Settings) -> Iterator[Surroundings]:
    """The log and the ledgers that the shared options name, if they do."""
    with ExitStack() as stack:
        if settings.named_place is not None:
            log = stack.enter_context(settings.open())
            yield Surroundings({SourceKind.LOG: LogPlace(log)}, [log.services.store])
        elif settings.znodes_uri is not None:
            opened = metadata.open_metadata(settings.znodes_uri, create=False)
            yield Surroundings(stores=[stack.enter_context(closing(opened))])
        else:
            yield Surroundings()


@contextmanager
def of_log(path: str | None, znodes: str | None) -> Iterator[Surroundings]:
    """Another log, with the ledgers in it."""
    if path is None:
        yield Surroundings()
        return
    with runtime.open(path, znodes, create=False) as log:
        yield Surroundings({SourceKind.LOG: LogPlace(log)}, [log.services.store])


class Renamed(click.ParamType[tuple[str, str]]):
    """A topic's former and new name: ``flights=flights-2``."""

    name = "old=new"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        old, _, new = str(value).partition("=")
        if not old or not new:
            self.fail(f"{value!r} is not a change of name; write it like flights=flights-2", param, ctx)
        return old, new


Starts = Callable[[TopicExtent], Mapping[int, int]]


class Beginning(click.ParamType[Starts]):
    """Where to begin in a topic: ``earliest``, ``latest``, or ``0=42,1=7``."""

    name = "earliest|latest|offsets"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Starts:
        if callable(value):
            return value  # type: ignore[no-any-return]
        if value == "earliest":
            return lambda topic: {number: extent.start for number, extent in topic.partitions.items()}
        if value == "latest":
            return lambda topic: {number: extent.stable for number, extent in topic.partitions.items()}
        found = [re.fullmatch("([0-9]{1,9})=([0-9]{1,19})", one) for one in str(value).split(",")]
        if not all(found):
            self.fail(f"{value!r} is not a beginning; write earliest, latest, or 0=42,1=7", param, ctx)
        offsets = {int(one[1]): int(one[2]) for one in found if one}
        return lambda topic: offsets


PREFIX = click.option("--prefix", help="Only the ledger of the sink with this prefix.")
TOPICS = click.option(
    "--topic", "topics", type=Renamed(), multiple=True, help="A topic that was renamed, as OLD=NEW; may be repeated."
)
TO_ZNODES = click.option("--to-znodes", metavar="URI", help="Its metadata; by default a SQLite file in the folder.")
TO_PATH = click.option("--to-path", metavar="DIR", help="Another log with the same records at the same offsets.")


@click.group(cls=Group, example="oncelog checkpoint show /data/checkpoints/delayed")
def checkpoint() -> None:
    """Checkpoints of streaming queries.

    With --path they are compared with a log and with the ledgers in it, with --znodes alone with the ledgers there.
    Spark is not needed, and no checkpoint is ever changed: `move` and `rebase` write a new one. DIR is a folder of this
    machine, or one in a bucket: s3a://bucket/checkpoints/delayed, with ?endpoint=https://host:9000 if it is not on AWS.

    For queries that read or write Kafka see `oncelog kafka checkpoint`.
    """


def add_commands(group: click.Group, program: str, surroundings: Callable[[Settings], Opened]) -> None:
    """Add `show`, `verify` and `rebase` to a group.

    Args:
        program: the words that call the group, for the examples.
        surroundings: opens what the options name.
    """
    _add_show(group, program, surroundings)
    _add_verify(group, program, surroundings)
    _add_rebase(group, program, surroundings)


def _add_show(group: click.Group, program: str, surroundings: Callable[[Settings], Opened]) -> None:
    @group.command("show", example=f"{program} show /data/checkpoints/delayed")
    @click.argument("directory", metavar="DIR")
    @PREFIX
    @click.pass_obj
    def show_one(settings: Settings, directory: str, prefix: str | None) -> None:
        """Show what a checkpoint says.

        Shows the query, its newest batches, where its sources stand, and what the sinks' ledgers know of the batch with
        which a restart begins.
        """
        found = folder.read(directory)
        with surroundings(settings) as around:
            show_checkpoint(settings, found, around.ledgers(found, prefix))


def _add_verify(group: click.Group, program: str, surroundings: Callable[[Settings], Opened]) -> None:
    @group.command("verify", example=f"{program} verify /data/checkpoints/delayed")
    @click.argument("directory", metavar="DIR")
    @PREFIX
    @click.pass_obj
    def verify(settings: Settings, directory: str, prefix: str | None) -> ExitCode:
        """Check that a checkpoint is complete and matches log and ledgers.

        Compares it with the topics that the query reads, and with the ledgers of its sinks. For each mismatch it shows
        what a restart would do, and how to fix it. Exit code 1 if anything does not match.
        """
        found = folder.read(directory)
        with surroundings(settings) as around:
            ledgers = around.ledgers(found, prefix)
            findings = checking.check(found, around.places, ledgers)
            show_findings(settings, found, findings, ledgers, around.places)
        return ExitCode.PROBLEM if findings else ExitCode.OK


def _add_rebase(group: click.Group, program: str, surroundings: Callable[[Settings], Opened]) -> None:
    @group.command("rebase", example=f"{program} rebase /ck/delayed /ck/delayed-2 --topic flights")
    @click.argument("directory", metavar="DIR")
    @click.argument("new_directory", metavar="NEW_DIR")
    @click.option("--topic", required=True, help="The topic that was deleted and created again.")
    @click.option(
        "--to",
        type=Beginning(),
        default="earliest",
        show_default=True,
        help="Where to begin in it: earliest, latest, or an offset for each partition, like 0=42,1=7.",
    )
    @click.option(
        "--accept-loss",
        is_flag=True,
        help="Drop a planned batch that was not decided, with its rows of the topic that is gone.",
    )
    @PREFIX
    @click.pass_obj
    def rebase(
        settings: Settings,
        directory: str,
        new_directory: str,
        topic: str,
        to: Starts,
        accept_loss: bool,
        prefix: str | None,
    ) -> None:
        """Write a checkpoint for a topic that was created again.

        The next batch of the query begins in the new topic. Stop the query first, and start it only from NEW_DIR
        afterwards.
        """
        found = folder.read(directory)
        with surroundings(settings) as around:
            done = rebasing.rebase(
                found,
                storage_of(new_directory),
                topic,
                to,
                places=around.places,
                ledgers=around.ledgers(found, prefix),
                accept_loss=accept_loss,
            )
        show_new(settings, found, done)


def move_checkpoint(
    settings: Settings,
    words: tuple[str, str],
    topics: Sequence[tuple[str, str]],
    around: Surroundings,
    there: Surroundings,
    prefix: str | None,
) -> None:
    """Run the command ``move``, from one folder to another."""
    found = folder.read(words[0])
    done = moving.move(
        found,
        storage_of(words[1]),
        topics=dict(topics),
        places=around.places,
        elsewhere=there.places,
        ledgers=around.ledgers(found, prefix),
        ledgers_there=there.ledgers(found, prefix),
    )
    show_new(settings, found, done)


@checkpoint.command(example="oncelog checkpoint move /data/ck/delayed /new/ck/delayed --to-path /new/log")
@click.argument("directory", metavar="DIR")
@click.argument("new_directory", metavar="NEW_DIR")
@TOPICS
@TO_PATH
@TO_ZNODES
@PREFIX
@click.pass_obj
def move(
    settings: Settings,
    directory: str,
    new_directory: str,
    topics: Sequence[tuple[str, str]],
    to_path: str | None,
    to_znodes: str | None,
    prefix: str | None,
) -> None:
    """Write a copy of a checkpoint, for another place.

    With --topic or --to-path the offsets are kept, and are for topics of other names, or for another log. Stop the
    query first, and start it only from NEW_DIR afterwards.
    """
    with of_settings(settings) as around, of_log(to_path, to_znodes) as there:
        move_checkpoint(settings, (directory, new_directory), topics, around, there, prefix)


add_commands(checkpoint, "oncelog checkpoint", of_settings)
