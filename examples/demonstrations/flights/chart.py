"""The timeline of one run, as an SVG drawing. Colours and fonts come from the page's style sheet, by class.

Three panels share the time: offsets of the topic, the lag, and the batches as a reader saw them. Kills go through all.
The drawing is as wide as its place on the page, and text and marks keep their size: times are percentages of the width,
all else is in pixels. Only the lines are stretched.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from flights.markup import tag, text
from flights.story import KillStory, Sample, Sighting, Story

KILLS_Y = 12
OFFSETS = (48, 188)
LAG = (226, 286)
BATCHES = (320, 374)
HALVES_Y, COPIES_Y, BATCHES_Y = 324, 340, 360
TIMES_Y = 394
HEIGHT = 400
"""Places in the drawing, from its top; a panel is its (top, bottom)."""

STRETCHED = 1000
"""The width in which lines are drawn before they are stretched."""

KILL_RADIUS = 10
BATCH_RADIUS = (3.0, 9.0)
CROSS_ARM = 5
HALF_RADIUS = 7

Scale = Callable[[float], float]


@dataclass(frozen=True, slots=True)
class Extent:
    """How far the axes go: the same for both runs, so that their drawings can be compared."""

    seconds: float
    offsets: int
    lag: int
    batch_rows: int


def extent(stories: Iterable[Story]) -> Extent:
    """The axes that all stories fit into."""
    known = list(stories)
    samples = [sample for story in known for sample in story.samples]
    return Extent(
        seconds=max((story.duration_s for story in known), default=1.0),
        offsets=max((sample.log_end for sample in samples), default=1),
        lag=max((sample.lag for sample in samples), default=0) or 1,
        batch_rows=max((sighting.rows for story in known for sighting in story.sightings), default=1),
    )


def timeline(story: Story, axes: Extent) -> str:
    """The drawing of one run."""
    x = _scale(axes.seconds, 0, 100)
    parts = [
        *_recoveries(story.kills, x),
        *_panel("offsets", axes.offsets, OFFSETS),
        *_panel("lag", axes.lag, LAG),
        *_times(axes.seconds, x),
        _lines(story.samples, axes),
        *_kills(story.kills, x),
        *_hovers(story.samples, x),
        *_batches(story, x, axes.batch_rows),
    ]
    return tag("svg", *parts, class_="timeline", height=HEIGHT, role="img", aria_label=_in_words(story))


def _in_words(story: Story) -> str:
    """What the drawing shows, for those who do not see it."""
    times = ", ".join(f"{kill.at_s:.0f}" for kill in story.kills)
    with_copies = sum(sighting.copies > 0 for sighting in story.sightings)
    return (
        f"Timeline of {story.pipeline} over {story.duration_s:.0f} seconds, with {len(story.kills)} kills, at seconds "
        f"{times}. The lag grows after each kill until there is a new batch, to {_most_lag(story):,} offsets at most. "
        f"A reader saw batches {len(story.sightings)} times, {with_copies} of them with copies of rows that were there "
        f"already, and {len(story.half_batches)} half batches."
    )


def _most_lag(story: Story) -> int:
    return max((sample.lag for sample in story.samples), default=0)


# Axes -----------------------------------------------------------------------------------------------------------------


def round_steps(largest: float, most: int) -> list[float]:
    """At most `most` round numbers above 0 and up to `largest`, evenly apart."""
    rough = largest / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [step * count for count in range(1, math.floor(largest / step) + 1)]


def _scale(largest: float, start: float, end: float) -> Scale:
    return lambda value: round(start + (end - start) * value / largest, 2)


def _panel(name: str, largest: int, panel: tuple[int, int]) -> Iterable[str]:
    top, bottom = panel
    y = _scale(largest, bottom, top)
    yield tag("text", text(name), class_="name", y=top - 10)
    for value in (0.0, *round_steps(largest, 4 if bottom - top > 100 else 2)):
        yield tag("line", class_="grid" if value else "axis", x2="100%", y1=y(value), y2=y(value))
        yield tag("text", _short(value), class_="tick", x=-8, y=y(value) + 4, text_anchor="end")


def _short(value: float) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def _times(seconds: float, x: Scale) -> Iterable[str]:
    for value in (0.0, *round_steps(seconds, 6)):
        yield tag("text", f"{value:g} s", class_="tick", x=f"{x(value)}%", y=TIMES_Y, text_anchor="middle")


# Series ---------------------------------------------------------------------------------------------------------------


def _lines(samples: Sequence[Sample], axes: Extent) -> str:
    """The lines of both panels, over the whole width."""
    x = _scale(axes.seconds, 0, STRETCHED)
    offset_y, lag_y = _scale(axes.offsets, OFFSETS[1], OFFSETS[0]), _scale(axes.lag, LAG[1], LAG[0])
    stable = [f"{x(sample.at_s)},{offset_y(sample.lso)}" for sample in samples]
    read = [f"{x(sample.at_s)},{offset_y(sample.position)}" for sample in samples]
    lag = [f"{x(sample.at_s)},{lag_y(sample.lag)}" for sample in samples]
    foot = [f"{x(sample.at_s)},{lag_y(0)}" for sample in (*samples[-1:], *samples[:1])]
    return tag(
        "svg",
        tag("polygon", class_="gap", points=" ".join([*stable, *reversed(read)])),
        tag("polyline", class_="line stable", points=" ".join(stable)),
        tag("polyline", class_="line read", points=" ".join(read)),
        tag("polygon", class_="gap", points=" ".join([*lag, *foot])),
        tag("polyline", class_="line lag", points=" ".join(lag)),
        viewBox=f"0 0 {STRETCHED} {HEIGHT}",
        preserveAspectRatio="none",
        width="100%",
        height=HEIGHT,
    )


def _hovers(samples: Sequence[Sample], x: Scale) -> Iterable[str]:
    """One invisible column per sample, whose tooltip has the numbers."""
    for sample, following in pairwise(samples):
        numbers = (
            f"{sample.at_s:.0f} s: last stable offset {sample.lso:,}, read by the query {sample.position:,}, "
            f"lag {sample.lag:,}, undecided {sample.log_end - sample.lso:,}"
        )
        yield _column("hover", x(sample.at_s), x(following.at_s), LAG[1], tag("title", numbers))


def _column(kind: str, left: float, right: float, bottom: float, *content: str) -> str:
    size = {"width": f"{right - left:.2f}%", "height": bottom - OFFSETS[0]}
    return tag("rect", *content, class_=kind, x=f"{left}%", y=OFFSETS[0], **size)


# Kills and batches ----------------------------------------------------------------------------------------------------


def _recoveries(kills: Iterable[KillStory], x: Scale) -> Iterable[str]:
    for story in kills:
        yield _column("recovery", x(story.at_s), x(story.at_s + story.recovered_s), BATCHES[1])


def _kills(kills: Iterable[KillStory], x: Scale) -> Iterable[str]:
    for number, story in enumerate(kills, start=1):
        at = f"{x(story.at_s)}%"
        what = (
            f"kill {number} at {story.at_s:.1f} s: {story.kill}, batch {story.batch}; "
            f"a new batch {story.recovered_s:.1f} s later"
        )
        yield tag("line", class_="kill", x1=at, x2=at, y1=KILLS_Y + KILL_RADIUS, y2=BATCHES[1])
        yield tag(
            "g",
            tag("circle", class_="kill-badge", cx=at, cy=KILLS_Y, r=KILL_RADIUS),
            tag("text", str(number), class_="kill-number", x=at, y=KILLS_Y + 4.5, text_anchor="middle"),
            tag("title", text(what)),
        )


def _batches(story: Story, x: Scale, most_rows: int) -> Iterable[str]:
    halves = {half.batch for half in story.half_batches}
    smallest, largest = BATCH_RADIUS
    yield tag("text", "batches", class_="name", y=BATCHES[0] - 4)
    yield tag("line", class_="axis", x2="100%", y1=BATCHES_Y, y2=BATCHES_Y)
    for sighting in story.sightings:
        radius = round(smallest + (largest - smallest) * math.sqrt(sighting.rows / most_rows), 1)
        y, mark, what = _batch(sighting, radius, is_half=sighting.batch in halves)
        yield tag("svg", mark, tag("title", what), x=f"{x(sighting.at_s)}%", y=y)


def _batch(sighting: Sighting, radius: float, *, is_half: bool) -> tuple[int, str, str]:
    """The height of a batch, its mark around the point 0, 0, and what it says. Faults have rows of their own."""
    what = f"{sighting.at_s:.1f} s: batch {sighting.batch}, {sighting.rows:,} rows"
    if sighting.copies:
        target = tag("circle", class_="hover", r=CROSS_ARM + 3)
        return COPIES_Y, cross(0, 0) + target, f"{what}, {sighting.copies:,} of them copies"
    if is_half:
        return HALVES_Y, half(0, 0), f"{what}: half a batch"
    return BATCHES_Y, tag("circle", class_="batch", r=radius), what


def cross(x: int, y: int) -> str:
    """The mark of copies."""
    arms = f"M{x - CROSS_ARM} {y - CROSS_ARM}l{2 * CROSS_ARM} {2 * CROSS_ARM}m0 {-2 * CROSS_ARM}"
    return tag("path", class_="copies", d=f"{arms}l{-2 * CROSS_ARM} {2 * CROSS_ARM}")


def half(x: int, y: int) -> str:
    """The mark of half a batch."""
    arc = f"A{HALF_RADIUS} {HALF_RADIUS} 0 0 0 {x} {y + HALF_RADIUS}"
    return tag("path", class_="half", d=f"M{x} {y - HALF_RADIUS}{arc}Z")
