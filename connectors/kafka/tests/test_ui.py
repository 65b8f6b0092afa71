"""``oncelog kafka ui`` beside a real broker: what holds its readers back."""

from __future__ import annotations

import json
from contextlib import ExitStack
from urllib.request import urlopen

import pytest

from tests.support.harness.waiting import until
from tests.support.log.shell import serving
from tests.support.servers.kafka import KafkaBroker, Transaction


@pytest.mark.programs
def test_the_page_of_a_cluster_names_who_holds_a_topic_back(kafka: KafkaBroker, topic: str) -> None:
    open_one = Transaction(kafka).send(topic, "held")
    with ExitStack() as stack:
        stack.callback(open_one.abort)
        _, url = stack.enter_context(serving("kafka", "--brokers", kafka.address, "ui", "--listen", "127.0.0.1:0"))

        def holding() -> list[list[object]]:
            with urlopen(f"{url}snapshot.json?filter={topic}") as answer:
                page = json.load(answer)
            assert page["place"] == kafka.address
            return [row for table in page["tables"] if table["title"] == "Transactions" for row in table["rows"]]

        (row,) = until(holding)
        assert (row[1], row[4]) == ("open", f"{topic}-0")
