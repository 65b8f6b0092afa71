"""The page of `make run` as Chromium shows it: on a desk, a phone and paper, light and dark, by mouse and by keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, ViewportSize

from flights.kills import KILLS
from tests.support.docs import picture
from tests.support.flights import EXACT, FAULTY, render
from tests.support.harness.browser import DESK, PHONE, accessibility_problems, cut_off, require_chromium, running

pytestmark = [pytest.mark.slow, pytest.mark.sampled("pages in a browser")]

Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")

CONTRASTS = {".name": 4.5, ".tick": 4.5, ".kill-badge": 3, ".batch": 3, ".half": 3, ".copies": 3} | {
    ".stable": 3, ".read": 3, ".lag": 3
}  # fmt: skip
"""What a drawing tells by, with its least contrast to the card: level AA of WCAG. axe does not look into drawings."""

CONTRAST = """(selector) => {
    const luminance = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map((part) => part / 255)
        .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, index) => sum + part * [0.2126, 0.7152, 0.0722][index], 0);
    const mark = document.querySelector(`.inexact .timeline ${selector}`), style = getComputedStyle(mark);
    const card = getComputedStyle(mark.closest(".card")).backgroundColor;
    const [low, high] = [style.fill === "none" ? style.stroke : style.fill, card].map(luminance).sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
}"""

FONT_SIZES = """() => [...document.querySelectorAll("body *")]
    .filter((element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
    .filter((element) => element.tagName !== "title")
    .map((element) => [element.closest("svg") ? "drawing" : "page", parseFloat(getComputedStyle(element).fontSize)])"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with running(require_chromium()) as browser:
        yield browser


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("report") / "flights.html"
    path.write_text(render(), encoding="utf-8")
    return path


@pytest.fixture
def show(chromium: Browser, report: Path) -> Iterator[Callable[..., Page]]:
    shown: list[Page] = []

    def show(viewport: ViewportSize = DESK, scheme: Scheme = "light") -> Page:
        shown.append(chromium.new_page(viewport=viewport, color_scheme=scheme))
        shown[-1].goto(report.as_uri())
        return shown[-1]

    yield show
    for page in shown:
        page.close()


def unfold(page: Page) -> None:
    for summary in page.locator("summary").all():
        summary.click()


def colour(page: Page, selector: str, name: str = "backgroundColor") -> str:
    return str(page.locator(selector).first.evaluate("(element, name) => getComputedStyle(element)[name]", name))


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("viewport", [PHONE, DESK], ids=["phone", "desk"])
def test_axe_finds_nothing_that_shuts_a_reader_out(
    show: Callable[..., Page], viewport: ViewportSize, scheme: Scheme
) -> None:
    page = show(viewport, scheme)
    unfold(page)

    assert accessibility_problems(page) == ""


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_drawing_stands_out_from_its_card(show: Callable[..., Page], scheme: Scheme) -> None:
    page = show(DESK, scheme)

    faint = {mark: found for mark, least in CONTRASTS.items() if (found := page.evaluate(CONTRAST, mark)) < least}

    assert faint == {}


def test_light_and_dark_follow_the_reader(show: Callable[..., Page]) -> None:
    light, dark = show(DESK, "light"), show(DESK, "dark")

    for selector, name in (("body", "backgroundColor"), (".card", "backgroundColor"), (".timeline .name", "fill")):
        assert colour(light, selector, name) != colour(dark, selector, name)


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_nothing_scrolls_sideways(show: Callable[..., Page], width: int) -> None:
    page = show(ViewportSize(width=width, height=800))
    unfold(page)

    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert cut_off(page) == []


def test_a_phone_shows_text_that_can_be_read_and_targets_that_a_thumb_hits(show: Callable[..., Page]) -> None:
    page = show(PHONE)
    heights = [box["height"] for summary in page.locator("summary").all() if (box := summary.bounding_box())]
    unfold(page)
    sizes: list[tuple[str, float]] = page.evaluate(FONT_SIZES)

    assert min(heights) >= 44
    assert min(size for where, size in sizes if where == "page") >= 13
    assert min(size for where, size in sizes if where == "drawing") >= 12


def test_the_verdicts_and_all_kills_are_on_the_first_screen_of_a_desk(show: Callable[..., Page]) -> None:
    page = show(DESK)
    seen = [*page.locator(".verdict").all(), *page.locator(".figures dd").all(), *page.locator(".kill-badge").all()]

    bottoms = [box["y"] + box["height"] for mark in seen if (box := mark.bounding_box())]

    assert len(bottoms) == 2 + 2 * 5 + 2 * len(KILLS) + 2
    assert max(bottoms) <= DESK["height"]


def test_the_page_asks_nobody_for_anything(chromium: Browser, report: Path) -> None:
    with chromium.new_page() as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(report.as_uri(), wait_until="load")

    assert asked == [report.as_uri()]


def test_paper_is_light_and_cuts_no_drawing(show: Callable[..., Page]) -> None:
    page = show(ViewportSize(width=680, height=1000), "dark")  # A4 between its margins
    page.emulate_media(media="print")

    assert colour(page, "body") == colour(page, ".card") == "rgb(255, 255, 255)"
    assert [colour(page, selector, "breakInside") for selector in (".card", ".kills tr")] == ["avoid", "avoid"]
    assert not page.locator(".samples").is_visible(), "what is folded prints nothing"
    assert cut_off(page) == []


def test_keys_reach_all_that_can_be_unfolded_and_show_where_they_are(show: Callable[..., Page]) -> None:
    page = show()
    reached = []
    for _ in range(2):
        page.keyboard.press("Tab")
        focused = page.locator(":focus")
        reached.append((focused.inner_text(), colour(page, ":focus", "outlineStyle")))
        page.keyboard.press("Enter")

    assert reached == [("oncelog", "solid"), ("parquet", "solid")]
    assert [table.is_visible() for table in page.locator("details table").all()] == [True, True]


def test_a_pointer_at_a_second_marks_it_and_at_a_kill_finds_its_numbers(show: Callable[..., Page]) -> None:
    page = show()
    first = ".timeline .hover"
    before = colour(page, first, "fill")
    page.locator(first).first.hover()

    assert colour(page, first, "fill") != before
    for number, badge in enumerate(page.locator(".exact g:has(> .kill-badge)").all(), start=1):
        badge.hover()
        assert f"kill {number} at" in (badge.locator("title").text_content() or "")


@pytest.mark.parametrize("viewport", [PHONE, DESK], ids=["phone", "desk"])
def test_the_kills_are_a_table_to_those_who_hear_them(show: Callable[..., Page], viewport: ViewportSize) -> None:
    page = show(viewport)

    kills = page.get_by_role("table").filter(has=page.get_by_role("rowheader"))

    assert kills.get_by_role("rowheader").count() == len(KILLS)
    assert kills.get_by_role("cell").count() == 2 * len(KILLS)
    assert page.get_by_role("img", name="Timeline of").count() == 2


def test_headings_go_down_one_level_at_a_time(show: Callable[..., Page]) -> None:
    levels = [heading.evaluate("heading => heading.tagName") for heading in show().get_by_role("heading").all()]

    assert levels == ["H1", "H2", "H2", "H2", "H2", "H2"]


PICTURE = '<img alt="%s" src="docs/images/make-run-light.webp">'


def test_the_picture_in_the_readme_is_of_the_page_and_says_in_words_what_it_shows(
    chromium: Browser, report: Path, tmp_path: Path
) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(PICTURE % "")

    picture.take(chromium, report, tmp_path, readme)

    light, dark = ((tmp_path / f"make-run-{scheme}.webp").read_bytes() for scheme in SCHEMES)
    assert light != dark
    assert light[8:12] == dark[8:12] == b"WEBP"
    assert light[24:30] == dark[24:30], "both are as large as each other"
    assert readme.read_text() == PICTURE % (
        "Killed 7 times, every row exactly once. "
        "oncelog: lost 0, duplicated 0, half batches 0, out of order 0, wrong 0. "
        "parquet: lost 14, duplicated 4,321, half batches 1, out of order 3, wrong 2. "
        "Below, the timeline of each: offsets, lag, batches and kills."
    )


def test_a_failed_run_is_no_picture_for_the_readme(chromium: Browser, tmp_path: Path) -> None:
    report = tmp_path / "flights.html"
    report.write_text(render(ours=FAULTY, theirs=EXACT), encoding="utf-8")

    with pytest.raises(SystemExit, match="says that oncelog failed"):
        picture.take(chromium, report, tmp_path, tmp_path / "README.md")
