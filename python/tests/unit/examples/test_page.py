"""The report is one page that needs nothing else, and tells what was found."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from flights import chart
from flights.kills import KILLS
from flights.story import Story
from tests.support.flights import EXACT, FAULTY, render, story


def drawing(of: Story) -> ElementTree.Element:
    return ElementTree.fromstring(chart.timeline(of, chart.extent([of])))


def test_the_page_loads_nothing_from_elsewhere() -> None:
    html = render()

    assert not re.search(r"<(link|script|img|iframe|object|embed)\b|@import|url\(|\b(src|href)=|https?:", html)


def test_the_page_is_well_formed() -> None:
    html = render()

    ElementTree.fromstring(html.removeprefix("<!doctype html>\n"))


def test_the_page_shows_every_finding_of_both() -> None:
    html = render()

    for number in ("336,776", "72,914", "72,900", ">14<", ">4,321<", ">3<", ">2<"):
        assert number in html


def test_the_title_says_whether_oncelog_passed_and_does_not_depend_on_its_peer() -> None:
    assert "every row exactly once" in render(ours=EXACT, theirs=FAULTY)
    assert "every row exactly once" not in render(ours=FAULTY, theirs=EXACT)


def test_a_kill_is_told_with_its_copies() -> None:
    rows = re.findall(r"<tr>.*?</tr>", render())
    second = next(row for row in rows if f">{KILLS[1].moment}<" in row)

    assert ">0 copies<" in second
    assert ">4,000 copies<" in second
    assert second.count("5.5 s") == 2


def test_each_kill_and_each_batch_is_in_the_drawing() -> None:
    kinds = [element.get("class") for element in drawing(story("oncelog")).iter()]

    assert kinds.count("kill-badge") == len(KILLS)
    assert kinds.count("recovery") == len(KILLS)
    assert (kinds.count("batch"), kinds.count("half"), kinds.count("copies")) == (1, 1, 1)


def test_the_drawing_says_in_words_what_it_shows() -> None:
    words = drawing(story("oncelog")).get("aria-label") or ""

    assert "oncelog over 90 seconds, with 7 kills, at seconds 10, 20, 30, 40, 50, 60, 70." in words
    assert "to 870 offsets at most" in words
    assert "3 times, 1 of them with copies" in words
    assert "1 half batches" in words


def test_a_run_without_samples_kills_or_batches_can_be_drawn() -> None:
    nothing = Story("oncelog", 1.0, 0, 0, 0, kills=(), samples=(), sightings=(), half_batches=())

    assert drawing(nothing).tag == "svg"


@pytest.mark.parametrize(
    ("largest", "most", "steps"),
    [(100, 4, [50, 100]), (99, 10, [10, 20, 30, 40, 50, 60, 70, 80, 90]), (7, 4, [2, 4, 6]), (1, 2, [0.5, 1.0])],
)
def test_steps_of_an_axis_are_round_and_few(largest: float, most: int, steps: list[float]) -> None:
    assert chart.round_steps(largest, most) == steps
