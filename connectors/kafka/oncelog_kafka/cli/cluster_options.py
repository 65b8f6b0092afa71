"""The options by which the commands of ``oncelog kafka`` name the cluster and its ledger, and what they open."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from typing import Any

import click

from oncelog import metadata
from oncelog.cli.parameters import shared
from oncelog.cli.shell import Command, Group, Settings
from oncelog.ports import ZnodeStore
from oncelog_kafka.brokers import Brokers
from oncelog_kafka.ledger import ledger_store
from oncelog_kafka.options import admin_settings, sink_options
from oncelog_kafka.options.admin_settings import ADMIN, CONNECTION, CONNECTION_PREFIXES, KAFKA, JavaClient
from oncelog_kafka.options.sink_options import DEFAULT_LEDGER_TOPIC

BROKERS_VARIABLE = "ONCELOG_KAFKA_BROKERS"

_CLIENT = "oncelog_kafka.client"
"""The key in click's context for the client's settings: those for the tasks' client, and those for the driver's."""

_LEDGER_TOPIC = "oncelog_kafka.ledger.ledger_topic"
"""The key of the topic with the ledger."""


def _given(context: click.Context) -> tuple[dict[str, str], dict[str, str]]:
    client, admin = context.meta.setdefault(_CLIENT, ({}, {}))
    return client, admin


def _remember_brokers(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value:
        _given(context)[0]["bootstrap.servers"] = value


def _remember_settings(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> None:
    client, admin = _given(context)
    for setting in values:
        name, equals, value = setting.partition("=")
        if not equals:
            raise click.UsageError("--config takes a setting as NAME=VALUE, such as security.protocol=SSL")
        known = name.removeprefix(KAFKA)
        if name.startswith(ADMIN):
            admin[name.removeprefix(ADMIN)] = value
        elif known in CONNECTION or known.startswith(CONNECTION_PREFIXES):
            client[known] = value
        else:
            raise click.UsageError(
                f"this command does not use the setting {name!r}; give {ADMIN}<kafka-python's name>, "
                f"one of {', '.join(sorted(CONNECTION))}, or one that begins with "
                f"{' or '.join(CONNECTION_PREFIXES)}"
            )


def _remember_topic(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value:
        try:
            context.meta[_LEDGER_TOPIC] = sink_options.topic_name(value)
        except ValueError as problem:
            raise click.BadParameter(f"expected {problem}") from None


def _cluster_options() -> list[click.Parameter]:
    """The options that name the cluster and its ledger. The groups and each command have them, to be given anywhere."""
    return [
        shared("--brokers", _remember_brokers, metavar="HOST:PORT,...", help=f"The cluster. [env: {BROKERS_VARIABLE}]"),
        shared(
            "--config",
            _remember_settings,
            multiple=True,
            metavar="NAME=VALUE",
            help="A setting of the client, like the sink's options kafka.* and admin.*; may be repeated.",
        ),
        shared(
            "--ledger-topic",
            _remember_topic,
            metavar="TOPIC",
            help=f"Where the ledger is, without --znodes. [default: {DEFAULT_LEDGER_TOPIC}]",
        ),
    ]


class ClusterCommand(Command):
    """A command that also has the options of the cluster."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params = [*self.params, *_cluster_options()]


class ClusterGroup(Group):
    """A group of such commands."""

    command_class = ClusterCommand

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.params = [*self.params, *_cluster_options()]


def driver() -> ledger_store.Settings:
    """The settings of the client that asks the brokers."""
    client, admin = _given(click.get_current_context())
    return admin_settings.derive({**client, "bootstrap.servers": named_brokers()}, admin)


def named_brokers() -> str:
    """The brokers, as the user wrote them."""
    client, _ = _given(click.get_current_context())
    named = client.get("bootstrap.servers") or os.environ.get(BROKERS_VARIABLE, "")
    if not named:
        raise click.UsageError(f"Which cluster? Give --brokers, or set {BROKERS_VARIABLE}.")
    return named


def python_driver(remedy: str = "give a login that it can do") -> Mapping[str, Any]:
    """The same, for what only kafka-python can ask.

    Args:
        remedy: what the user may do otherwise.

    Raises:
        UsageError: these settings say a login that only Java's client can do.
    """
    found = driver()
    if isinstance(found, JavaClient):
        raise click.UsageError(
            f"this command asks the brokers through kafka-python, which cannot do what these settings say; {remedy}"
        )
    return found


def cluster() -> closing[Brokers]:
    """A connection to the cluster."""
    return closing(Brokers(driver()))


def ledger(settings: Settings) -> closing[ZnodeStore]:
    """Where the options say that the ledgers are."""
    return closing(ledger_opener(settings)())


def ledger_opener(settings: Settings, *, create: bool = False) -> Callable[[], ZnodeStore]:
    """The same, for any thread to open. With `create`, a missing store is created."""
    topic = named_ledger_topic()
    if topic and settings.znodes:
        raise click.UsageError("--znodes and --ledger-topic exclude each other; give one of them.")
    if topic is None and settings.znodes_uri is not None:
        return partial(metadata.open_metadata, settings.znodes_uri, create=create)
    return partial(ledger_store.open_ledger, driver(), topic or DEFAULT_LEDGER_TOPIC, create=create)


def known_ledger_opener(settings: Settings) -> Callable[[], ZnodeStore | None]:
    """The same; it opens None if the options name no place, and the cluster has no topic of the default name."""
    opener = ledger_opener(settings)
    is_named = settings.znodes_uri is not None or named_ledger_topic() is not None
    return opener if is_named else partial(opened_if_there, opener)


def opened_if_there(opener: Callable[[], ZnodeStore]) -> ZnodeStore | None:
    """A ledger in a topic; None if there is no such topic, as no sink has its ledger in the cluster."""
    try:
        return opener()
    except ledger_store.MissingTopicError:
        return None


def named_ledger_topic() -> str | None:
    """The topic that --ledger-topic names."""
    found: str | None = click.get_current_context().meta.get(_LEDGER_TOPIC)
    return found
