"""The page of `make demo WHAT=everywhere` needs nothing else, and tells what each store has."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from everywhere import moments, page
from kafka_flights.audit import Findings

EXACT, FAULTY = Findings(72_914, 0, 0, 0), Findings(72_914, 3, 4_321, 0)

STORES = ("a Kafka topic", "files on <HDFS>")


def render(ours: Findings = EXACT, theirs: Findings = FAULTY) -> str:
    return page.render(72_914, {"oncelog": dict.fromkeys(STORES, ours), "twin": dict.fromkeys(STORES, theirs)})


def test_the_page_is_well_formed_and_loads_nothing_from_elsewhere() -> None:
    html = render()

    ElementTree.fromstring(html.removeprefix("<!doctype html>\n"))
    assert not re.search(r"<(link|script|img|iframe|object|embed)\b|@import|url\(|\b(src|href)=|https?:", html)


def test_the_page_shows_every_store_of_both_queries() -> None:
    rows = re.findall(r"<tr>.*?</tr>", render())

    assert [row.count(">0<") for row in rows if "files on &lt;HDFS&gt;" in row] == [2, 0]
    assert [">3<" in row and ">4,321<" in row for row in rows if "a Kafka topic" in row] == [False, True]
    assert [str(point) in html for html in [render()] for point in moments.TOGETHER] == [True] * len(moments.TOGETHER)


def test_the_title_says_whether_oncelog_passed_and_does_not_depend_on_its_peer() -> None:
    assert "every row exactly once" in render(ours=EXACT, theirs=FAULTY)
    assert "every row exactly once" not in render(ours=FAULTY, theirs=EXACT)


def test_both_queries_die_as_often_and_each_kind_of_server_is_restarted() -> None:
    assert len(moments.TOGETHER) == len(moments.TWIN) == len(set(moments.TOGETHER)) == 10
    assert sorted(moments.RESTARTED.values()) == ["hdfs", "kafka", "postgres"]
