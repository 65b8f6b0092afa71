"""The report is one page that needs nothing else, and tells what was found."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from flights import chart, page
from flights.audit import Findings, Result
from flights.kills import KILLS
from flights.story import HalfBatch, KillStory, Sample, Sighting, Story

EXACT = Findings(expected=72_914, found=72_914, lost=0, duplicated=0, out_of_order=0, wrong=0, half_batches=0)
FAULTY = Findings(
    expected=72_914,
    found=72_900,
    lost=14,
    duplicated=4_321,
    out_of_order=3,
    wrong=2,
    half_batches=1,
    duplicated_by_batch={2: 4_000, 99: 321},
)


def story(name: str) -> Story:
    kills = tuple(
        KillStory(kill.moment, at_s=10.0 * number, batch=number, back_s=2.0, recovered_s=5.5)
        for number, kill in enumerate(KILLS, start=1)
    )
    return Story(
        pipeline=name,
        duration_s=90.0,
        transactions=40,
        aborted=8,
        looks=900,
        kills=kills,
        samples=tuple(Sample(float(second), second * 110, second * 100, second * 90) for second in range(90)),
        sightings=(Sighting(3.0, 0, 500), Sighting(20.0, 2, 250), Sighting(30.0, 2, 500, copies=250)),
        half_batches=(HalfBatch(20.0, 2, 250, 500),),
    )


def render(ours: Findings = EXACT, theirs: Findings = FAULTY) -> str:
    return page.render(336_776, [Result(story("oncelog"), ours), Result(story("parquet"), theirs)], {"the run": 90.0})


def drawings(html: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", html, re.DOTALL)]


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

    assert ">4,000<" in second
    assert second.count("5.5 s") == 2


def test_each_kill_and_each_batch_is_in_the_drawing() -> None:
    (drawing,) = drawings(chart.timeline(story("oncelog"), chart.extent([story("oncelog")])))
    kinds = [element.get("class") for element in drawing.iter()]

    assert kinds.count("kill-badge") == len(KILLS)
    assert kinds.count("recovery") == len(KILLS)
    assert (kinds.count("batch"), kinds.count("half"), kinds.count("copies")) == (1, 1, 1)


def test_nothing_is_drawn_outside_the_drawing() -> None:
    (drawing,) = drawings(chart.timeline(story("oncelog"), chart.extent([story("oncelog")])))
    xs = [float(element.get(name, 0)) for element in drawing.iter() for name in ("x", "x1", "x2", "cx")]
    ys = [float(element.get(name, 0)) for element in drawing.iter() for name in ("y", "y1", "y2", "cy")]

    assert 0 <= min(xs) <= max(xs) <= chart.WIDTH
    assert 0 <= min(ys) <= max(ys) <= chart.HEIGHT


def test_a_run_without_samples_kills_or_batches_can_be_drawn() -> None:
    nothing = Story("oncelog", 1.0, 0, 0, 0, kills=(), samples=(), sightings=(), half_batches=())

    assert len(drawings(chart.timeline(nothing, chart.extent([nothing])))) == 1


@pytest.mark.parametrize(
    ("largest", "most", "steps"),
    [(100, 4, [50, 100]), (99, 10, [10, 20, 30, 40, 50, 60, 70, 80, 90]), (7, 4, [2, 4, 6]), (1, 2, [0.5, 1.0])],
)
def test_steps_of_an_axis_are_round_and_few(largest: float, most: int, steps: list[float]) -> None:
    assert chart.round_steps(largest, most) == steps
