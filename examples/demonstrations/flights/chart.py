"""The timeline of one run, as an SVG drawing. Colours and fonts come from the page's style sheet, by class.

Three panels share the time: offsets of the topic, the lag, and the batches as a reader saw them. Kills go through all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from flights.markup import tag, text
from flights.story import KillStory, Sample, Sighting, Story

WIDTH = 1080
LEFT, RIGHT = 56, 1068
KILLS_Y = 16
OFFSETS = (40, 210)
LAG = (244, 314)
BATCHES = (346, 384)
TIMES_Y = 404
HEIGHT = 412
"""Places in the drawing; a panel is its (top, bottom)."""

KILL_RADIUS = 9.5
BATCH_RADIUS = (3.0, 9.0)
CROSS_ARM = 6

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
    x = _scale(axes.seconds, LEFT, RIGHT)
    parts = [
        *_recoveries(story.kills, x),
        *_panel("offsets", axes.offsets, OFFSETS),
        *_panel("lag", axes.lag, LAG),
        *_times(axes.seconds, x),
        *_offsets(story.samples, x, _scale(axes.offsets, OFFSETS[1], OFFSETS[0])),
        *_lag(story.samples, x, _scale(axes.lag, LAG[1], LAG[0])),
        *_kills(story.kills, x),
        *_hovers(story.samples, x),
        *_batches(story, x, axes.batch_rows),
    ]
    label = f"Timeline of {story.pipeline}: offsets, lag, batches and kills over {story.duration_s:.0f} seconds"
    return tag("svg", *parts, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=label)


# Axes -----------------------------------------------------------------------------------------------------------------


def round_steps(largest: float, most: int) -> list[float]:
    """At most `most` round numbers above 0 and up to `largest`, evenly apart."""
    rough = largest / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [step * count for count in range(1, math.floor(largest / step) + 1)]


def _scale(largest: float, start: float, end: float) -> Scale:
    return lambda value: round(start + (end - start) * value / largest, 1)


def _panel(name: str, largest: int, panel: tuple[int, int]) -> Iterable[str]:
    top, bottom = panel
    y = _scale(largest, bottom, top)
    yield tag("text", text(name), class_="name", x=LEFT, y=top - 10)
    for value in (0.0, *round_steps(largest, 4 if bottom - top > 100 else 2)):
        yield tag("line", class_="grid" if value else "axis", x1=LEFT, x2=RIGHT, y1=y(value), y2=y(value))
        yield tag("text", _short(value), class_="tick", x=LEFT - 8, y=y(value) + 4, text_anchor="end")


def _short(value: float) -> str:
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"


def _times(seconds: float, x: Scale) -> Iterable[str]:
    for value in (0.0, *round_steps(seconds, 12)):
        yield tag("text", f"{value:g} s", class_="tick", x=x(value), y=TIMES_Y, text_anchor="middle")


# Series ---------------------------------------------------------------------------------------------------------------


def _offsets(samples: Sequence[Sample], x: Scale, y: Scale) -> Iterable[str]:
    stable = [f"{x(sample.at_s)},{y(sample.lso)}" for sample in samples]
    read = [f"{x(sample.at_s)},{y(sample.position)}" for sample in samples]
    yield tag("polygon", class_="gap", points=" ".join([*stable, *reversed(read)]))
    yield tag("polyline", class_="line stable", points=" ".join(stable))
    yield tag("polyline", class_="line read", points=" ".join(read))


def _lag(samples: Sequence[Sample], x: Scale, y: Scale) -> Iterable[str]:
    line = [f"{x(sample.at_s)},{y(sample.lag)}" for sample in samples]
    foot = [f"{x(sample.at_s)},{y(0)}" for sample in (*samples[-1:], *samples[:1])]
    yield tag("polygon", class_="gap", points=" ".join([*line, *foot]))
    yield tag("polyline", class_="line lag", points=" ".join(line))


def _hovers(samples: Sequence[Sample], x: Scale) -> Iterable[str]:
    """One invisible column per sample, whose tooltip has the numbers."""
    for sample, following in pairwise(samples):
        numbers = (
            f"{sample.at_s:.0f} s: last stable offset {sample.lso:,}, read by the query {sample.position:,}, "
            f"lag {sample.lag:,}, undecided {sample.log_end - sample.lso:,}"
        )
        left, right = x(sample.at_s), x(following.at_s)
        yield _column("hover", left, right, LAG[1], tag("title", numbers))


def _column(kind: str, left: float, right: float, bottom: float, *content: str) -> str:
    size = {"width": round(right - left, 1), "height": bottom - OFFSETS[0]}
    return tag("rect", *content, class_=kind, x=left, y=OFFSETS[0], **size)


# Kills and batches ----------------------------------------------------------------------------------------------------


def _recoveries(kills: Iterable[KillStory], x: Scale) -> Iterable[str]:
    for story in kills:
        yield _column("recovery", x(story.at_s), x(story.at_s + story.recovered_s), BATCHES[1])


def _kills(kills: Iterable[KillStory], x: Scale) -> Iterable[str]:
    for number, story in enumerate(kills, start=1):
        at = x(story.at_s)
        what = (
            f"kill {number} at {story.at_s:.1f} s: {story.kill}, batch {story.batch}; "
            f"a new batch {story.recovered_s:.1f} s later"
        )
        yield tag("line", class_="kill", x1=at, x2=at, y1=KILLS_Y + KILL_RADIUS, y2=BATCHES[1])
        yield tag(
            "g",
            tag("circle", class_="kill-badge", cx=at, cy=KILLS_Y, r=KILL_RADIUS),
            tag("text", str(number), class_="kill-number", x=at, y=KILLS_Y + 4, text_anchor="middle"),
            tag("title", text(what)),
        )


def _batches(story: Story, x: Scale, most_rows: int) -> Iterable[str]:
    middle = (BATCHES[0] + BATCHES[1]) / 2
    halves = {half.batch for half in story.half_batches}
    smallest, largest = BATCH_RADIUS
    yield tag("text", "batches", class_="name", x=LEFT, y=BATCHES[0] - 6)
    yield tag("line", class_="axis", x1=LEFT, x2=RIGHT, y1=middle, y2=middle)
    for sighting in story.sightings:
        radius = round(smallest + (largest - smallest) * math.sqrt(sighting.rows / most_rows), 1)
        yield _batch(sighting, x(sighting.at_s), middle, radius, is_half=sighting.batch in halves)


def _batch(sighting: Sighting, x: float, y: float, radius: float, *, is_half: bool) -> str:
    what = f"{sighting.at_s:.1f} s: batch {sighting.batch}, {sighting.rows:,} rows"
    if sighting.copies:
        arms = f"M{x - CROSS_ARM} {y - CROSS_ARM}l{2 * CROSS_ARM} {2 * CROSS_ARM}m0 {-2 * CROSS_ARM}"
        cross = tag("path", class_="copies", d=f"{arms}l{-2 * CROSS_ARM} {2 * CROSS_ARM}")
        target = tag("circle", class_="hover", cx=x, cy=y, r=CROSS_ARM + 3)
        return tag("g", cross, target, tag("title", f"{what}, {sighting.copies:,} of them copies"))
    if is_half:
        half = f"M{x} {y - radius}A{radius} {radius} 0 0 0 {x} {y + radius}Z"
        return tag("path", tag("title", f"{what}: half a batch"), class_="half", d=half)
    return tag("circle", tag("title", what), class_="batch", cx=x, cy=y, r=radius)
