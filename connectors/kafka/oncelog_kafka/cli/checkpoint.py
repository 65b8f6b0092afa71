"""``oncelog kafka checkpoint``: the commands of ``oncelog checkpoint``, for queries that read or write Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Any

import click

from oncelog import runtime
from oncelog.checkpoints.places import LogPlace, Place
from oncelog.checkpoints.positions import SourceKind
from oncelog.cli.checkpoint import (
    PREFIX,
    TO_PATH,
    TO_ZNODES,
    TOPICS,
    Opened,
    Surroundings,
    add_commands,
    move_checkpoint,
    of_log,
)
from oncelog.cli.shell import Settings
from oncelog.ports import ZnodeStore
from oncelog_kafka.brokers.topics import KafkaTopics
from oncelog_kafka.cli import cluster_options
from oncelog_kafka.cli.cluster_options import ClusterGroup, named_ledger_topic
from oncelog_kafka.ledger import ledger_store
from oncelog_kafka.options.sink_options import DEFAULT_LEDGER_TOPIC


@contextmanager
def _of_cluster(settings: Settings) -> Iterator[Surroundings]:
    """The cluster and its ledgers; with --path also a log, whose metadata is in its folder."""
    driver = cluster_options.python_driver()
    with ExitStack() as stack:
        places = _places(stack, driver)
        stores = _ledgers(stack, cluster_options.known_ledger_opener(settings)())
        if settings.named_place is not None:
            log = stack.enter_context(runtime.open(settings.named_place, create=False))
            places[SourceKind.LOG] = LogPlace(log)
            stores.append(log.services.store)
        yield Surroundings(places, stores)


def _places(stack: ExitStack, driver: Mapping[str, Any]) -> dict[SourceKind, Place]:
    topics = stack.enter_context(closing(KafkaTopics(driver)))
    return {SourceKind.KAFKA: topics, SourceKind.SPARKS_KAFKA: topics}


def _ledgers(stack: ExitStack, opened: ZnodeStore | None) -> list[ZnodeStore]:
    """The place of the ledgers, if there is one."""
    return [] if opened is None else [stack.enter_context(closing(opened))]


@contextmanager
def _there(settings: Settings, log: Opened, to_brokers: str | None) -> Iterator[Surroundings]:
    """Another log or another cluster, with the ledgers in it."""
    with ExitStack() as stack:
        opened = stack.enter_context(log)
        if to_brokers is None:
            yield opened
            return
        driver = {**cluster_options.python_driver(), "bootstrap_servers": to_brokers.split(",")}
        places = _places(stack, driver)
        topic = named_ledger_topic()
        is_elsewhere = topic is None and settings.znodes_uri is not None
        opener = partial(ledger_store.open_ledger, driver, topic or DEFAULT_LEDGER_TOPIC, create=False)
        stores = _ledgers(stack, None if is_elsewhere else cluster_options.opened_if_there(opener))
        yield Surroundings({**opened.places, **places}, [*opened.stores, *stores])


@click.group(cls=ClusterGroup, example="oncelog kafka checkpoint show /data/ck/delayed --brokers h1:9092")
def checkpoint() -> None:
    """Checkpoints of queries that read or write Kafka.

    They are compared with the cluster and with the ledgers in it, or where --znodes says; with --path also with a log.
    Checkpoints of Spark's own Kafka source are read too. See also `oncelog checkpoint`.
    """


@checkpoint.command(example="oncelog kafka checkpoint move /ck/delayed /ck/delayed-2 --topic flights=new")
@click.argument("directory", metavar="DIR")
@click.argument("new_directory", metavar="NEW_DIR")
@TOPICS
@TO_PATH
@TO_ZNODES
@click.option(
    "--to-brokers", metavar="HOST:PORT,...", help="Another cluster with the same records at the same offsets."
)
@PREFIX
@click.pass_obj
def move(
    settings: Settings,
    directory: str,
    new_directory: str,
    topics: Sequence[tuple[str, str]],
    to_path: str | None,
    to_znodes: str | None,
    to_brokers: str | None,
    prefix: str | None,
) -> None:
    """Write a copy of a checkpoint, for another place.

    With --topic, --to-path or --to-brokers the offsets are kept, and are for topics of other names, for another log, or
    for another cluster. Stop the query first, and start it only from NEW_DIR afterwards.
    """
    with _of_cluster(settings) as around, _there(settings, of_log(to_path, to_znodes), to_brokers) as there:
        move_checkpoint(settings, (directory, new_directory), topics, around, there, prefix)


add_commands(checkpoint, "oncelog kafka checkpoint", _of_cluster)
