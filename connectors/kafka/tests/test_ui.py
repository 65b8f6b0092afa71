"""``oncelog kafka ui`` beside a real broker: what holds its readers back, and the command that ends it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from playwright.sync_api import expect

from planted_hangs import World, unguarded_broker, world_on
from tests.support.harness.browser import DESK, PHONE, accessibility_problems, cut_off, require_chromium, running
from tests.support.harness.waiting import until
from tests.support.log.shell import serving
from tests.support.log.ui import HOSTILE, HOSTILE_SHOWN, take_picture
from tests.support.servers.kafka import KafkaBroker, Transaction, fresh_name, running_broker, send

pytestmark = pytest.mark.slow

IN_TURN = pytest.mark.sampled("the page of oncelog kafka ui")


PATIENT: Mapping[str, Any] = {"transaction_timeout_ms": 600_000}
"""Of transactions that stay open while a busy machine starts a browser."""


class Looked:
    """The page of a cluster, as a program reads it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def page(self, wanted: str = "") -> Any:
        with urlopen(f"{self.url}snapshot.json?filter={quote(wanted)}") as answer:
            return json.load(answer)

    def rows(self, title: str, wanted: str) -> list[list[Any]]:
        return [row for table in self.page(wanted)["tables"] if table["title"] == title for row in table["rows"]]


@contextmanager
def looked_at(broker: KafkaBroker, *options: str) -> Iterator[Looked]:
    with serving("kafka", "--brokers", broker.address, "ui", "--listen", "127.0.0.1:0", *options) as (_, url):
        yield Looked(url)


def test_the_page_of_a_cluster_names_who_holds_a_partition_back_and_for_how_long(
    kafka: KafkaBroker, topic: str
) -> None:
    group = fresh_name("readers")
    Transaction(kafka).send(topic, "a", "b").stage(group, topic, 1).commit()
    open_one = Transaction(kafka, **PATIENT).send(topic, "held")
    with ExitStack() as stack:
        stack.callback(open_one.abort)
        looked = stack.enter_context(looked_at(kafka))

        (row,) = until(lambda: looked.rows("Transactions", topic))
        assert (row[0], row[1], row[4]) == (open_one.transactional_id, "open", f"{topic}-0")
        held, free = looked.rows("Partitions", topic)
        assert held[:4] == [f"{topic}-0", 3, 4, open_one.transactional_id]
        assert held[4] >= 0
        assert free == [f"{topic}-1", 0, 0, "", None]
        ((name, partitions, lag, lags),) = looked.rows("Groups", group)
        assert (name, partitions, lag, lags[0]) == (group, 1, 2, 2)  # to the last stable offset, behind a marker
        assert looked.page()["place"] == kafka.address


@IN_TURN
def test_only_named_topics_and_groups_are_read_beside_what_is_held(kafka: KafkaBroker, topic: str) -> None:
    other, groups = kafka.create_topic(fresh_name("other")), [fresh_name("readers"), fresh_name("readers")]
    for group in groups:
        Transaction(kafka).send(topic, "a").stage(group, topic, 1).commit()
    open_one = Transaction(kafka, **PATIENT).send(topic, "held", partition=1)
    with ExitStack() as stack:
        stack.callback(open_one.abort)
        looked = stack.enter_context(looked_at(kafka, "--topic", other, "--group", groups[0]))

        rows = until(lambda: looked.rows("Partitions", ""))
        assert {f"{topic}-1", f"{other}-0"} <= {row[0] for row in rows}
        assert f"{topic}-0" not in {row[0] for row in rows}
        assert [row[0] for row in looked.rows("Groups", "")] == groups[:1]


@pytest.fixture(scope="module")
def unguarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with unguarded_broker(tmp_path_factory.mktemp("kafka")) as unguarded, world_on(*unguarded) as found:
        yield found


@IN_TURN
def test_what_nobody_ends_is_a_trouble_until_its_command_was_run(unguarded: World) -> None:
    who = unguarded.leave_open("lost")
    send(unguarded.broker, unguarded.topic, "behind", partition=1)
    with looked_at(unguarded.broker) as looked:

        def troubles() -> list[Any]:
            return [one for one in looked.page()["troubles"] if unguarded.place in one["who"]]

        (trouble,) = until(troubles)
        assert trouble["who"] == f"{who.transactional_id} in {unguarded.place}"
        assert "left this partition's marker out" in trouble["what"]
        command = shlex.split(trouble["command"])
        assert command[:2] == ["oncelog", "kafka"]
        assert looked.rows("Partitions", unguarded.place)[0][1:4] == [0, 2, trouble["who"]]

        assert unguarded.ask(*command[2:], says="y\n").exit_code == 0

        until(lambda: not troubles())
        assert sorted(unguarded.values()) == ["behind", "lost", "seen"]


@IN_TURN
@pytest.mark.slow
def test_names_of_a_cluster_are_text_and_everybody_can_read_them(kafka: KafkaBroker, topic: str) -> None:
    """Of transactional ids and groups; brokers take no topic with such a name."""
    name, group = f"{HOSTILE}-{topic}-{'x' * 500}", f"{HOSTILE}-{topic}"
    send(kafka, topic, "a")
    kafka.commit_group_offset(group, topic, 0, offset=1)
    open_one = Transaction(kafka, name, **PATIENT).send(topic, "held")
    with ExitStack() as stack:
        stack.callback(open_one.abort)
        chromium = stack.enter_context(running(require_chromium()))
        looked = stack.enter_context(looked_at(kafka, "--topic", topic, "--group", group))
        for size, viewport in (("desk", DESK), ("phone", PHONE)):
            page = chromium.new_page(viewport=viewport, color_scheme="dark" if size == "phone" else "light")
            page.goto(looked.url)
            page.locator("#filter").fill(topic)
            for shown in (name, group):
                expect(page.locator("#tables")).to_contain_text(shown.replace(HOSTILE, HOSTILE_SHOWN), timeout=60_000)
            expect(page.locator("#table-Partitions + table")).to_contain_text("high watermark")
            take_picture(page, f"kafka-{size}")
            assert accessibility_problems(page) == ""
            assert cut_off(page) == []
            assert page.locator("img").count() == 0
            assert "owned" not in page.title()
            page.close()


@IN_TURN
def test_a_cluster_that_goes_away_is_said_and_read_again_when_it_is_back(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker, looked_at(broker) as looked:
        topic = broker.create_topic("flights")
        before = until(lambda: looked.rows("Partitions", topic))

        broker.stop()
        until(lambda: looked.page()["problem"])
        assert looked.rows("Partitions", topic) == before

        broker.start()
        until(lambda: looked.page()["problem"] is None)
        assert looked.rows("Partitions", topic) == before
